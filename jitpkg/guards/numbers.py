"""Numbers that are others on each call: how they are computed, and guards on what they are.

Integers are expressions of `jitpkg.facts.sizes`. What is no polynomial, and every float, is a
`Formula`: the program's own operations in its own order, so that it rounds and raises as they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Any

from jitpkg.dataclass import dataclass
from jitpkg.facts.sizes import Comparison, Relation, Size, Symbol
from jitpkg.guards.names import InWords, Names
from jitpkg.guards.sources import Source, described


@dataclass(frozen=True, eq=False, slots=True)
class Formula:
    """A number, or a text, that Python computes from numbers."""

    function: Callable[..., Any]
    operands: tuple[Size | Formula | Symbol | int | float | str, ...]
    template: str | None = None
    """The call as an expression of its operands; without one it is written as a call."""

    def _key(self) -> tuple[object, ...]:
        """2 and 2.0 are two operands, and so are 0.0 and -0.0."""
        plain = (repr(o) if isinstance(o, int | float | str) else o for o in self.operands)
        return self.function, self.template, *plain

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def text(self, names: Names) -> str:
        operands = [f"({number_text(operand, names)})" for operand in self.operands]
        if self.template is not None:
            return self.template.format(*operands)
        function = names.hold(self.function, getattr(self.function, "__name__", "function"))
        return f"{function}({', '.join(operands)})"

    def symbols(self) -> Iterator[Symbol]:
        """All symbols in it, some more than once."""
        for operand in self.operands:
            if isinstance(operand, Symbol):
                yield operand
            elif isinstance(operand, Size | Formula):
                yield from operand.symbols()


Expression = Size | Formula | Symbol
"""How a number is computed on each call; a float that is read is a symbol by itself."""


def number_text(number: Expression | int | float | str, names: Names) -> str:
    """A number as a Python expression."""
    match number:
        case Symbol():
            return symbol_text(number, names)
        case Size():
            return number.text({s.name: symbol_text(s, names) for s in number.symbols()})
        case Formula():
            return names.computed(number)
        case float() if not math.isfinite(number):
            return names.hold(number, "number")
        case _:
            return repr(number)


def symbol_text(symbol: Symbol, names: Names) -> str:
    origin = symbol.origin
    if isinstance(origin, Formula):
        return f"({names.computed(origin)})"
    assert isinstance(origin, Source)
    return names.of(origin)


def computed_with(number: Expression) -> Iterator[Formula]:
    """The formulas that are computed where a number is, each as often as its text is written."""
    yield from _formulas(number, set())


def _formulas(number: object, seen: set[Formula]) -> Iterator[Formula]:
    operands: Iterable[object] = ()
    match number:
        case Formula():
            yield number
            operands = () if number in seen else number.operands
            seen.add(number)
        case Symbol():
            operands = (number.origin,)
        case Size():
            operands = (symbol.origin for symbol in number.symbols())
    for operand in operands:
        if isinstance(operand, Formula | Symbol | Size):
            yield from _formulas(operand, seen)


def read_by(number: Expression) -> Iterator[Source]:
    """The paths that a number is computed from."""
    for symbol in (number,) if isinstance(number, Symbol) else number.symbols():
        if isinstance(symbol.origin, Formula):
            yield from read_by(symbol.origin)
        else:
            assert isinstance(symbol.origin, Source)
            yield symbol.origin


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison gives, of numbers of which one is a float, or of texts."""

    comparison: Comparison
    left: Expression | int | float
    right: Expression | int | float | str
    result: bool

    def symbols(self) -> Iterator[Symbol]:
        for side in (self.left, self.right):
            if isinstance(side, Symbol):
                yield side
            elif isinstance(side, Size | Formula):
                yield from side.symbols()


@dataclass(frozen=True, slots=True)
class Computable:
    """Python raises nothing when it computes a number, or a text; whether or not one is used."""

    formula: Formula

    def symbols(self) -> Iterator[Symbol]:
        return self.formula.symbols()


@dataclass(frozen=True, slots=True)
class Holds:
    """A relation of numbers, which a trace has relied on."""

    relation: Relation | Compared | Computable
    at: Source = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", self.sources()[0])

    def sources(self) -> tuple[Source, ...]:
        """The paths that the test reads."""
        found = (s for symbol in self.relation.symbols() for s in read_by(symbol))
        return tuple(dict.fromkeys(found))

    def formulas(self) -> Iterator[Formula]:
        """The formulas in it."""
        match self.relation:
            case Relation() as relation:
                for symbol in relation.symbols():
                    yield from computed_with(symbol)
            case Compared(_, left, right):
                for side in (left, right):
                    if isinstance(side, Formula | Symbol | Size):
                        yield from computed_with(side)
            case Computable(formula):
                yield from computed_with(formula)

    def test(self, names: Names) -> str:
        match self.relation:
            case Relation() as relation:
                return relation.text({s.name: symbol_text(s, names) for s in relation.symbols()})
            case Compared(comparison, left, right, result):
                text = f"({number_text(left, names)}) {comparison} ({number_text(right, names)})"
                return text if result else f"not {text}"
            case Computable(formula):
                return f"{names.computed(formula)} is not None"

    def why(self, now: object) -> str:
        test = self.test(InWords())
        if len(self.sources()) == 1 and isinstance(now, int | float):
            return f"{described(self.at)} is {now}; built for {test}"
        return f"{test} does not hold"


@dataclass(frozen=True, slots=True)
class SameNumbers:
    """Numbers that are one and the same, as the counters of an optimizer's steps are."""

    numbers: tuple[Source, ...]

    @property
    def at(self) -> Source:
        return self.numbers[0]

    def test(self, names: Names) -> str:
        each = ", ".join(map(names.of, self.numbers))
        return f"{names.hold(are_same, 'are_same')}({each})"

    def why(self, now: object) -> str:
        same = f"the {len(self.numbers)} numbers that were the same"
        return f"{described(self.at)} is {now}, and not all of {same} are that now"


def are_same(first: int | float, *others: int | float) -> bool:
    """Whether these numbers of one class, none of which is NaN, are the same; so are zeros with
    one sign."""
    if first:
        return others.count(first) == len(others)
    sign = math.copysign(1.0, first)
    return not any(others) and all(math.copysign(1.0, each) == sign for each in others)
