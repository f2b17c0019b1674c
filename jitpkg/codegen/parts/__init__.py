"""Graphs of which a backend gets the parts only: what is between them Python does."""
