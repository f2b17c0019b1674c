"""ATen's ops by the cheapest way that Python has to them.

An `OpOverload` matches its arguments against a schema at each call: a `mm` of 8 x 8 takes 4.5 µs by
it and 2.9 by `torch.mm`, an `expand` 5.7 and 3.4 (torch 2.13, medians on a busy machine).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from jitpkg.internals.ops import OpOverload

_ATEN = torch.ops.aten

BINDINGS: Mapping[OpOverload, Callable[..., Any]] = MappingProxyType(
    {
        _ATEN.addmm.default: torch.addmm,
        _ATEN.baddbmm.default: torch.baddbmm,
        _ATEN.bmm.default: torch.bmm,
        _ATEN.convolution.default: torch.convolution,
        _ATEN.embedding.default: torch.embedding,
        _ATEN.expand.default: Tensor.expand,
        _ATEN.mm.default: torch.mm,
        _ATEN.permute.default: torch.permute,
        _ATEN.select.int: torch.select,
        _ATEN.squeeze.dim: torch.squeeze,
        _ATEN.squeeze.dims: torch.squeeze,
        _ATEN.t.default: torch.t,
        _ATEN.transpose.int: torch.transpose,
        _ATEN.unsqueeze.default: torch.unsqueeze,
        _ATEN.view.default: Tensor.view,
    }
)
"""Functions that call the overload where they are given its arguments by position."""
