"""Where two runs differ, in words: the path to it, both values, and how far they are apart."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field
from typing import Any

import torch

from jitpkg.comparison.facts import Fact
from jitpkg.dataclass import dataclass
from jitpkg.messages import counted

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far numbers may be apart: `|a - b| <= absolute + relative * |b|`. Zero: bit for bit."""

    relative: float = 0.0
    absolute: float = 0.0
    epsilons: float = 0.0
    """So many units of the dtype's precision are added to both."""

    @property
    def is_exact(self) -> bool:
        return self.relative == self.absolute == self.epsilons == 0

    def of(self, dtype: torch.dtype) -> tuple[float, float]:
        """The relative and the absolute one for a dtype."""
        rounding = self.epsilons * torch.finfo(dtype).eps
        return self.relative + rounding, self.absolute + rounding


EXACT = Tolerance()


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same in two runs."""

    where: str
    """The path to it, as in `result[0].weight`."""
    what: str
    """In which respect, as in `values`, `strides`, `identity`."""
    said: str
    """Both values, and how far they are apart."""
    eager: Any = field(compare=False, repr=False)
    compiled: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.where}, {self.what}: {self.said}"


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""In place of a fact that only one of the runs has."""


def differences(
    eager: Sequence[Fact],
    compiled: Sequence[Fact],
    tolerance: Tolerance = EXACT,
    ignore: Collection[str] = (),
) -> tuple[Difference, ...]:
    """The facts that differ; what follows from another difference is left out."""
    a, b = _by_place(eager), _by_place(compiled)
    found: list[Difference] = []
    unlike: set[str] = set()  # places at which there are objects of different structure
    for where, what in dict.fromkeys([*a, *b]):
        if any(_is_inside(where, place) for place in unlike):
            continue
        left, right = a.get((where, what), MISSING), b.get((where, what), MISSING)
        if left is not MISSING and right is not MISSING and same(left, right, tolerance):
            continue
        if what in _TEXTS and _tell_the_same(left, right, ignore):
            continue
        if left is MISSING or right is MISSING or what in _STRUCTURE:
            unlike.add(where)
        if what not in ignore:
            found.append(Difference(where, what, _said(left, right), left, right))
    return tuple(found)


_STRUCTURE = frozenset({"raised", "type", "length", "keys", "identity", "dtype", "shape", "device"})
"""Where two objects differ in this respect, their contents are not compared."""


_TEXTS = frozenset({"raised", "message", "value", "output"})
_IN_TEXTS = (
    ("grad_fn", re.compile(r",? which is output \d+ of [\w:]+,?")),
    ("grad_fn", re.compile(r"Output \d+ of \w+(?= is a view and is being modified inplace)")),
    ("grad_fn", re.compile(r"(?<=, grad_fn=<)\w+(?=>\))")),
    ("version", re.compile(r"is at version \d+; expected version \d+")),
    (
        "view",
        re.compile(
            r"(?<=created in no_grad mode and is being modified inplace with grad mode enabled\. )"
            r"(This view is the output of a function that returns multiple|Given that this use).*"
        ),
    ),
    ("view", re.compile(r"a view of (?=a leaf Variable that requires grad is being used in)")),
)
"""How torch's messages, and the text of a tensor, tell such respects."""


def _tell_the_same(a: Any, b: Any, ignore: Collection[str]) -> bool:
    return type(a) is type(b) and _without(str(a), ignore) == _without(str(b), ignore)


def _without(text: str, ignore: Collection[str]) -> str:
    """A text, without what it says of respects that are ignored."""
    for what, pattern in _IN_TEXTS:
        if what in ignore:
            text = pattern.sub("", text)
    return text


def _by_place(facts: Iterable[Fact]) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for fact in facts:
        key, again = (fact.where, fact.what), 1
        while key in found:
            again += 1
            key = (f"{fact.where} ({again})", fact.what)
        found[key] = fact.value
    return found


def _is_inside(where: str, place: str) -> bool:
    return where.startswith(place) and where[len(place) :][:1] in ("", ".", "[", " ", ",")


