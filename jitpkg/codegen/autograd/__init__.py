"""Graphs that are differentiated by torch's own engine, over tensors without data."""
