"""From a kernel to a program of loops: every value where it is first known, folds side by side.

A value is computed at the innermost of the loops that it depends on. So the row maximum and the row
sum of a softmax come to stand in loops of their own, inside of the loop over rows and before the
loop over columns: nothing here knows what a softmax is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from jitpkg.codegen.fusion.kernel import Compute, Kernel, Loop, Schedule, Statement, Write
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import (
    Axis,
    Const,
    Given,
    Node,
    Reduce,
    Scan,
    Store,
    below,
    operands,
    written,
)


def schedule(kernel: Kernel, builder: Builder) -> Schedule:
    """The loops of a kernel."""
    kernel = _with_shared_axes(_with_scans_inside(kernel), builder)
    return nested(_renamed(kernel, _own_axes(kernel), builder))


def nested(kernel: Kernel) -> Schedule:
    """The loops of a kernel along its axes and those of its folds, as they are."""
    return Schedule(kernel, _Nest(kernel.axes).block(kernel.stores, 0, frozenset()))


def _with_scans_inside(kernel: Kernel) -> Kernel:
    """The axes of running folds innermost: a loop then carries one number, not a row of them."""
    along = {node.along for node in below(*written(kernel.stores)) if isinstance(node, Scan)}
    axes = tuple(sorted(kernel.axes, key=lambda axis: axis in along))
    return replace(kernel, axes=axes)


def _own_axes(kernel: Kernel) -> dict[Axis, Node]:
    """For axes of folds axes of the kernel itself, where none is captured: then what a fold and
    the stores compute of the same elements is the same node.

    Nothing may be substituted into what comes out.
    """
    folds = [node for node in below(*written(kernel.stores)) if isinstance(node, Reduce)]
    inner = {
        fold: [node for node in below(fold.value) if isinstance(node, Reduce)] for fold in folds
    }
    names: dict[Axis, Node] = {}
    place = {axis: k for k, axis in enumerate(kernel.axes)}

    def is_inside(fold: Reduce, own: Axis) -> bool:
        """Whether a fold may stand inside of the loop over one of the kernel's axes."""
        return any(axis not in place or place[axis] > place[own] for axis in fold.axes)

    def renamed(axes: Iterable[Axis]) -> set[Node]:
        return {names.get(axis, axis) for axis in axes}

    for axis in dict.fromkeys(axis for fold in folds for axis in fold.over):
        binding = [fold for fold in folds if axis in fold.over]
        for own in kernel.axes:
            taken = (
                not same(own.extent, axis.extent)
                or any(is_inside(fold, own) for fold in binding)
                or any(own in renamed((*fold.value.axes, *fold.over)) for fold in binding)
                or any(
                    axis in each.axes and own in renamed(each.over)
                    for fold in binding
                    for each in inner[fold]
                )
            )
            if not taken:
                names[axis] = own
                break
    return names


def _with_shared_axes(kernel: Kernel, builder: Builder) -> Kernel:
    """Folds over the same extents bind the same axes, so that one loop can carry them.

    A fold inside the value of another has axes of its own.
    """
    values = written(kernel.stores)
    depth: dict[Node, int] = {}
    renamed: dict[Axis, Node] = {}
    shared: dict[tuple[int, tuple[int, ...]], tuple[Axis, ...]] = {}
    for node in below(*values):
        depth[node] = max((depth[each] for each in operands(node)), default=0)
        if isinstance(node, Reduce):
            depth[node] += 1
            key = (depth[node], tuple(axis.extent for axis in node.over))
            axes = shared.setdefault(key, node.over)
            renamed.update(zip(node.over, axes, strict=True))
    return _renamed(kernel, renamed, builder)


def _renamed(kernel: Kernel, names: Mapping[Axis, Node], builder: Builder) -> Kernel:
    names = {axis: to for axis, to in names.items() if axis is not to}
    if not names:
        return kernel
    new = iter(builder.substituted(written(kernel.stores), names))
    stores = tuple(
        Store(s.buffer, tuple(next(new) for _ in s.index), next(new), s.combine)
        for s in kernel.stores
    )
    return replace(kernel, stores=stores)


