"""How the graph runs: backends by name."""
