"""Turning text into vectors."""
