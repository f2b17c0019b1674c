"""Symbolic integers: what the size of a dimension is when it is not one number for ever.

An expression is a polynomial with integer coefficients over atoms: symbols, floor divisions,
remainders, minima and maxima. Polynomials are kept in one normal form, so that expressions which
are equal as polynomials are equal objects. A comparison is decided from what is known of the
symbols, or is a relation for a guard to test.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import Literal

from jitpkg.dataclass import dataclass

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]

_NEGATED: Mapping[Comparison, Comparison] = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}


@dataclass(frozen=True, slots=True)
class Symbol:
    """An integer that is read anew on each call."""

    name: str
    least: int | None = None
    """It is never less; None where nothing is known. Sizes that vary are at least 2."""
    most: int | None = None
    """It is never more; None where nothing is known."""
    origin: Hashable = field(default=None, repr=False)
    """How it is found on each call; what that means is the business of guards."""

    def text(self, names: Mapping[str, str]) -> str:
        return names[self.name]

    def value(self, values: Mapping[str, int]) -> int:
        return values[self.name]

    def bounds(self) -> tuple[float, float]:
        least = -math.inf if self.least is None else self.least
        return least, math.inf if self.most is None else self.most

    def range(self) -> str:
        """Which numbers it may be, in words."""
        return f"{self.least} and more" if self.most is None else f"{self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """`left // right`, where that is no polynomial."""

    left: Size
    right: Size

    def text(self, names: Mapping[str, str]) -> str:
        return f"{_operand(self.left, names)} // {_operand(self.right, names)}"

    def value(self, values: Mapping[str, int]) -> int:
        return self.left.value(values) // self.right.value(values)

    def bounds(self) -> tuple[float, float]:
        low, high = self.left.bounds
        least, most = self.right.bounds
        if least <= 0:
            return -math.inf, math.inf
        ends = [_quotient(end, by) for end in (low, high) for by in (least, most)]
        return min(ends), max(ends)


@dataclass(frozen=True, slots=True)
class Remainder:
    """`left % right`, where that is no polynomial."""

    left: Size
    right: Size

    def text(self, names: Mapping[str, str]) -> str:
        return f"{_operand(self.left, names)} % {_operand(self.right, names)}"

    def value(self, values: Mapping[str, int]) -> int:
        return self.left.value(values) % self.right.value(values)

    def bounds(self) -> tuple[float, float]:
        least, most = self.right.bounds
        return (0, most - 1) if least > 0 else (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Extreme:
    """`min(left, right)` or `max(left, right)`."""

    which: Literal["min", "max"]
    left: Size
    right: Size

    def text(self, names: Mapping[str, str]) -> str:
        return f"{self.which}({self.left.text(names)}, {self.right.text(names)})"

    def value(self, values: Mapping[str, int]) -> int:
        pick = min if self.which == "min" else max
        return pick(self.left.value(values), self.right.value(values))

    def bounds(self) -> tuple[float, float]:
        pick = min if self.which == "min" else max
        (a, b), (c, d) = self.left.bounds, self.right.bounds
        return pick(a, c), pick(b, d)


Atom = Symbol | FloorDiv | Remainder | Extreme
Product = tuple[Atom, ...]
"""Atoms that are multiplied, in order; empty for 1."""


@dataclass(frozen=True, eq=False)
class Size:
    """A symbolic integer: a sum of products of atoms, each with a factor."""

    terms: tuple[tuple[Product, int], ...]
    """In the order of `_rank`, no product twice, no factor 0."""

    # Identity

    def __eq__(self, other: object) -> bool:
        """Whether both are the same expression; to compare values, use `compare`."""
        return isinstance(other, Size) and other.terms == self.terms

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __repr__(self) -> str:
        return self.text({symbol.name: symbol.name for symbol in self.symbols()})

    # What it is

    @cached_property
    def constant(self) -> int | None:
        """The number that it is, or None where it varies."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    def symbols(self) -> Iterator[Symbol]:
        """All symbols in it, some more than once."""
        for product, _ in self.terms:
            for atom in product:
                if isinstance(atom, Symbol):
                    yield atom
                else:
                    yield from atom.left.symbols()
                    yield from atom.right.symbols()

    def text(self, names: Mapping[str, str]) -> str:
        """The expression in Python, with a text for each symbol."""
        found = ""
        for product, factor in self.terms:
            is_alone = len(product) == 1 and factor == 1
            atoms = [atom.text(names) if is_alone else _grouped(atom, names) for atom in product]
            if abs(factor) != 1 or not atoms:
                atoms.insert(0, str(abs(factor)))
            sign = " - " if factor < 0 else " + "
            found += (sign if found else sign.strip(" +")) + "*".join(atoms)
        return found or "0"

    def value(self, values: Mapping[str, int]) -> int:
        """The number that it is for these values of its symbols."""
        return sum(
            factor * math.prod(atom.value(values) for atom in product)
            for product, factor in self.terms
        )

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Numbers between which its value always lies."""
        low = high = 0.0
        for product, factor in self.terms:
            least, most = _product_bounds(product)
            ends = (factor * least, factor * most)
            low, high = low + min(ends), high + max(ends)
        return low, high

    # Arithmetic

    def __add__(self, other: Size | int) -> Size:
        return _sum([*self.terms, *of(other).terms])

    def __sub__(self, other: Size | int) -> Size:
        return self + -of(other)

    def __neg__(self) -> Size:
        return Size(tuple((product, -factor) for product, factor in self.terms))

    def __mul__(self, other: Size | int) -> Size:
        return _sum(
            [
                (tuple(sorted((*a, *b), key=_rank)), m * n)
                for a, m in self.terms
                for b, n in of(other).terms
            ]
        )

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Size | int) -> Size:
        """`self // other`; the divisor must not be 0."""
        divisor = of(other)
        if self.constant is not None and divisor.constant is not None:
            return of(self.constant // divisor.constant)
        whole, rest = _divided(self, divisor)
        if not rest.terms:
            return whole
        if divisor.bounds[0] > 0 and rest.bounds[0] >= 0 and (rest - divisor).bounds[1] < 0:
            return whole
        if whole.terms:
            return whole + rest // divisor
        return _atom(FloorDiv(self, divisor))

    def __mod__(self, other: Size | int) -> Size:
        """`self % other`; the divisor must not be 0."""
        divisor = of(other)
        if self.constant is not None and divisor.constant is not None:
            return of(self.constant % divisor.constant)
        _, rest = _divided(self, divisor)
        if not rest.terms:
            return rest
        if divisor.bounds[0] > 0 and rest.bounds[0] >= 0 and (rest - divisor).bounds[1] < 0:
            return rest
        return _atom(Remainder(rest, divisor))

    def extreme(self, which: Literal["min", "max"], other: Size | int) -> Size:
        """`min(self, other)` or `max(self, other)`."""
        other = of(other)
        low, high = (self - other).bounds
        if high <= 0:
            return self if which == "min" else other
        if low >= 0:
            return other if which == "min" else self
        return _atom(Extreme(which, self, other))


def symbol(name: str, least: int | None = None, origin: Hashable = None) -> Size:
    """A symbol by itself."""
    return _atom(Symbol(name, least, origin=origin))


Length = Size | int
"""How many elements a dim has, or how far apart they lie: a number for ever, or an expression."""


def plain(size: Size) -> Length:
    """The number, where the expression is one."""
    return size if size.constant is None else size.constant


def of(value: Size | int) -> Size:
    """A number as an expression; an expression is itself."""
    if isinstance(value, Size):
        return value
    return Size((((), int(value)),)) if value else Size(())


@dataclass(frozen=True, slots=True)
class Relation:
    """A comparison of an expression with 0, which a guard tests."""

    comparison: Comparison
    difference: Size

    def symbols(self) -> Iterator[Symbol]:
        """All symbols in it, some more than once."""
        return self.difference.symbols()

    def negated(self) -> Relation:
        return Relation(_NEGATED[self.comparison], self.difference)

    def text(self, names: Mapping[str, str]) -> str:
        """The comparison in Python, without a minus where it can be."""
        left = Size(tuple((p, f) for p, f in self.difference.terms if f > 0))
        right = -Size(tuple((p, f) for p, f in self.difference.terms if f < 0))
        return f"{left.text(names)} {self.comparison} {right.text(names)}"

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it holds for these values of the symbols."""
        return _compared(self.comparison, self.difference.value(values), 0)


