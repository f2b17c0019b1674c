"""NumPy's numbers, which are constants, and its functions that are called on constants.

PyTorch takes a NumPy number for a Python number wherever an op takes a number; where it takes data,
as `torch.tensor` does, it looks at its dtype, and where it takes a bool, one of NumPy's is another
thing than one of Python's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from types import MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

_NUMBERS = """
float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8
""".split()

_FUNCTIONS = "prod sum max amax min amin round around clip argmax argmin ndim size isscalar".split()
"""Besides the ufuncs."""

_METHODS = frozenset("item astype round conj conjugate is_integer as_integer_ratio".split())
"""Methods of numbers; those of arrays that numbers have as well are left to Python."""


def _numpy() -> ModuleType | None:
    """The module, if the program has it whole; PyTorch imports it where it is installed."""
    numpy = sys.modules.get("numpy")
    return numpy if hasattr(numpy, "test") else None  # which it defines last


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the module."""

    numbers: frozenset[type]
    classes: frozenset[type]
    """Those of numbers and bools."""
    pure: frozenset[object]
    """Functions and classes that may be called on constants."""
    of_functions: tuple[type, ...]
    """The classes of its functions."""


@lru_cache(maxsize=1)
def _of(numpy: Any) -> _Known:
    numbers = frozenset(getattr(numpy, name) for name in _NUMBERS)
    ufuncs = {value for value in vars(numpy).values() if isinstance(value, numpy.ufunc)}
    functions = {getattr(numpy, name) for name in _FUNCTIONS}
    classes = numbers | {numpy.bool_}
    of_functions = tuple({numpy.ufunc, *map(type, functions)})
    return _Known(numbers, classes, frozenset({*ufuncs, *functions, *classes}), of_functions)


def is_number(obj: object) -> bool:
    """Whether an op takes an object for the Python number that `item()` gives."""
    numpy = _numpy()
    return numpy is not None and type(obj) in _of(numpy).numbers


def plain(number: Any) -> int | float:
    """The Python number that an op takes in place of one of NumPy's."""
    found: int | float = number.item()
    return found


def is_scalar(cls: type) -> bool:
    """Whether the instances of a class are constants: NumPy's numbers and bools."""
    numpy = _numpy()
    return numpy is not None and cls in _of(numpy).classes


def is_function(obj: object) -> bool:
    """Whether an object is of a class that NumPy's functions are of."""
    numpy = _numpy()
    return numpy is not None and isinstance(obj, _of(numpy).of_functions)


def is_pure(function: object) -> bool:
    """Whether a function of NumPy's, or a method of its numbers, may be called on constants.

    Raises:
        TypeError: It has no hash.
    """
    numpy: Any = _numpy()
    if numpy is None:
        return False
    known = _of(numpy)
    match function:
        case WrapperDescriptorType(__objclass__=owner):
            return owner is numpy.generic or owner in known.classes
        case MethodDescriptorType(__objclass__=owner, __name__=name):
            return name in _METHODS and (owner is numpy.generic or owner in known.classes)
        case _:
            return function in known.pure


def computing(
    function: Callable[..., Any], operands: Iterable[object]
) -> AbstractContextManager[Any]:
    """In which constants are computed: where NumPy would warn, it raises FloatingPointError."""
    numpy: Any = _numpy()
    if numpy is None:
        return nullcontext()
    if is_pure(function) or any(type(operand) in _of(numpy).classes for operand in operands):
        manager: AbstractContextManager[Any] = numpy.errstate(all="raise")
        return manager
    return nullcontext()
