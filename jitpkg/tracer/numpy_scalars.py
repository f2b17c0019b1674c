"""NumPy's numbers, which are constants, and its functions that are called on constants.

PyTorch takes a NumPy number for a Python number wherever an op takes a number; where it takes data,
as `torch.tensor` does, it looks at its dtype, and where it takes a bool, one of NumPy's is another
thing than one of Python's.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.heard import Heard

_NUMBERS = """
float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8
""".split()

_FUNCTIONS = """
prod sum max amax min amin round around clip argmax argmin ndim size isscalar
""".split()
"""Besides the ufuncs, and those that make arrays."""

_OF_NEW_ARRAYS = """
array asarray ascontiguousarray copy zeros ones full arange linspace logspace geomspace eye identity
tri tril triu stack concatenate vstack hstack column_stack tile repeat cumsum cumprod diff sort
argsort where mean std var median any all reshape ravel transpose expand_dims squeeze swapaxes flip
roll outer hanning hamming blackman bartlett kaiser
""".split()

_PRODUCTS = ("matmul", "vecdot", "matvec", "vecmat")
"""Of arrays: how libraries add depends on where these lie."""

_METHODS = frozenset("item astype round conj conjugate is_integer as_integer_ratio".split())
"""Methods of numbers; those of arrays that numbers have as well are left to Python."""

_METHODS_OF_ARRAYS = frozenset(
    """
    item tolist astype copy round clip sum prod mean std var min max argmin argmax any all cumsum
    cumprod repeat flatten ravel reshape transpose squeeze swapaxes
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__
    __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ __neg__ __pos__ __abs__ __invert__ __lt__ __le__
    __eq__ __ne__ __gt__ __ge__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __getitem__ __len__
    __bool__ __int__ __float__ __index__
    """.split()
)
"""Methods of arrays that change nothing."""


def module() -> ModuleType | None:
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
    ufuncs -= {getattr(numpy, name, None) for name in _PRODUCTS}
    functions = {getattr(numpy, name) for name in (*_FUNCTIONS, *_OF_NEW_ARRAYS)}
    classes = numbers | {numpy.bool_}
    of_functions = tuple({numpy.ufunc, *map(type, functions)} - {FunctionType, BuiltinFunctionType})
    return _Known(numbers, classes, frozenset({*ufuncs, *functions, *classes}), of_functions)


def is_number(obj: object) -> bool:
    """Whether an op takes an object for the Python number that `item()` gives."""
    numpy = module()
    return numpy is not None and type(obj) in _of(numpy).numbers


def plain(number: Any) -> int | float:
    """The Python number that an op takes in place of one of NumPy's."""
    found: int | float = number.item()
    return found


def is_scalar(cls: type) -> bool:
    """Whether the instances of a class are constants: NumPy's numbers and bools."""
    numpy = module()
    return numpy is not None and cls in _of(numpy).classes


def array_class() -> type:
    """The class of its arrays; where the program has none, one that has no instances."""
    numpy: Any = module()
    found: type = _NoArray if numpy is None else numpy.ndarray
    return found


class _NoArray:
    """Stands for the class of arrays where there is no NumPy."""


def is_dtype(obj: object) -> bool:
    """Whether an object is one of the dtypes of which there is one object each, and a constant."""
    numpy: Any = module()
    return numpy is not None and isinstance(obj, numpy.dtype) and id(obj) in _dtypes(numpy)


def share(a: Any, b: Any) -> bool:
    """Whether two arrays may share memory."""
    numpy: Any = module()
    return bool(numpy.may_share_memory(a, b))


def why_no_constant(array: Any) -> str | None:
    """Why an array of constants is none that tracing knows; None where it is."""
    count, dtype, cls = array.size, array.dtype, type(array)
    if cls is not array_class() or not is_dtype(dtype):
        return f"of {dtype}"
    return None if 0 < count <= _MOST else "that is empty, or very large"


