"""Measurements behind the figures in the documentation; `make bench` runs them."""