def compare(comparison: Comparison, a: Size | int, b: Size | int) -> bool | Relation:
    """`a comparison b`: what it always is, or the relation that tells."""
    difference = _without_common_factors(of(a) - b)
    low, high = difference.bounds
    if difference.constant is not None:
        return _compared(comparison, difference.constant, 0)
    always = {
        "==": False if low > 0 or high < 0 else None,
        "!=": True if low > 0 or high < 0 else None,
        "<": _known(high < 0, low >= 0),
        "<=": _known(high <= 0, low > 0),
        ">": _known(low > 0, high <= 0),
        ">=": _known(low >= 0, high < 0),
    }[comparison]
    return Relation(comparison, difference) if always is None else always


def _without_common_factors(size: Size) -> Size:
    """A size of the same sign: divided by what all terms have in common and is positive."""
    if len(size.terms) < 2:
        return size
    first = size.terms[0][0]
    for atom in first:
        if atom.bounds()[0] >= 1 and all(atom in product for product, _ in size.terms):
            left = ((_without(product, (atom,)) or (), factor) for product, factor in size.terms)
            return _without_common_factors(_sum(list(left)))
    return size


def _known(yes: bool, no: bool) -> bool | None:
    if yes:
        return True
    return False if no else None


def _compared(comparison: Comparison, a: float, b: float) -> bool:
    match comparison:
        case "==":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case ">=":
            return a >= b


