"""Decompositions of torch's in Python, which AOTAutograd and symbolic sizes bring into use, where
they are wrong: in torch 2.11 that of an LSTM leaves its last states a dim too many, but for a batch
of one.
"""

from __future__ import annotations

from functools import cache

import torch


def is_lstm(function: object) -> bool:
    return getattr(function, "__name__", None) == "lstm"


@cache
def lstm_is_right() -> bool:
    """Whether the states that come out of the decomposition have the sizes of those that go in."""
    from torch._decomp import decompositions  # a tenth of a second

    layer = getattr(decompositions, "one_layer_lstm", None)
    if layer is None:
        return True
    state, weight = torch.empty(2, 3, device="meta"), torch.empty(12, 3, device="meta")
    given = torch.empty(1, 2, 3, device="meta")
    _, (last, _) = layer(given, [state, state], [weight, weight], has_biases=False)
    return bool(last.shape == state.shape)
