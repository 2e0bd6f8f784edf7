"""The protocols: messages, limits and their deterministic encoding. No input or output."""
