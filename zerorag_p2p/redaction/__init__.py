"""Redaction: what is taken out of a text before it leaves, and by which rules."""
