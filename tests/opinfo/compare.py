"""Whether two runs came to the same: values, classes, dtypes, sizes, and strides."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import tree_flatten, tree_leaves

from jitpkg.comparison.differences import differences
from jitpkg.comparison.facts import Fact, State


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
    ignore: tuple[str, ...] = ()
    """Respects in which nothing is compared, as `jitpkg.comparison.facts` names them."""
    messages: bool = False
    """What exceptions say."""
    exact: bool = False
    """Nothing: each bit must be the same."""
    zeros: bool = True
    """The signs of zeros."""
    infinite: bool = False
    """Infinities where eager code has NaN."""
    not_a_number: bool = False
    """NaN where eager code has infinities."""
    finite: bool = False
    """Numbers where eager code has NaN."""
    lazy: bool = False
    """Gradients that are lazy conjugates where eager code's are not, or the other way round."""
    rounds_alike: bool = False
    """No values but of few elements: the others must be rounded as eager code rounds them, even
    where another result is nearer to the exact one."""

    rounds_once: bool = False
    """All values, where `rounds_alike` is asked for, if they are as near to the exact ones."""

    def joined(self, other: Allowed) -> Allowed:
        """What either allows."""
        return replace(
            self,
            values=self.values or other.values,
            strides=self.strides or other.strides,
            atol=max(filter(None, (self.atol, other.atol)), default=None),
            ignore=self.ignore + other.ignore,
            messages=self.messages or other.messages,
            zeros=self.zeros or other.zeros,
            infinite=self.infinite or other.infinite,
            not_a_number=self.not_a_number or other.not_a_number,
            finite=self.finite or other.finite,
            lazy=self.lazy or other.lazy,
            rounds_once=self.rounds_once or other.rounds_once,
        )


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
        alike = allowed.messages or str(found.error) == str(expected.error)
        if type(found.error) is not type(expected.error) or not alike:
            return f"raises {_shown(found.error)}, and not {_shown(expected.error)}"
    for part in ("results", "gradients", "given"):
        reference = None if exact is None else getattr(exact, part)
        is_gradient = part == "gradients"
        may = replace(
            allowed, strides=allowed.strides or is_gradient, lazy=allowed.lazy and is_gradient
        )
        why = _tree(getattr(found, part), getattr(expected, part), reference, may)
        if why is not None:
            return f"{part}: {why}"
    return _seen(found, expected, allowed)


RESPECTS = frozenset(
    {"identity", "memory", "storage offset", "view", "version", "grad_fn", "idle strides"}
)
"""What is compared besides."""


def _seen(found: Outcome, expected: Outcome, allowed: Allowed) -> str | None:
    """Which tensors are one, share memory, are views, how often each was written to."""
    if not all(map(_is_plain, _tensors(expected))):
        return None
    every = differences(_facts(expected), _facts(found), ignore=allowed.ignore)
    return "; ".join(map(str, every[:3])) if every else None


def _facts(outcome: Outcome) -> list[Fact]:
    """How often an argument was written to counts as once, and is no matter of results. Where a
    result starts in memory that only it shows, and whether it is a view there, is no matter; nor
    is anything of the memory of a tensor without elements."""
    state = State()
    state.add("argument", outcome.given)
    given = len(state.facts)
    state.add("result", outcome.results)
    facts = [_once(fact) for fact in state.facts[:given]]
    facts += [fact for fact in state.facts[given:] if fact.what != "version"]
    nothing = {f.where for f in facts if f.what == "shape" and 0 in f.value}
    own = {f.where for f in facts[given:] if f.what == "memory" and f.value == "of its own"}
    return [
        fact
        for fact in facts
        if fact.what in RESPECTS
        and not (fact.where in nothing and fact.what in _OF_MEMORY)
        and not (fact.where in own and fact.what in ("storage offset", "view"))
    ]


_OF_MEMORY = ("memory", "storage offset", "view", "idle strides")


def _once(fact: Fact) -> Fact:
    if fact.what != "version" or fact.value == "inference":
        return fact
    return Fact(fact.where, fact.what, "unwritten" if fact.value == "0 writes" else "written to")


def _tensors(outcome: Outcome) -> list[torch.Tensor]:
    return [
        leaf
        for leaf in tree_leaves((outcome.given, outcome.results))
        if isinstance(leaf, torch.Tensor)
    ]


def _is_plain(x: torch.Tensor) -> bool:
    return x.layout is torch.strided and not x.is_nested and not x.is_quantized


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
        lies_alike = one.is_conj() == other.is_conj() and one.is_neg() == other.is_neg()
        if not lies_alike and not allowed.lazy:
            return "is a lazy conjugate or negative where the other is none"
    if allowed.values:
        return None
    with torch.no_grad():
        return _values(one.detach(), other.detach(), exact, allowed)


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


def _values(one: torch.Tensor, other: torch.Tensor, exact: Any, allowed: Allowed) -> str | None:
    for may, there, here in (
        (allowed.infinite, other.isnan, one.isinf),
        (allowed.not_a_number, other.isinf, one.isnan),
        (allowed.finite, other.isnan, one.isfinite),
    ):
        if may:
            one = torch.where(there() & here(), other, one)
    rtol, atol = None, allowed.atol
    if atol is not None:
        rtol, least = default_tolerances(one.dtype)
        atol = max(atol, least)
    if allowed.exact:
        rtol = atol = 0.0
    elif allowed.rounds_alike and not allowed.rounds_once and not _most_are_same(one, other):
        exact = None
    try:
        torch.testing.assert_close(one, other, equal_nan=True, rtol=rtol, atol=atol)
    except AssertionError as error:
        if not allowed.exact and _is_near(one, other, exact):
            return None
        lines = [line for line in str(error).splitlines() if line]
        return "; ".join(lines[:4])[:300]
    return None if allowed.zeros else _zeros(one, other)


def _zeros(one: torch.Tensor, other: torch.Tensor) -> str | None:
    """Whether zeros have the same signs."""
    if not _is_plain(other) or not other.is_floating_point():
        return None
    both = (one == 0) & (other == 0)
    wrong = int((both & (one.signbit() != other.signbit())).sum())
    return f"{wrong} zeros have another sign" if wrong else None


def _most_are_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """But for an element, or one in eight, where a result lies between two narrow numbers."""
    one, other = (x if x.layout is torch.strided else x.to_dense() for x in (one, other))
    apart = int((~torch.isclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)).sum())
    return apart <= max(1, one.numel() // 8)


def _is_near(one: torch.Tensor, other: torch.Tensor, exact: Any) -> bool:
    return isinstance(exact, torch.Tensor) and _is_as_near(one, other, exact.detach())


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
