"""Retrieval-augmented generation: from a question to an answer with its sources."""
