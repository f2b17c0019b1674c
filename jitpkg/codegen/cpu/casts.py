"""Casts between any two dtypes."""

from __future__ import annotations

import torch

from jitpkg.codegen.cpu.arithmetic import Arithmetic
from jitpkg.codegen.cpu.low_half import LowHalf
from jitpkg.codegen.ir.ops import FLOATS, INTEGERS, NARROW


def cast(a: Arithmetic, value: str, dtype: torch.dtype, low: LowHalf = LowHalf.ANY) -> str:
    """A value of `a`'s dtype as another one; `low`: what is known of it, if it is a float32."""
    if a.dtype is dtype:
        return value
    if a.dtype in NARROW:
        wide = a.of(torch.float32)
        return cast(wide, _widened(a, value), dtype)
    if dtype in NARROW:
        # By way of float32, as torch's own conversions go.
        wide = a.of(torch.float32)
        value = cast(a, value, torch.float32)
        if dtype is torch.bfloat16:
            return _bfloat16(wide, value, low)
        return wide.to("fptrunc", value, dtype)
    if a.dtype in FLOATS:
        return _of_float(a, value, dtype)
    return _of_integer(a, value, dtype)


def _widened(a: Arithmetic, value: str) -> str:
    return value if a.dtype is torch.bfloat16 else a.to("fpext", value, torch.float32)


def _bfloat16(f: Arithmetic, value: str, low: LowHalf) -> str:
    """Rounds to nearest, halves to even, with integers: `fptrunc` would lose subnormals."""
    if low is LowHalf.EMPTY:
        return value
    i = f.of(torch.int32)
    bits = f.to("bitcast", value, torch.int32)
    odd = i.op("and", i.op("lshr", bits, i.const(16)), i.const(1))
    rounded = i.op("add", bits, i.op("add", odd, i.const(0x7FFF)))
    rounded = i.op("and", rounded, i.const(-0x10000))
    if low is LowHalf.ANY:
        rounded = i.select(f.compare("uno", value, value), i.const(0x7FC00000), rounded)
    return i.to("bitcast", rounded, torch.float32)


def _of_float(f: Arithmetic, value: str, dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return f.compare("une", value, f.const(0.0))
    if dtype is torch.float64:
        return f.to("fpext", value, dtype)
    if dtype is torch.float32:
        return f.to("fptrunc", value, dtype)
    if dtype.itemsize == 8:
        return f.to("fptosi", value, dtype)
    # Through int32, which wraps around where an int8 would be undefined; what no int64 holds is
    # undefined in torch too.
    if f.dtype is torch.float64 or dtype.itemsize == 4:
        middle = torch.int32 if dtype.itemsize == 4 else torch.int64
    else:
        middle = torch.int32
    found = f.to("fptosi", value, middle)
    return found if middle is dtype else f.of(middle).to("trunc", found, dtype)


def _of_integer(i: Arithmetic, value: str, dtype: torch.dtype) -> str:
    signed = i.dtype is not torch.uint8 and i.dtype is not torch.bool
    if dtype is torch.bool:
        return i.compare("ne", value, i.const(0))
    if dtype in FLOATS:
        if i.dtype is torch.bool:
            f = i.of(dtype)
            return f.select(value, f.const(1.0), f.const(0.0))
        return i.to("sitofp" if signed else "uitofp", value, dtype)
    assert dtype in INTEGERS
    bits = 8 * dtype.itemsize
    if bits == i.bits:
        return value  # int8 and uint8
    if bits < i.bits:
        return i.to("trunc", value, dtype)
    return i.to("sext" if signed else "zext", value, dtype)
