"""Pairs of folds of which the second needs the first's result, and that one pass can do anyway.

As they are defined they go over the data twice: first the maximum, then the sum of powers less that
maximum; first the mean, then the sum of squared distances from it. Both have a state that can go on
by one element, and two states (of two threads, or of two parts) that can be made one:

powers      (m, s), the largest so far and the sum of `exp(v - m)`:
                m' = max(m, v);  s' = s * exp(m - m') + exp(v - m')
            of two:  m' = max(m, n);  s' = s * exp(m - m') + t * exp(n - m')
distances   (n, mean, s), how many, their mean, and the sum of squared distances:
                n' = n + 1;  mean' = mean + (v - mean) / n';  s' = s + (v - mean) * (v - mean')
            of two:  d = mean2 - mean1;  mean' = mean1 + d * n2 / n';
                     s' = s1 + s2 + d * d * n1 * n2 / n'
            (B. P. Welford 1962; T. F. Chan, G. H. Golub, R. J. LeVeque 1979)

An infinite maximum is taken for 0 in the powers of a state, for `inf - inf` is no number: see
`Powers.shift`. What a NaN makes of the two folds, the states make of it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf, prod

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import INDEX, exact
from jitpkg.codegen.ir.extents import same, varies
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Checked,
    Const,
    Given,
    Load,
    Node,
    Reduce,
    Scan,
    below,
    operands,
)
from jitpkg.codegen.ir.ranges import Linear
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Powers:
    """The largest of some values, and the sum of `exp(value - shift)`.

    With a state (m, s) of all values, where the powers are of `value - finite(m)`, and `finite(m)`
    is 0 for an infinite m, the sum is `s * exp(m - shift)`.
    """

    first: Reduce
    second: Reduce
    value: Node
    """What is folded, over the axes of the second."""
    shift: Node
    """The first fold, or that made finite."""


@dataclass(frozen=True, eq=False, slots=True)
class Distances:
    """The sum of some values, and the sum of the squares of `value - mean`."""

    first: Reduce
    second: Reduce
    value: Node
    """What is folded, over the axes of the second."""
    mean: Node
    """The first fold, divided by how many there are."""
    count: Const | Given
    """How many there are."""


Pair = Powers | Distances


def pairs(roots: Iterable[Node]) -> Iterator[Pair]:
    """Those among what the roots are made of."""
    for node in below(*roots):
        match node:
            case Reduce(op="sum", value=Apply(op="exp", args=(Apply(op="sub", args=(v, shift)),))):
                first = _made_finite(shift)
                if isinstance(first, Reduce) and _folds_the_same(first, "max", node, v):
                    yield Powers(first, node, v, shift)
            case Reduce(
                op="sum",
                value=Apply(op="mul", args=(Apply(op="sub", args=(v, mean)) as one, other)),
            ) if one is other:
                match mean:
                    case Apply(op="div", args=(Reduce() as first, count)):
                        number = _number(count)
                        counts = number is not None and _is_count(number, node)
                        if number is not None and counts and _folds_the_same(first, "sum", node, v):
                            yield Distances(first, node, v, mean, number)
                    case _:
                        pass
            case _:
                pass


def _made_finite(shift: Node) -> Node:
    """The maximum of which this is the finite form."""
    match shift:
        case Apply(
            op="where",
            args=(
                Apply(op="eq", args=(Apply(op="abs", args=(inner,)), Const(value=value))),
                Const(value=0),
                most,
            ),
        ) if inner is most and value == inf:
            return most
        case _:
            return shift


def _folds_the_same(first: Reduce, op: str, second: Reduce, value: Node) -> bool:
    """Whether a fold goes over the very values that the other one takes, each at its place."""
    if first.op != op or len(first.over) != len(second.over):
        return False
    places = dict(zip(first.over, second.over, strict=True))
    return (
        not first.axes & frozenset(second.over)
        and all(same(a.extent, b.extent) for a, b in places.items())
        and alike(first.value, value, places)
    )


def _number(node: Node) -> Const | Given | None:
    match node:
        case Const() | Given():
            return node
        case Apply(op=ops.CAST, args=(Given() as number,)):
            return number
        case _:
            return None


def _is_count(number: Const | Given, fold: Reduce) -> bool:
    count = prod(axis.extent for axis in fold.over)
    if isinstance(number, Given):
        return same(number.value, count)
    return not varies(count) and number.value == exact(count, number.dtype)


def alike(a: Node, b: Node, names: Mapping[Axis, Axis]) -> bool:
    """Whether two values are the same but for the names of axes: of the first, and of the other."""
    return _Alike(names).are(a, b)


class _Alike:
    def __init__(self, names: Mapping[Axis, Axis]) -> None:
        self._names: dict[Node, Node] = dict(names.items())
        self._known: set[tuple[Node, Node]] = set()

    def are(self, a: Node, b: Node) -> bool:
        if a is b:
            # What it binds inside, it binds on both sides.
            return not any(self._names.get(axis, axis) is not axis for axis in a.axes)
        if (a, b) in self._known:
            return True
        if not self._compared(a, b):
            return False
        self._known.add((a, b))
        return True

    def _compared(self, a: Node, b: Node) -> bool:
        if type(a) is not type(b) or a.dtype is not b.dtype:
            return False
        match a, b:
            case Axis(), _:
                return self._names.get(a, a) is b
            case Load(), Load():
                both = (a.mask is None) is (b.mask is None)
                return a.buffer is b.buffer and both and self._operands(a, b)
            case Apply(), Apply() if a.dtype is INDEX and a.op in ("add", "mul"):
                return self._sums(Linear.of(a), Linear.of(b), a, b)
            case Apply(), Apply():
                return a.op == b.op and self._operands(a, b)
            case Checked(), Checked():
                return same(a.extent, b.extent) and self._operands(a, b)
            case Reduce(), Reduce() if a.op == b.op and len(a.over) == len(b.over):
                pairs_ = list(zip(a.over, b.over, strict=True))
                if not all(same(one.extent, other.extent) for one, other in pairs_):
                    return False
                return _Alike({**self._axes(), **dict(pairs_)}).are(a.value, b.value)
            case Scan(), Scan():
                return a.op == b.op and self.are(a.along, b.along) and self._operands(a, b)
            case _:
                return False  # equal numbers are one node

    def _axes(self) -> dict[Axis, Axis]:
        return {a: b for a, b in self._names.items() if isinstance(a, Axis) and isinstance(b, Axis)}

    def _operands(self, a: Node, b: Node) -> bool:
        ours, theirs = operands(a), operands(b)
        return len(ours) == len(theirs) and all(map(self.are, ours, theirs))

    def _sums(self, a: Linear, b: Linear, whole: Node, other: Node) -> bool:
        """Of indices: the terms stand in the order in which their atoms were made."""
        if _is_atom(a, whole) or _is_atom(b, other):
            assert isinstance(whole, Apply) and isinstance(other, Apply)
            return whole.op == other.op and self._operands(whole, other)
        left = list(b.terms)
        for atom, factor in a.terms:
            found = next(
                (term for term in left if same(term[1], factor) and self.are(atom, term[0])), None
            )
            if found is None:
                return False
            left.remove(found)
        return not left and same(a.constant, b.constant)


def _is_atom(linear: Linear, node: Node) -> bool:
    return any(atom is node for atom, _ in linear.terms)
