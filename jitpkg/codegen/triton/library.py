"""What printed kernels call: functions that Triton has not, or has not on every dtype.

Under Triton's interpreter (`TRITON_INTERPRET=1` before the first import of triton) there are no
libdevice functions, and folds with functions of one's own take a step of Python for each element:
there, functions of torch on the interpreter's arrays stand in.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
# What stands under `@jit` is Triton's language, which has no such types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice
from triton.runtime.interpreter import InterpretedFunction, TensorHandle

jit: Any = triton.jit


@jit
def _probe(x):
    return x


INTERPRETS = isinstance(_probe, InterpretedFunction)
"""Whether functions here run in Triton's interpreter."""


# Elementwise


@jit
def maximum(a, b):
    """Of floats: a NaN on either side is the result."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@jit
def minimum(a, b):
    """Of floats: a NaN on either side is the result."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@jit
def maximum64(a, b):
    """Of float64, for which there is no instruction that keeps NaNs."""
    return tl.where((a > b) | (a != a), a, b)


@jit
def minimum64(a, b):
    """Of float64, for which there is no instruction that keeps NaNs."""
    return tl.where((a < b) | (a != a), a, b)


@jit
def floordiv(a, b):
    """Of signed integers, rounded down; `//` truncates."""
    quotient = a // b
    rest = a - quotient * b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)


@jit
def mod(a, b):
    """Of signed integers, with the sign of the divisor; `%` has that of the dividend."""
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@jit
def signbit(x):
    return x.to(tl.int32, bitcast=True) < 0


@jit
def signbit64(x):
    return x.to(tl.int64, bitcast=True) < 0


@jit
def bfloat16(x):
    """Of float32, rounded to the nearest; the interpreter's own cast truncates."""
    return x.to(tl.bfloat16)


@jit
def of_bfloat16(x):
    """As float32; the interpreter's own cast loses subnormal numbers."""
    return x.to(tl.float32)


# Indices out of the data


@jit
def checked(index, extent, active):
    """An index that may count from the end. One that is out of range ends the kernel, where it is
    compiled with assertions; it is never followed."""
    index = tl.where(index < 0, index + extent, index)
    is_inside = (index >= 0) & (index < extent)
    tl.device_assert(is_inside | (not active), "an index is out of range")
    return tl.where(is_inside, index, 0)


# Folds along a dim of a tile


@jit
def _or(a, b):
    return a | b


@jit
def _and(a, b):
    return a & b


@jit
def _mul(a, b):
    return a * b


@jit
def more(a, i, b, k):
    """The larger of two values, and its position: a NaN is the most, and the first one counts."""
    takes = (a > b) | ((a != a) & (b == b))
    equal = (a == b) | ((a != a) & (b != b))
    takes = takes | (equal & (i < k))
    return tl.where(takes, a, b), tl.where(takes, i, k)


@jit
def less(a, i, b, k):
    """The smaller of two values, and its position: a NaN is the least, the first one counts."""
    takes = (a < b) | ((a != a) & (b == b))
    equal = (a == b) | ((a != a) & (b != b))
    takes = takes | (equal & (i < k))
    return tl.where(takes, a, b), tl.where(takes, i, k)


@jit
def fold_sum(x, axis: tl.constexpr):
    return tl.sum(x, axis).to(x.dtype)


@jit
def fold_prod(x, axis: tl.constexpr):
    return tl.reduce(x, axis, _mul)


@jit
def fold_max(x, axis: tl.constexpr):
    return tl.reduce(x, axis, maximum)


@jit
def fold_min(x, axis: tl.constexpr):
    return tl.reduce(x, axis, minimum)


@jit
def fold_max64(x, axis: tl.constexpr):
    return tl.reduce(x, axis, maximum64)


@jit
def fold_min64(x, axis: tl.constexpr):
    return tl.reduce(x, axis, minimum64)


@jit
def fold_imax(x, axis: tl.constexpr):
    """Of integers."""
    return tl.max(x, axis).to(x.dtype)


@jit
def fold_imin(x, axis: tl.constexpr):
    """Of integers."""
    return tl.min(x, axis).to(x.dtype)


@jit
def fold_any(x, axis: tl.constexpr):
    return tl.reduce(x.to(tl.int32), axis, _or) != 0