_MOST = 1 << 16
"""Elements of an array that an entry holds."""


def is_large(function: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a function would make an array that an entry does not hold."""
    name = getattr(function, "__name__", "")
    count = _COUNTS.get(name) if is_pure(function) else None
    try:
        return count is not None and count(*args, **named) > _MOST
    except (TypeError, ValueError, ZeroDivisionError):
        return False  # the call itself raises


def _of_shape(shape: Any, *args: Any, **named: Any) -> int:
    return math.prod(shape) if isinstance(shape, tuple | list) else int(shape)


def _of_square(n: int, m: int | None = None, *args: Any, **named: Any) -> int:
    return n * (n if m is None else m)


def _of_range(start: float, stop: float | None = None, step: float = 1, **named: Any) -> float:
    begin, end = (0, start) if stop is None else (start, stop)
    return (end - begin) / step


def _of_space(start: float, stop: float, num: int = 50, *args: Any, **named: Any) -> int:
    return num


_COUNTS: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        **dict.fromkeys(("zeros", "ones", "full"), _of_shape),
        **dict.fromkeys(("eye", "identity", "tri"), _of_square),
        "arange": _of_range,
        **dict.fromkeys(("linspace", "logspace", "geomspace"), _of_space),
    }
)
"""How many elements these make."""


def dtype_of(dtype: torch.dtype) -> Any:
    """The dtype of an array that shares memory with a tensor; None where there is none, or none
    that tracing knows."""
    numpy: Any = module()
    name = str(dtype).removeprefix("torch.")
    return numpy.dtype(name) if numpy is not None and name in _OF_ARRAYS else None


def torch_dtype(dtype: object) -> torch.dtype | None:
    """The other way round; None where there is none."""
    numpy: Any = module()
    for name in _OF_ARRAYS:
        if numpy is not None and numpy.dtype(name) is dtype:
            found: torch.dtype = getattr(torch, name)
            return found
    return None


_OF_ARRAYS = "float32 float64 int64 uint8 int32 bool float16 int16 int8".split()


@lru_cache(maxsize=1)
def _dtypes(numpy: Any) -> frozenset[int]:
    return frozenset(id(numpy.dtype(name)) for name in (*_NUMBERS, "bool"))


def is_function(obj: object) -> bool:
    """Whether an object is of a class that NumPy's functions are of."""
    numpy = module()
    return numpy is not None and isinstance(obj, _of(numpy).of_functions)


def takes_arrays(function: object) -> bool:
    """Whether a function is NumPy's, or an operator that calls what is: it depends on no setting,
    as that of how arrays are shown."""
    if getattr(function, "__module__", None) == "_operator" or function in (abs, transpose_of):
        return function not in (operator.matmul, operator.imatmul)
    return is_pure(function)


def transpose_of(array: Any) -> Any:
    """`array.T`"""
    return array.T


def is_pure(function: object) -> bool:
    """Whether a function of NumPy's, or a method of its numbers, may be called on constants.

    Raises:
        TypeError: It has no hash.
    """
    numpy: Any = module()
    if numpy is None:
        return False
    known = _of(numpy)
    match function:
        case WrapperDescriptorType(__objclass__=owner) if issubclass(owner, numpy.dtype):
            return True
        case MethodDescriptorType() | WrapperDescriptorType() if (
            function.__objclass__ is numpy.ndarray
        ):
            return function.__name__ in _METHODS_OF_ARRAYS
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
    numpy: Any = module()
    if numpy is None:
        return nullcontext()
    classes = {*_of(numpy).classes, numpy.ndarray}
    if is_pure(function) or any(type(operand) in classes for operand in operands):
        return _without_warnings(numpy)
    return nullcontext()


@contextmanager
def _without_warnings(numpy: Any) -> Iterator[None]:
    with Heard() as heard, numpy.errstate(all="raise"):
        yield
    if heard.any:
        raise FloatingPointError("it warns")
