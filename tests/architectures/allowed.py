"""Architectures that are not compared bit for bit."""

ASKS = frozenset({"transformers/mamba", "transformers/falcon_mamba"})
"""They ask whether they are being compiled, and scan by an op then which eager code cannot call:
sums are rounded otherwise, as with torch.compile. They are compared within a tolerance."""
