"""Servers of models that speak OpenAI's interface."""
