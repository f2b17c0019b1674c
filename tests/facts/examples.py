"""Facts of small tensors that lie in memory in many ways, and calls with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from jitpkg.facts.tensor import TensorFacts, facts_of

LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "matrix": lambda: torch.zeros(3, 4),
    "transposed": lambda: torch.zeros(4, 3).t(),
    "sliced": lambda: torch.zeros(6, 4)[::2],
    "columns": lambda: torch.zeros(3, 8)[:, ::2],
    "expanded": lambda: torch.zeros(3, 1).expand(3, 4),
    "row": lambda: torch.zeros(4),
    "column": lambda: torch.zeros(3, 1),
    "number": lambda: torch.zeros(()),
    "one": lambda: torch.zeros(1, 1),
    "empty": lambda: torch.zeros(0, 4),
    "cube": lambda: torch.zeros(2, 3, 4),
    "turned cube": lambda: torch.zeros(4, 2, 3).permute(1, 2, 0),
    "images": lambda: torch.zeros(2, 3, 6, 6),
    "channels last": lambda: torch.zeros(2, 3, 6, 6).to(memory_format=torch.channels_last),
    # Strides on which no element's place depends
    "gray": lambda: torch.empty(2, 1, 6, 6, memory_format=torch.channels_last),
    "pixels": lambda: torch.empty(2, 3, 1, 1, memory_format=torch.channels_last),
    "image": lambda: torch.empty(1, 3, 6, 6, memory_format=torch.channels_last),
    "no images": lambda: torch.empty(0, 3, 6, 6, memory_format=torch.channels_last),
    "empty, turned": lambda: torch.zeros(4, 0).t(),
    "empty, sliced": lambda: torch.zeros(2, 0, 8)[..., ::2],
    "empty, expanded": lambda: torch.zeros(0, 1).expand(0, 4),
    "one of columns": lambda: torch.zeros(3, 4)[:, 1:2],
    "one of rows": lambda: torch.zeros(4, 3).t()[1:2],
    "repeated": lambda: torch.zeros(1, 1).expand(3, 1),
}

FLOATS = (torch.float32, torch.float64, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.bool)


EXAMPLES = [
    *((layout, torch.float32, grad) for layout in LAYOUTS for grad in (False, True)),
    *((layout, dtype, False) for layout in ("matrix", "number") for dtype in DTYPES),
]
"""Layouts, dtypes, and whether a gradient is required."""


def facts(layout: str = "matrix", dtype: torch.dtype = torch.float32, grad: bool = False) -> Any:
    """Facts of an example, as those of an intermediate result where it requires grad."""
    real = LAYOUTS[layout]()
    found = facts_of(real)
    return replace(found, dtype=dtype, requires_grad=grad, is_leaf=not grad)


def of(*size: int, dtype: torch.dtype = torch.float32) -> TensorFacts:
    return replace(facts_of(torch.zeros(size)), dtype=dtype)


def method(name: str) -> Callable[..., Any]:
    return lambda tensor, *args, **kwargs: getattr(tensor, name)(*args, **kwargs)


@dataclass(frozen=True)
class Case:
    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def case(name: str, *args: Any, call: Callable[..., Any] | None = None, **kwargs: Any) -> Case:
    """A call of a method, unless another function of the name is given."""
    return Case(name, call or method(name), args, kwargs)


M, C = facts(), facts("cube")
I64 = of(3, dtype=torch.int64)
IMAGES = facts("images", grad=True)
MASK = facts(dtype=torch.bool)
