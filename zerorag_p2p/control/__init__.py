"""The local HTTP interface of a node."""
