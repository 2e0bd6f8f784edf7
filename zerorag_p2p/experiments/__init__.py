"""Experiments: what is run, measured, compared and plotted."""