class _Nest:
    """Writes the loops from the outside in."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._axes = axes

    def block(
        self, stores: Sequence[Store], depth: int, known: frozenset[Node]
    ) -> tuple[Statement, ...]:
        """What happens inside of the first `depth` loops, where `known` has been computed."""
        given = frozenset(self._axes[:depth])
        inner = [store for store in stores if not _axes_of(store) <= given]
        here = [store for store in stores if store not in inner]
        roots = written(stores)
        statements, known = self._values(_outermost(roots, given, known), given, known)
        statements.extend(Write(store) for store in here)
        if inner:
            axis = self._axes[depth]
            scans = tuple(_scans(inner, axis, known))
            body = self.block(inner, depth + 1, known)
            statements.append(Loop(axis, body, scans=scans))
        return tuple(statements)

    def _values(
        self, roots: Iterable[Node], given: frozenset[Axis], known: frozenset[Node]
    ) -> tuple[list[Statement], frozenset[Node]]:
        """What computes values that depend on given axes only."""
        statements: list[Statement] = []
        done = set(known)
        wanted = _reached(roots, done)
        while wanted:
            ready = []
            blocked: set[Node] = set()
            for node in wanted:
                if isinstance(node, Reduce) or any(each in blocked for each in operands(node)):
                    blocked.add(node)
                else:
                    ready.append(node)
            if ready:
                statements.append(Compute(tuple(ready)))
                done.update(ready)
                wanted = [node for node in wanted if node not in done]
            folds = [n for n in wanted if isinstance(n, Reduce) and _is_ready(n, done)]
            if not folds and not ready:
                raise AssertionError("a fold that waits for itself")
            for group in _groups(folds):
                statements.append(self._loop(group, 0, given, frozenset(done)))
                done.update(group)
            wanted = [node for node in wanted if node not in done]
        return statements, frozenset(done)

    def _loop(
        self,
        folds: tuple[Reduce, ...],
        depth: int,
        given: frozenset[Axis],
        known: frozenset[Node],
    ) -> Loop:
        """The loop over the axis at `depth` of folds that are over the same axes."""
        over = folds[0].over
        given = given | {over[depth]}
        if depth + 1 == len(over):
            body, _ = self._values([fold.value for fold in folds], given, known)
        else:
            outer = _outermost([fold.value for fold in folds], given, known)
            body, known = self._values(outer, given, known)
            body.append(self._loop(folds, depth + 1, given, known))
        return Loop(over[depth], tuple(body), folds)


def _axes_of(store: Store) -> frozenset[Axis]:
    return store.value.axes.union(*(at.axes for at in store.index))


def _reached(roots: Iterable[Node], known: set[Node]) -> list[Node]:
    """What the roots are made of, operands first; not what is inside of folds."""
    found: dict[Node, None] = {}
    stack = [(root, False) for root in roots]
    while stack:
        node, ready = stack.pop()
        if node in found or node in known or isinstance(node, Axis | Const | Given):
            continue
        if ready:
            found[node] = None
            continue
        stack.append((node, True))
        if not isinstance(node, Reduce):
            stack.extend((each, False) for each in operands(node))
        else:
            bound = frozenset(node.over)
            stack.extend((each, False) for each in _free_below(node.value, bound))
    return list(found)


def _free_below(value: Node, bound: frozenset[Axis]) -> list[Node]:
    """The largest parts of a fold's value that depend neither on its axes nor, inside of another
    fold there, on those of that one: outside of it they may be axes of the kernel."""
    found: dict[Node, None] = {}
    seen: set[tuple[Node, frozenset[Axis]]] = set()
    stack = [(value, bound)]
    while stack:
        node, bound = at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        if not node.axes & bound:
            found[node] = None
            continue
        if isinstance(node, Reduce):
            bound = bound.union(node.over)
        stack.extend((each, bound) for each in operands(node))
    return list(found)


def _outermost(roots: Iterable[Node], given: frozenset[Axis], known: frozenset[Node]) -> list[Node]:
    """The largest parts of values that depend on given axes only."""
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen or node in known:
            continue
        seen.add(node)
        if node.axes <= given:
            found[node] = None
        elif isinstance(node, Reduce):
            stack.extend(_free_below(node.value, frozenset(node.over)))
        else:
            stack.extend(operands(node))
    return [node for node in found if node.axes <= given]


def _is_ready(fold: Reduce, done: set[Node]) -> bool:
    """Whether everything that the fold takes from outside is known."""
    return all(
        node in done or isinstance(node, Axis | Const | Given)
        for node in _free_below(fold.value, frozenset(fold.over))
    )


def _groups(folds: Sequence[Reduce]) -> list[tuple[Reduce, ...]]:
    """Folds over the same axes, which one loop carries."""
    groups: dict[tuple[Axis, ...], list[Reduce]] = {}
    for fold in folds:
        groups.setdefault(fold.over, []).append(fold)
    return [tuple(group) for group in groups.values()]


def _scans(stores: Sequence[Store], axis: Axis, known: frozenset[Node]) -> Iterable[Scan]:
    return (n for n in below(*written(stores)) if isinstance(n, Scan) and n.along is axis)
