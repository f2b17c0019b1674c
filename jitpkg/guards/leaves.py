"""C functions that `import torch` brings and that test guards faster than Python does.

Where one is missing, or fails its test, the guards' own text is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitpkg.facts.sizes import Length, Size
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals import c_guards
from jitpkg.internals.c_guards import class_dictionary

__all__ = ["class_dictionary", "compares_state", "compares_tensors", "dict_version"]

Check = Callable[..., bool]


def tensor_check(
    tensors: Sequence[torch.Tensor], facts: Sequence[TensorFacts] | None = None
) -> Check:
    """A function of as many tensors: whether each has the metadata, class and dispatch keys of
    the one in its place, and all are distinct objects. 100 ns a tensor, against 330 in Python.

    Sizes and strides that are expressions in `facts` are not compared.
    """
    make = c_guards.TENSORS.get()
    if facts is None or not any(f.is_symbolic for f in facts):
        plain: Check = make(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return plain
    sizes: Any = [_numbers(f.size) for f in facts]
    strides: Any = [_numbers(f.stride) for f in facts]
    check: Check = make(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    return check


def _numbers(lengths: Sequence[Length]) -> list[int | None]:
    return [None if isinstance(length, Size) else length for length in lengths]


def global_state_check() -> Check:
    """A function of nothing: whether grad mode, autocast, default dtype, deterministic mode,
    thread count and torch-function switches are as now. 140 ns, against 260 in Python."""
    check: Check = c_guards.GLOBAL_STATE.get()().check
    return check


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def is_mutable(cls: type) -> bool:
    """Whether attributes of the class itself can be set."""
    return bool(cls.__flags__ & _HEAP_TYPE and not cls.__flags__ & _IMMUTABLE)


def compares_tensors() -> bool:
    """Whether there is `tensor_check`."""
    return c_guards.TENSORS.found() is not None


def compares_state() -> bool:
    """Whether there is `global_state_check`."""
    return c_guards.GLOBAL_STATE.found() is not None


def dict_version() -> Callable[[dict[str, object]], int] | None:
    """Gives a number that is another one after each change of which keys and values a dictionary
    has, in 50 ns."""
    return c_guards.DICT_VERSION.found()
