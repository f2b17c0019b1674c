"""Rows that are folded: how often that is done, and which folds are of the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod

from jitpkg.codegen.ir.extents import example, same
from jitpkg.codegen.ir.nodes import (
    Axis,
    Buffer,
    Definition,
    Load,
    Node,
    Reduce,
    below,
    loads,
    operands,
)


def is_row_by_row(values: Sequence[Node]) -> bool:
    """Whether each fold is computed once only.

    What a fold depends on are then rows of all other folds; and if it is inside of another one, it
    depends on the outermost axes of that.
    """
    nodes = below(*values)
    folds = [node for node in nodes if isinstance(node, Reduce)]
    bound = {axis for fold in folds for axis in fold.over}
    free = [fold.axes for fold in folds if not fold.axes & bound]
    rows = sorted(set(free), key=len)
    if not all(small <= large for small, large in pairwise(rows)):
        return False
    for fold in folds:
        if fold.axes & bound:
            outer = [other for other in folds if fold.axes & frozenset(other.over)]
            if not all(_is_prefix(fold.axes, other.over) for other in outer):
                return False
            if not all(other.axes <= fold.axes for other in outer):
                return False
    return True


def _is_prefix(axes: frozenset[Axis], over: Sequence[Axis]) -> bool:
    count = len(axes & frozenset(over))
    return frozenset(over[:count]) <= axes


def most_folded(nodes: Iterable[Node]) -> int:
    """How often the fold is done that is done most often."""
    return max((runs(n.axes) for n in nodes if isinstance(n, Reduce)), default=1)


def deep(value: Node, inside: Mapping[Buffer, int]) -> int:
    """How many folds a value needs one after another.

    Args:
        inside: the same of tensors that are computed on the way.
    """
    found: dict[Node, int] = {}
    for node in below(value):
        most = max((found[each] for each in operands(node)), default=0)
        if isinstance(node, Load):
            most = max(most, inside.get(node.buffer, 0))
        found[node] = most + isinstance(node, Reduce)
    return found[value]


def folded_along(item: Definition, inside: Mapping[Buffer, Mapping[int, int]]) -> dict[int, int]:
    """For each dim on which folds of an element depend, how many elements they take at most.

    Args:
        inside: the same of tensors that are computed on the way.
    """
    place = {axis: dim for dim, axis in enumerate(item.axes)}
    found: dict[int, int] = {}
    for node in below(item.value):
        if isinstance(node, Reduce):
            depends = dict.fromkeys(node.axes, runs(node.over))
        elif isinstance(node, Load) and node.buffer in inside:
            of = inside[node.buffer]
            depends = {axis: of[dim] for dim in of for axis in node.index[dim].axes}
        else:
            continue
        for axis, length in depends.items():
            if axis in place:
                found[place[axis]] = max(length, found.get(place[axis], 0))
    return found


def folded_inside(load: Load, item: Definition, along: Mapping[int, int]) -> int:
    """How many elements are folded where a tensor is read along a fold of `item`.

    Args:
        along: of the tensor, see `folded_along`.
    """
    bound = {dim: load.index[dim].axes.difference(item.axes) for dim in along}
    return max((runs(bound[dim]) * along[dim] for dim in along if bound[dim]), default=0)


def runs(axes: Iterable[Axis]) -> int:
    """How often the innermost of loops over these axes runs."""
    return prod(example(axis.extent) for axis in axes)


def folds_of(value: Node) -> dict[Buffer, tuple[Load, Reduce]]:
    """For each tensor a load in a fold that is inside of no other one, if there is any."""
    folds = [node for node in below(value) if isinstance(node, Reduce)]
    bound = {axis for fold in folds for axis in fold.over}
    found: dict[Buffer, tuple[Load, Reduce]] = {}
    for fold in folds:
        if not fold.axes & bound:
            own = fold.axes.union(fold.over)
            for load in loads(fold.value):
                if load.axes <= own and load.mask is None:
                    found.setdefault(load.buffer, (load, fold))
    return found


def renaming(load: Load, fold: Reduce, other: Load, of: Reduce) -> dict[Axis, Axis] | None:
    """The names in `of` of the axes of `fold`, if both fold the same elements of a tensor; they
    read it by these loads."""
    names: dict[Axis, Axis] = {}
    for a, b in zip(load.index, other.index, strict=True):
        if isinstance(a, Axis) and isinstance(b, Axis):
            is_same = same(a.extent, b.extent) and (a in fold.over) == (b in of.over)
            if not is_same or names.setdefault(a, b) is not b:
                return None
        elif a is not b:
            return None
    renamed = {a: b for a, b in names.items() if a not in fold.over}
    if len(set(names.values())) < len(names) or len(names) < len(fold.axes) + len(fold.over):
        return None
    return renamed if frozenset(renamed.values()) == of.axes else None
