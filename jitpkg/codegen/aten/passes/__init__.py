"""Passes over a prepared graph; each leaves a graph that computes the same, bit for bit."""
