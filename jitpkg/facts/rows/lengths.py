"""Functions whose C++ takes sizes for plain numbers: what they return where these vary.

Run on stand-ins, they would ask for the number itself, and the answer would hold for it alone. So a
row answers for the whole function, and the function stays one call of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.rows.common import empty, lies_in_order, sure
from jitpkg.facts.rows.composites import COMPOSITE_ROWS
from jitpkg.facts.rows.creation import factory
from jitpkg.facts.rows.functions import Made, of_data, one, one_hot

Row = Callable[..., tuple[Made, Any]]

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_INTS = (int, torch.SymInt)


def _spaced(start: Any, end: Any, steps: Any, base: Any = 10.0, **given: Any) -> tuple[Made, Any]:
    """`linspace` and `logspace`."""
    sure(all(type(n) in (float, *_INTS) for n in (start, end)))
    sure(type(base) in (int, float) and type(steps) in _INTS)
    sure(steps > 0)
    return _made_of_nothing(steps, given, _FLOATS)


def _window(length: Any, periodic: bool = True, **given: Any) -> tuple[Made, Any]:
    """`hann_window` and its like."""
    sure(type(length) in _INTS and length > 1 and type(periodic) is bool)
    return _made_of_nothing(length, given, _FLOATS[:2])


def _kaiser(length: Any, periodic: bool = True, beta: Any = 12.0, **given: Any) -> tuple[Made, Any]:
    sure(type(beta) in (int, float))
    return _window(length, periodic, **given)


def _made_of_nothing(
    length: Any, given: Mapping[str, Any], dtypes: tuple[torch.dtype, ...]
) -> tuple[Made, Any]:
    sure(given.keys() <= {"dtype", "device", "layout", "pin_memory"})
    sure(given.get("dtype") in (None, *dtypes))
    return one(factory(None, ([length],), given))


_RANKS = {
    **dict.fromkeys(("linear",), (3,)),
    **dict.fromkeys(("bilinear", "bicubic"), (4,)),
    **dict.fromkeys(("nearest", "nearest-exact"), (3, 4)),
}


def _interpolate(
    input: Any,  # noqa: A002
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> tuple[Made, Any]:
    x = input
    sure(x.dtype in _FLOATS and x.dim() in _RANKS.get(mode, ()) and not antialias)
    sure(align_corners is None or "nearest" not in mode)
    sure(x.numel() > 0 and (x.dim() == 3 or lies_in_order(x)))
    sure(all(n > 1 for n in x.shape[2:]))
    sure((size is None) is not (scale_factor is None) and not recompute_scale_factor)
    lengths = x.shape[2:]
    given = size if scale_factor is None else scale_factor
    given = list(given) if isinstance(given, tuple | list) else [given] * len(lengths)
    sure(len(given) == len(lengths))
    if scale_factor is not None:
        given = [_scaled(n, factor) for n, factor in zip(lengths, given, strict=True)]
    sure(all(type(n) in _INTS and n > 0 for n in given))
    return one(empty((*x.shape[:2], *given), x.dtype), x)


def _scaled(length: Any, factor: Any) -> Any:
    """`floor(length * factor)`: where the factor has few digits, floats compute it exactly."""
    sure(type(factor) in (int, float) and math.isfinite(factor) and factor > 0)
    times, parts = factor.as_integer_ratio()
    sure(times < 2**21)
    sure(length < 2**31)
    return length * times // parts


LENGTH_ROWS: Mapping[str, Row] = MappingProxyType(
    {
        **COMPOSITE_ROWS,
        "linspace": _spaced,
        "logspace": _spaced,
        "tensor": of_data,
        "one_hot": one_hot,
        "interpolate": _interpolate,
        "kaiser_window": _kaiser,
        **dict.fromkeys(
            ("hann_window", "hamming_window", "blackman_window", "bartlett_window"), _window
        ),
    }
)
"""By the name of the function."""
