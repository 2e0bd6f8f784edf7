"""`zerorag top`: a read-only window on running nodes, in the terminal."""
