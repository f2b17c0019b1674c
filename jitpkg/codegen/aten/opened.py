"""Functions that are recorded as a whole, unless all that they come to become kernels.

What a function comes to on the CPU may depend on how its arguments lie in memory, where stand-ins
on the meta device come to something else. Those that `facts.single.RECORDED` names compute the
same by either; that results lie in memory as in eager code is seen here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitpkg.facts import meta
from jitpkg.facts.single import RECORDED
from jitpkg.internals import trees
from jitpkg.internals.ops import OpOverload, schema
from jitpkg.internals.tensors import memory
from jitpkg.interrupts import from_outside

IsLowered = Callable[[OpOverload], bool]
"""Whether an op can become kernels, for some of its arguments."""


def opens(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
    is_lowered: IsLowered,
) -> bool:
    """Whether the ops of a function can stand for a call that is known to return `result`."""
    if name not in RECORDED:
        return False
    try:
        seen, made = meta.ops_of(function, args, kwargs)
    except Exception as error:  # no row answers
        if from_outside(error):
            raise
        return False
    given = {memory(leaf) for leaf in trees.leaves_of((args, kwargs)) if _is_tensor(leaf)}
    if any(memory(leaf) in given for leaf in trees.leaves_of(made) if _is_tensor(leaf)):
        return False
    if any(schema(op).is_mutable for op in seen) or not any(map(is_lowered, seen)):
        return False
    if not all(is_lowered(op) or meta.is_view(op) for op in seen):
        return False
    return _facts(made) == _facts(result)


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor)


def _facts(result: Any) -> list[Any]:
    return [
        (leaf.dtype, tuple(leaf.shape), leaf.stride()) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in trees.leaves_of(result)
    ]
