"""Architectures that do not compute the same when they are compiled, by their own choice."""

ASKS = frozenset({"transformers/mamba", "transformers/falcon_mamba"})
"""They ask whether they are being compiled, and scan in another order then: sums are rounded
otherwise, as with torch.compile. They are compared within a tolerance."""
