"""What is known of indices: sums of multiples, and between which numbers they lie."""

from __future__ import annotations

import torch

from jitpkg.codegen.ir.extents import at_least, same, varies
from jitpkg.codegen.ir.nodes import Apply, Axis, Checked, Const, Given, Node, Reduce
from jitpkg.dataclass import dataclass

Range = tuple[int | None, int | None]
"""The least and the greatest value; None where it is not known."""

UNKNOWN: Range = (None, None)


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(factor * atom) + constant`, of int64 values."""

    terms: tuple[tuple[Node, int], ...]
    """In the order of the atoms' making; no factor is 0."""
    constant: int = 0

    @classmethod
    def of(cls, node: Node) -> Linear:
        match node:
            case Const(value=value):
                return cls((), int(value))
            case Given(value=value):
                return cls((), value)
            case Apply(op="add", args=(a, b)):
                return cls.of(a).plus(cls.of(b))
            case Apply(op="mul", args=(a, Const(value=value))):
                return cls.of(a).times(int(value))
            case Apply(op="mul", args=(a, Given(value=value))):
                return cls.of(a).times(value)
            case _:
                return cls(((node, 1),))

    def plus(self, other: Linear) -> Linear:
        factors = dict(self.terms)
        for atom, factor in other.terms:
            factors[atom] = factors.get(atom, 0) + factor
        return _linear(factors, self.constant + other.constant)

    def times(self, factor: int) -> Linear:
        return _linear({atom: k * factor for atom, k in self.terms}, self.constant * factor)

    def split(self, by: int) -> tuple[Linear, Linear]:
        """`q` and `r` such that this is `by * q + r`; what is seen to be divisible goes into q.

        Of data that is only what cannot have wrapped around: what has a range.
        """
        whole = {a: k // by for a, k in self.terms if same(k % by, 0) and _is_known(range_of(a))}
        rest = {atom: k for atom, k in self.terms if atom not in whole}
        if varies(by) or varies(self.constant):  # else the rest could be split again and again
            even = same(self.constant % by, 0)
            parts = (self.constant // by, 0) if even else (0, self.constant)
        else:
            parts = self.constant // by, self.constant % by
        return _linear(whole, parts[0]), _linear(rest, parts[1])

    def range(self) -> Range:
        low: int | None = self.constant
        high: int | None = self.constant
        for atom, factor in self.terms:
            ends = range_of(atom)
            if not at_least(factor, 0):
                if not at_least(0, factor):
                    return UNKNOWN
                ends = ends[::-1]
            low = None if low is None or ends[0] is None else low + factor * ends[0]
            high = None if high is None or ends[1] is None else high + factor * ends[1]
        return low, high

    def factor(self, axis: Node) -> int:
        return next((factor for atom, factor in self.terms if atom is axis), 0)

    def without(self, axis: Node) -> Linear:
        return Linear(tuple(term for term in self.terms if term[0] is not axis), self.constant)

    def divided_by_axis(self, axis: Axis) -> bool:
        """Whether the axis stands inside an atom, and not only as one."""
        return any(axis in atom.axes and atom is not axis for atom, _ in self.terms)


def _linear(factors: dict[Node, int], constant: int) -> Linear:
    present = (item for item in factors.items() if not same(item[1], 0))
    ordered = sorted(present, key=lambda term: term[0].serial)
    return Linear(tuple(ordered), constant)


def range_of(node: Node) -> Range:
    """Between which numbers an int64 value lies, as far as its form tells."""
    match node:
        case Axis(extent=extent):
            return 0, _last(extent)
        case Const(value=value):
            return int(value), int(value)
        case Given(value=value):
            return value, value
        case Checked(extent=extent):
            return 0, _last(extent)
        case Apply(op="add" | "mul") if node.dtype is torch.int64:
            linear = Linear.of(node)
            return UNKNOWN if linear.terms == ((node, 1),) else linear.range()
        case Apply(op="mod", args=(_, Const(value=by))) if by > 0:
            return 0, int(by) - 1
        case Apply(op="mod", args=(_, Given(value=by))) if at_least(by, 1):
            return 0, by - 1
        case Apply(op="floordiv", args=(value, Given(value=by))) if at_least(by, 1):
            low, high = range_of(value)
            return None if low is None else low // by, None if high is None else high // by
        case Apply(op="floordiv", args=(value, Const(value=by))) if by > 0:
            low, high = range_of(value)
            return (
                None if low is None else low // int(by),
                None if high is None else high // int(by),
            )
        case Apply(op="cast", args=(value,)) if value.dtype is torch.bool:
            return 0, 1
        case Reduce(op="argmax" | "argmin", over=(axis,)):
            return 0, _last(axis.extent)
        case _:
            return UNKNOWN


def _last(extent: int) -> int:
    """The last position, where there is one."""
    return extent - 1 if varies(extent) else max(extent - 1, 0)


def _is_known(ends: Range) -> bool:
    return ends[0] is not None and ends[1] is not None
