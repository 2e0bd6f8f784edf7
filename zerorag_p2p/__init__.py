"""ZeroRAG P2P: documents stay with their owners, the question travels."""

__version__ = "0.1.0"
