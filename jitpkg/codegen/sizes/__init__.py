"""Graphs whose sizes vary: for one set of sizes, or with symbols in their place."""
