"""Torch's own decompositions of ops into others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitpkg.internals.row import Row

LSTM_LAYER = Row[Callable[..., Any]](
    "torch._decomp.decompositions.one_layer_lstm",
    use="trying whether LSTMs of varying sizes come out right",
    lost="LSTMs are compiled for each size",
)