def same(a: Any, b: Any, tolerance: Tolerance = EXACT) -> bool:
    """Whether two values of a fact are the same; NaN is, -0.0 is not the same as 0.0."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _same_tensors(a, b, tolerance)
    if isinstance(a, torch.Tensor) or type(a).__qualname__ != type(b).__qualname__:
        return False
    if isinstance(a, float) and not tolerance.is_exact and not math.isnan(a):
        relative, absolute = tolerance.of(torch.float64)
        return math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
    return repr(a) == repr(b)


def _same_tensors(a: torch.Tensor, b: torch.Tensor, tolerance: Tolerance) -> bool:
    return _alike(a, b) and not bool(_unequal(a, b, tolerance).any())


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)


def _unequal(a: torch.Tensor, b: torch.Tensor, tolerance: Tolerance = EXACT) -> torch.Tensor:
    """Which elements are not the same."""
    a, b = _plain(a), _plain(b)
    if not tolerance.is_exact and (a.is_floating_point() or a.is_complex()):
        relative, absolute = tolerance.of(a.dtype)
        return ~torch.isclose(a, b, rtol=relative, atol=absolute, equal_nan=True)
    if a.is_complex():
        return _unequal(torch.view_as_real(a), torch.view_as_real(b)).any(-1)
    if a.is_floating_point():
        return (a != b) & ~(a.isnan() & b.isnan()) | (a.signbit() != b.signbit())
    return a != b


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    return (
        plain.dequantize() if plain.is_quantized else plain.to_dense() if _sparse(plain) else plain
    )


def _sparse(tensor: torch.Tensor) -> bool:
    return tensor.layout is not torch.strided


# Words


def _said(a: Any, b: Any) -> str:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and _alike(a, b):
        return _tensors_said(a, b)
    if isinstance(a, str) and isinstance(b, str) and "\n" in a + b:
        return _lines_said(a, b)
    apart = _apart(a, b)
    return f"{_shown(a)} eagerly, {_shown(b)} compiled{apart}"


def _tensors_said(a: torch.Tensor, b: torch.Tensor) -> str:
    unequal = _unequal(a, b)
    x, y = _plain(a), _plain(b)
    distance = _distance(x, y)
    distance[~unequal] = -1
    worst = tuple(int(i) for i in _unravelled(int(distance.argmax()), a.shape))
    at = f" at {list(worst)}" if a.dim() else ""
    left, right = x[worst].item(), y[worst].item()
    shown = [_number(value, a.dtype) for value in (left, right)]
    count = int(unequal.sum())
    of = f"{count} of {counted(a.numel(), 'element')} differ{'s' if count == 1 else ''}"
    most = ", most" if count > 1 else ""
    return f"{of}{most}{at}: {shown[0]} eagerly, {shown[1]} compiled{_apart(left, right)}"


def _number(value: Any, dtype: torch.dtype) -> str:
    """With as many digits as tell it from all others."""
    if isinstance(value, float) and dtype != torch.float64:
        return f"{value:.9g}" if dtype == torch.float32 else f"{value:.5g}"
    return repr(value)


def _distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    wide = torch.complex128 if x.is_complex() else torch.float64
    distance = (x.to(wide) - y.to(wide)).abs()
    return torch.nan_to_num(distance, nan=math.inf, posinf=math.inf)


def _unravelled(index: int, shape: torch.Size) -> list[int]:
    found = []
    for size in reversed(shape):
        found.append(index % size)
        index //= size
    return found[::-1]


def _apart(a: Any, b: Any) -> str:
    """How far two numbers are apart."""
    if isinstance(a, bool) or isinstance(b, bool):
        return ""
    if not isinstance(a, int | float | complex) or not isinstance(b, int | float | complex):
        return ""
    distance = abs(a - b)
    if not math.isfinite(distance) or distance == 0:
        return ""
    relative = f", relatively {distance / abs(a):.2g}" if a and math.isfinite(abs(a)) else ""
    return f" (off by {distance:.3g}{relative})"


def _lines_said(a: str, b: str) -> str:
    left, right = a.splitlines(), b.splitlines()
    for k, (x, y) in enumerate(zip(left, right, strict=False)):
        if x != y:
            return f"line {k + 1} is {_shown(x)} eagerly, {_shown(y)} compiled"
    more, fewer = sorted((left, right), key=len, reverse=True)
    how = "eagerly" if more is left else "compiled"
    return f"line {len(fewer) + 1}, {_shown(more[len(fewer)])}, is there only {how}"


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor, {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