@jit
def fold_all(x, axis: tl.constexpr):
    return tl.reduce(x.to(tl.int32), axis, _and) != 0


@jit
def fold_argmax(x, at, axis: tl.constexpr):
    _, place = tl.reduce((x, at), axis, more)
    return place


@jit
def fold_argmin(x, at, axis: tl.constexpr):
    _, place = tl.reduce((x, at), axis, less)
    return place


# Folds of which one goes on with the other: see `jitpkg.codegen.fusion.online`


@jit
def _finite(most):
    return tl.where(tl.abs(most) == float("inf"), 0.0, most)


@jit
def powers(most, total, x):
    """The largest so far, and the sum of powers less that, with one value more."""
    now = maximum(most, x)
    shift = _finite(now)
    return now, total * tl.exp(most - shift) + tl.exp(x - shift)


@jit
def powers64(most, total, x):
    """Of float64."""
    now = maximum64(most, x)
    shift = _finite(now)
    return now, total * tl.exp(most - shift) + tl.exp(x - shift)


@jit
def sum_of_powers(most, total, shift):
    """The part of a sum of powers less `shift` that is in each position."""
    return total * tl.exp(most - shift)


@jit
def distances(mean, squares, count, x, inside):
    """The mean so far, the sum of squared distances from it, and of how many values, with one more
    where there is one."""
    count = count + tl.where(inside, 1.0, 0.0)
    far = tl.where(inside, x - mean, 0.0)
    mean = mean + far / tl.maximum(count, 1.0)
    near = tl.where(inside, x - mean, 0.0)
    return mean, squares + far * near, count


@jit
def distances_of_all(mean, squares, count, x):
    """The same where each position has a value each time: one count, and one division."""
    count = count + 1.0
    far = x - mean
    mean = mean + far * (1.0 / count)
    return mean, squares + far * (x - mean), count


@jit
def sum_of_distances(mean, squares, count, middle):
    """The part of a sum of squared distances from `middle` that is in each position."""
    far = tl.where(count > 0, mean - middle, 0.0)
    return squares + count * far * far


# Running folds along a dim of a tile


@jit
def scan_sum(x, axis: tl.constexpr):
    return tl.cumsum(x, axis).to(x.dtype)


@jit
def scan_prod(x, axis: tl.constexpr):
    return tl.cumprod(x, axis).to(x.dtype)


@jit
def scan_max(x, axis: tl.constexpr):
    return tl.associative_scan(x, axis, maximum)


@jit
def scan_min(x, axis: tl.constexpr):
    return tl.associative_scan(x, axis, minimum)


@jit
def scan_max64(x, axis: tl.constexpr):
    return tl.associative_scan(x, axis, maximum64)


@jit
def scan_min64(x, axis: tl.constexpr):
    return tl.associative_scan(x, axis, minimum64)


@jit
def _imax(a, b):
    return tl.maximum(a, b)


@jit
def _imin(a, b):
    return tl.minimum(a, b)


@jit
def scan_imax(x, axis: tl.constexpr):
    """Of integers."""
    return tl.associative_scan(x, axis, _imax)


@jit
def scan_imin(x, axis: tl.constexpr):
    """Of integers."""
    return tl.associative_scan(x, axis, _imin)


# Functions of floats: libdevice's, which are those that CUDA's own kernels call

acos: Any = libdevice.acos
acosh: Any = libdevice.acosh
asin: Any = libdevice.asin
asinh: Any = libdevice.asinh
atan: Any = libdevice.atan
atan2: Any = libdevice.atan2
atanh: Any = libdevice.atanh
copysign: Any = libdevice.copysign
cos: Any = libdevice.cos
cosh: Any = libdevice.cosh
erf: Any = libdevice.erf
erfc: Any = libdevice.erfc
exp: Any = libdevice.exp
exp2: Any = libdevice.exp2
expm1: Any = libdevice.expm1
fmod: Any = libdevice.fmod
hypot: Any = libdevice.hypot
log: Any = libdevice.log
log10: Any = libdevice.log10
log1p: Any = libdevice.log1p
log2: Any = libdevice.log2
power: Any = libdevice.pow
rint: Any = libdevice.rint
sin: Any = libdevice.sin
sinh: Any = libdevice.sinh
tan: Any = libdevice.tan
tanh: Any = libdevice.tanh
trunc: Any = libdevice.trunc


