"""Sizes that vary: where code takes an int for a length, a `Symbolic` may stand in its place.

Arithmetic gives expressions. A comparison is decided by what is known of the symbols, or else by
the values of the example, and is noted: the compiled code is used only where all of that holds.
What is asked for speed only should not be noted: for that there are `same`, `surely` and `example`.
Types say int for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import torch

from jitpkg.facts import sizes
from jitpkg.facts.sizes import Comparison, Size
from jitpkg.facts.symbolic import Decisions, length
from jitpkg.facts.tensor import TensorFacts

SYMBOL = "symbol"
"""The key in the `meta` of a graph's placeholder that is a symbol."""


class Symbolic:
    """An int of which the value is known when a kernel is called."""

    __slots__ = ("decisions", "size")

    def __init__(self, size: Size, decisions: Decisions) -> None:
        self.size = size
        self.decisions = decisions

    def __repr__(self) -> str:
        return repr(self.size)

    def __hash__(self) -> int:
        return hash(self.size)

    # Arithmetic

    def _made(self, size: Size) -> int:
        return symbolic(sizes.plain(size), self.decisions)

    def __add__(self, other: Any) -> int:
        known = _size(other)
        return NotImplemented if known is None else self._made(self.size + known)

    def __sub__(self, other: Any) -> int:
        known = _size(other)
        return NotImplemented if known is None else self._made(self.size - known)

    def __rsub__(self, other: Any) -> int:
        known = _size(other)
        return NotImplemented if known is None else self._made(known - self.size)

    def __mul__(self, other: Any) -> int:
        known = _size(other)
        return NotImplemented if known is None else self._made(self.size * known)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> int:
        known = _size(other)
        return NotImplemented if known is None else self._made(self.size // self._divisor(known))

    def __rfloordiv__(self, other: Any) -> int:
        known = _size(other)
        return NotImplemented if known is None else self._made(known // self._divisor(self.size))

    def __mod__(self, other: Any) -> int:
        known = _size(other)
        return NotImplemented if known is None else self._made(self.size % self._divisor(known))

    def __rmod__(self, other: Any) -> int:
        known = _size(other)
        return NotImplemented if known is None else self._made(known % self._divisor(self.size))

    def __neg__(self) -> int:
        return self._made(-self.size)

    def __abs__(self) -> int:
        return -self if self < 0 else self._made(self.size)

    def _divisor(self, size: Size) -> Size:
        if not self.decisions.decide(sizes.compare("!=", size, 0)):
            raise ZeroDivisionError("a size is divided by 0")
        return size

    # Comparisons

    def _compared(self, comparison: Comparison, other: Any) -> bool:
        known = _size(other)
        if known is None:
            return cast(bool, NotImplemented)
        return self.decisions.decide(sizes.compare(comparison, self.size, known))

    def __eq__(self, other: object) -> bool:
        return self._compared("==", other)

    def __ne__(self, other: object) -> bool:
        return self._compared("!=", other)

    def __lt__(self, other: Any) -> bool:
        return self._compared("<", other)

    def __le__(self, other: Any) -> bool:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> bool:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> bool:
        return self._compared(">=", other)

    def __bool__(self) -> bool:
        return self._compared("!=", 0)


def symbolic(size: Size | int, decisions: Decisions) -> int:
    """What stands for a length; a number is itself."""
    return size if isinstance(size, int) else cast(int, Symbolic(size, decisions))


def _size(value: Any) -> Size | None:
    match value:
        case int():
            return sizes.of(value)
        case Symbolic():
            return value.size
        case Size():
            return value
        case torch.SymInt():
            return sizes.of(length(value))
        case _:
            return None


def expression(value: Any) -> Size | int:
    """The expression that a length is; a number is itself."""
    return value.size if isinstance(value, Symbolic) else int(value)


def varies(value: object) -> bool:
    return isinstance(value, Symbolic)


def example(value: Any) -> int:
    """The value in the example: for what is a matter of speed only."""
    if not isinstance(value, Symbolic):
        return int(value)
    return value.size.value(value.decisions.values)


def surely(comparison: Comparison, a: Any, b: Any) -> bool:
    """Whether a comparison holds for all values of the symbols."""
    return sizes.compare(comparison, expression(a), expression(b)) is True


def same(a: Any, b: Any) -> bool:
    """Whether two lengths are equal for all values of the symbols."""
    if type(a) is int and type(b) is int:
        return a == b
    return surely("==", a, b)


def less(a: Any, b: Any) -> bool:
    """Whether `a < b` for all values of the symbols."""
    if type(a) is int and type(b) is int:
        return a < b
    return surely("<", a, b)


def within(low: int | None, high: int | None, length: int) -> bool:
    """Whether what lies between two numbers surely is at least 0 and below a length."""
    if low is None or high is None:
        return False
    return at_least(low, 0) and less(high, length)


def at_least(a: Any, b: Any) -> bool:
    """Whether `a >= b` for all values of the symbols."""
    if type(a) is int and type(b) is int:
        return a >= b
    return surely(">=", a, b)


def value_of(length: Any, symbols: Mapping[str, int]) -> int:
    """What a length is where the symbols have these values."""
    return length.size.value(symbols) if isinstance(length, Symbolic) else int(length)


def symbols_of(lengths: Iterable[Any]) -> tuple[int, ...]:
    """The symbols in these, each once, as lengths."""
    found: dict[int, None] = {}
    for each in lengths:
        if isinstance(each, Symbolic):
            for symbol in each.size.symbols():
                found[symbolic(Size((((symbol,), 1),)), each.decisions)] = None
    return tuple(found)


def text_of(length: Any) -> str:
    """An expression of its symbols' names, in Python."""
    if not isinstance(length, Symbolic):
        return repr(length)
    return length.size.text({symbol.name: symbol.name for symbol in length.size.symbols()})


def with_expressions(facts: TensorFacts) -> TensorFacts:
    """Facts with the expressions themselves, as those have them who run ops on stand-ins."""
    size, stride = (tuple(map(expression, each)) for each in (facts.size, facts.stride))
    return replace(facts, size=size, stride=stride)