def _atom(atom: Atom) -> Size:
    return Size((((atom,), 1),))


def _sum(terms: list[tuple[Product, int]]) -> Size:
    """The normal form of a sum."""
    factors: dict[Product, int] = {}
    for product, factor in terms:
        factors[product] = factors.get(product, 0) + factor
    present = [(product, factor) for product, factor in factors.items() if factor]
    present.sort(key=lambda term: (-len(term[0]), tuple(map(_rank, term[0]))))
    return Size(tuple(present))


def _rank(atom: Atom) -> str:
    return repr(atom)


def _divided(size: Size, divisor: Size) -> tuple[Size, Size]:
    """A quotient and what is left, so that `size == quotient * divisor + rest` for all values.

    Only terms that the divisor divides as polynomials are in the quotient.
    """
    if len(divisor.terms) != 1:
        if size == divisor:
            return of(1), of(0)
        return of(0), size
    ((atoms, by),) = divisor.terms
    whole: list[tuple[Product, int]] = []
    rest: list[tuple[Product, int]] = []
    for product, factor in size.terms:
        left = _without(product, atoms)
        if left is None:
            rest.append((product, factor))
            continue
        quotient, remainder = divmod(factor, by)
        if quotient:
            whole.append((left, quotient))
        if remainder:
            rest.append((product, remainder))
    return _sum(whole), _sum(rest)


def _without(product: Product, atoms: Product) -> Product | None:
    left = list(product)
    for atom in atoms:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _product_bounds(product: Product) -> tuple[float, float]:
    low, high = 1.0, 1.0
    for atom in product:
        least, most = atom.bounds()
        ends = [_times(a, b) for a in (low, high) for b in (least, most)]
        low, high = min(ends), max(ends)
    return low, high


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _quotient(a: float, b: float) -> float:
    if math.isinf(a):
        return a
    if math.isinf(b):
        return 0.0 if a >= 0 else -1.0
    return a // b


def _operand(size: Size, names: Mapping[str, str]) -> str:
    """An expression as an operand of `//` or `%`."""
    is_plain = size.constant is not None and size.constant >= 0
    is_symbol = len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1
    if is_plain or (is_symbol and isinstance(size.terms[0][0][0], Symbol | Extreme)):
        return size.text(names)
    return f"({size.text(names)})"


def _grouped(atom: Atom, names: Mapping[str, str]) -> str:
    text = atom.text(names)
    return f"({text})" if isinstance(atom, FloorDiv | Remainder) else text
