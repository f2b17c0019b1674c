"""PyTorch's own op database: ops, and the same sample inputs as often as they are asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from types import FunctionType
from typing import Any

import numpy
import torch
from torch.utils._pytree import tree_leaves, tree_map

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
SEED = 20260101

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of an op, by position and by name."""


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """All samples of an op in one dtype."""

    op: str
    dtype: str
    backward: bool

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.op} {self.dtype}{' backward' if self.backward else ''}"


def traceable(function: Any) -> Any:
    """An op's function, as if a program had written it: torch's own tests are not traced."""
    if not isinstance(function, FunctionType) or not _is_of_tests(function):
        return function
    known = function.__globals__
    globals_ = {**known, "__name__": "samples", "wrapper_set_seed": _called}
    copy = FunctionType(
        function.__code__, globals_, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = "samples"
    return copy


def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """In place of a call that seeds first: each run starts from a known random state."""
    return function(*args, **kwargs)


def _is_of_tests(function: FunctionType) -> bool:
    return function.__globals__.get("__name__", "").startswith("torch.testing.")


def database() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import (  # noqa: PLC0415  # seconds
        op_db,
    )

    return list(op_db)


def tasks(
    ops: list[Any], dtypes: list[torch.dtype], pattern: str, directions: tuple[bool, ...]
) -> Iterator[Task]:
    for op in ops:
        if not re.search(pattern, op.formatted_name):
            continue
        for dtype in dtypes:
            name = str(dtype).removeprefix("torch.")
            if False in directions and dtype in op.supported_dtypes("cpu"):
                yield Task(op.formatted_name, name, False)
            if True in directions and differentiable(op, dtype):
                yield Task(op.formatted_name, name, True)


def differentiable(op: Any, dtype: torch.dtype) -> bool:
    return bool(op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"))


def samples(op: Any, dtype: torch.dtype, *, grad: bool) -> Iterator[Call]:
    """Equal ones each time, and no tensor twice; none where the database cannot make them."""
    torch.default_generator.manual_seed(SEED)
    random.seed(SEED)
    numpy.random.seed(SEED)
    try:
        # `op.sample_inputs` seeds for each of them, which takes 2 ms
        for sample in op.sample_inputs_func(op, "cpu", dtype, grad):
            yield (sample.input, *sample.args), dict(sample.kwargs)
    except (RuntimeError, NotImplementedError, ImportError):
        return


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


_WIDER = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex64: torch.complex128,
}


def wider(value: Any) -> Any:
    """The same values as float64; one tensor for one, also where samples share it."""
    known: dict[int, torch.Tensor] = {}

    def of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dtype not in _WIDER:
            return leaf
        if id(leaf) not in known:
            copy = leaf.detach().to(_WIDER[leaf.dtype])
            known[id(leaf)] = copy.requires_grad_(leaf.requires_grad)
        return known[id(leaf)]

    return tree_map(of, value)


def backward(results: Any, given: Any) -> list[torch.Tensor | None]:
    """Gradients of all results together, by each tensor that was given."""
    ends = [x for x in tensors(results) if x.requires_grad]
    unique = {id(x): x for x in tensors(given) if x.requires_grad and x.is_leaf}
    if not ends or not unique:
        return []
    generator = torch.Generator().manual_seed(SEED)
    return list(
        torch.autograd.grad(
            ends, list(unique.values()), [_gradient(x, generator) for x in ends], allow_unused=True
        )
    )


def _gradient(of: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if of.layout is not torch.strided or of.is_nested:
        return torch.ones_like(of)
    numbers = torch.randint(-4, 5, of.shape, generator=generator) / 4
    return numbers.to(of.dtype)
