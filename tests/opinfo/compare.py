"""Whether two runs came to the same: values, classes, dtypes, sizes, and strides."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import tree_flatten


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    results: Any = None
    gradients: Any = None
    given: Any = None
    """The arguments, afterwards."""
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may differ."""

    values: bool = False
    """All of the results' values: memory that nobody has written to."""
    strides: bool = False
    atol: float | None = None


def difference(
    found: Outcome,
    expected: Outcome,
    exact: Outcome | None = None,
    allowed: Allowed = Allowed(),
) -> str | None:
    """What is not the same, in words. Nobody promises how gradients lie in memory.

    Args:
        exact: the same in float64. What is as near to it as eager code's result is right, too.
    """
    if found.error is not None or expected.error is not None:
        if type(found.error) is type(expected.error):
            return None
        return f"raises {_shown(found.error)}, and not {_shown(expected.error)}"
    for part in ("results", "gradients", "given"):
        reference = None if exact is None else getattr(exact, part)
        may = replace(allowed, strides=True) if part == "gradients" else allowed
        why = _tree(getattr(found, part), getattr(expected, part), reference, may)
        if why is not None:
            return f"{part}: {why}"
    return None


def _shown(error: BaseException | None) -> str:
    text = " ".join(str(error).split())
    return "nothing" if error is None else f"{type(error).__name__} ({text[:200]})"


def _tree(found: Any, expected: Any, exact: Any, allowed: Allowed) -> str | None:
    ones, spec = tree_flatten(found)
    others, wanted = tree_flatten(expected)
    if spec != wanted:
        return f"is {spec}, and not {wanted}"
    references = [None] * len(others) if exact is None else tree_flatten(exact)[0]
    if len(references) != len(others):
        references = [None] * len(others)
    for k, (one, other, reference) in enumerate(zip(ones, others, references, strict=True)):
        why = _leaf(one, other, reference, allowed)
        if why is not None:
            return f"{k}: {why}"
    return None


def _leaf(one: Any, other: Any, exact: Any, allowed: Allowed) -> str | None:
    if type(one) is not type(other):
        return f"is a {type(one).__name__}, and not a {type(other).__name__}"
    if not isinstance(other, torch.Tensor):
        return None if _same(one, other) else f"is {one}, and not {other}"
    for name in ("dtype", "layout", "shape", "requires_grad"):
        if getattr(one, name) != getattr(other, name):
            return f"has {name} {getattr(one, name)}, and not {getattr(other, name)}"
    if one.layout is torch.strided and not one.is_nested:
        if not allowed.strides and _strides(one) != _strides(other):
            return f"has strides {one.stride()}, and not {other.stride()} ({tuple(one.shape)})"
        if one.is_conj() != other.is_conj() or one.is_neg() != other.is_neg():
            return "is a lazy conjugate or negative where the other is none"
    if allowed.values:
        return None
    with torch.no_grad():
        return _values(one.detach(), other.detach(), exact, allowed.atol)


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5) or (one != one and other != other)
    if callable(other):
        return True
    try:
        return bool(one == other)
    except (RuntimeError, TypeError, ValueError):
        return True


def _strides(x: torch.Tensor) -> list[int]:
    """Of the dims in which they matter."""
    if x.numel() == 0:
        return []
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]


def _values(one: torch.Tensor, other: torch.Tensor, exact: Any, atol: float | None) -> str | None:
    rtol = None
    if atol is not None:
        rtol, least = default_tolerances(one.dtype)
        atol = max(atol, least)
    try:
        torch.testing.assert_close(one, other, equal_nan=True, rtol=rtol, atol=atol)
    except AssertionError as error:
        if isinstance(exact, torch.Tensor) and _is_as_near(one, other, exact.detach()):
            return None
        lines = [line for line in str(error).splitlines() if line]
        return "; ".join(lines[:4])[:300]
    return None


def _is_as_near(one: torch.Tensor, other: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether no element is further from the exact one than twice what eager code's furthest is; in
    a narrow dtype, and one rounding of the largest, as eager code may have been lucky. Where eager
    code overflows on the way and the exact one does not, there must be just a few roundings."""
    if not other.is_floating_point() and not other.is_complex():
        return False
    if one.layout is not torch.strided or exact.shape != other.shape:
        return False
    overflows = ~other.isfinite() & one.isfinite() & exact.isfinite()
    if bool(overflows.any()):
        near = 4 * torch.finfo(other.dtype).eps * exact.abs() if other.is_floating_point() else 0
        if not bool(((one - exact).abs() <= near)[overflows].all()):
            return False
        other = torch.where(overflows, one, other)
    finite = other.isfinite()
    special = ~finite
    if not torch.equal(finite, one.isfinite()):
        return False
    if not torch.equal(one[special].nan_to_num(), other[special].nan_to_num()):
        return False
    wide = torch.complex128 if other.is_complex() else torch.float64
    is_narrow = other.dtype in (torch.bfloat16, torch.float16)
    rounding = torch.finfo(other.dtype).eps if is_narrow else 0.0
    one, other, exact = one[finite].to(wide), other[finite].to(wide), exact[finite].to(wide)
    if not one.numel():
        return True
    allowed = 2 * (other - exact).abs().max() + rounding * exact.abs().max()
    return bool(((one - exact).abs() <= allowed).all())