# Stand-ins


def _value(array: Any, kind: Any, is_tile: bool) -> Any:
    """An array as a value of the interpreter, which holds scalars in arrays of one element."""
    array = np.asarray(array)
    whole = tl.block_type(kind, list(array.shape)) if is_tile else kind
    return tl.tensor(TensorHandle(array, kind), whole)


def _array(value: Any) -> torch.Tensor:
    if not isinstance(value, tl.tensor):  # a number of the text
        return torch.tensor([getattr(value, "value", value)])
    return torch.from_numpy(np.ascontiguousarray(value.handle.data))


def _elementwise(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def stand_in(*args: Any) -> Any:
        tensors = [arg for arg in args if isinstance(arg, tl.tensor)]
        found = function(*(_array(arg).double() for arg in args)).to(_array(tensors[0]).dtype)
        shape = np.broadcast_shapes(*(arg.handle.data.shape for arg in tensors))
        is_tile = any(arg.type.is_block() for arg in tensors)
        return _value(found.numpy().reshape(shape), tensors[0].dtype, is_tile)

    return stand_in


def _along(function: Callable[[torch.Tensor, int], torch.Tensor]) -> Callable[..., Any]:
    def stand_in(x: Any, axis: Any) -> Any:
        found = function(_array(x), int(getattr(axis, "value", axis))).numpy()
        return _value(found, x.dtype, found.ndim > 0)

    return stand_in


def _position(find: Callable[[torch.Tensor, int], torch.Tensor]) -> Callable[..., Any]:
    def stand_in(x: Any, at: Any, axis: Any) -> Any:
        dim = int(getattr(axis, "value", axis))
        values, places = torch.broadcast_tensors(_array(x), _array(at))
        best = find(values, dim).unsqueeze(dim)
        is_best = (values == best) | (values.isnan() & best.isnan())
        most = torch.iinfo(places.dtype).max
        found = torch.where(is_best, places, most).amin(dim)
        return _value(found.numpy(), at.dtype, found.dim() > 0)

    return stand_in


def _bfloat16(x: Any) -> Any:
    bits = _array(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    return _value(bits.reshape(x.handle.data.shape), tl.bfloat16, x.type.is_block())


def _of_bfloat16(x: Any) -> Any:
    bits = np.ascontiguousarray(x.handle.data).astype(np.uint32) << 16
    found = bits.view(np.float32).reshape(x.handle.data.shape)
    return _value(found, tl.float32, x.type.is_block())


def _checked(index: Any, extent: Any, active: Any) -> Any:
    at = index.handle.data
    size = int(extent.handle.data.item()) if isinstance(extent, tl.tensor) else int(extent)
    at = np.where(at < 0, at + size, at).astype(at.dtype)
    mask = active.handle.data if isinstance(active, tl.tensor) else np.bool_(active)
    if bool((((at < 0) | (at >= size)) & mask).any()):
        raise IndexError(f"an index is out of range for {size} elements")
    at = np.where((at < 0) | (at >= size), 0, at).astype(at.dtype)
    return _value(at, index.dtype, index.type.is_block())


def _along_in(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    return _along(lambda x, dim: function(x, dim, dtype=x.dtype))


if INTERPRETS:
    _same_names = "acos acosh asin asinh atan atan2 atanh copysign cos cosh erf erfc exp exp2 "
    _same_names += "expm1 fmod hypot log log10 log1p log2 sin sinh tan tanh trunc"
    for _name in _same_names.split():
        globals()[_name] = _elementwise(getattr(torch, _name))
    rint = _elementwise(torch.round)
    power = _elementwise(torch.pow)
    checked = _checked
    bfloat16 = _bfloat16
    of_bfloat16 = _of_bfloat16
    fold_max = fold_max64 = fold_imax = _along(torch.amax)
    fold_min = fold_min64 = fold_imin = _along(torch.amin)
    fold_prod = _along_in(torch.prod)
    fold_any = _along(torch.any)
    fold_all = _along(torch.all)
    fold_argmax = _position(torch.amax)
    fold_argmin = _position(torch.amin)
    scan_max = scan_max64 = scan_imax = _along(lambda x, dim: torch.cummax(x, dim).values)
    scan_min = scan_min64 = scan_imin = _along(lambda x, dim: torch.cummin(x, dim).values)
