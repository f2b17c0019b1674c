"""Which kernels may write where an input lies that they read.

So an optimizer's step writes each weight where it was.

A value that is to become an input's is computed in memory of its own otherwise, and copied.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jitpkg.codegen.fusion.items import Opaque
from jitpkg.codegen.fusion.kernel import Compute, Kernel, Loop, Schedule, Statement, Write
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import (
    Axis,
    Buffer,
    Load,
    Node,
    Reduce,
    Scan,
    Store,
    below,
    checks,
    loads,
    written,
)


class InPlace:
    """Where the kernels of a graph may write in place.

    Args:
        into: for a value that the graph returns, the input that is to be changed to it.
        kept: what the graph returns.
    """

    def __init__(
        self,
        into: Mapping[Buffer, Buffer],
        kept: Iterable[Buffer],
        steps: Sequence[Kernel | Opaque],
    ) -> None:
        self._answers: dict[object, bool] = {}
        self._last: dict[Buffer, int] = {}
        for k, step in enumerate(steps):
            reads = step.inputs if isinstance(step, Kernel) else step.reads
            self._last.update(dict.fromkeys(reads, k))
        unsafe = [k for k, step in enumerate(steps) if _may_fail(step)]
        self._first = unsafe[-1] + 1 if unsafe else 0
        """From this step on nothing fails any more, so that nothing is left half done."""
        returned = set(kept)
        self._into = {
            value: given
            for value, given in into.items()
            if given not in returned and _alike(value, given)
        }

    def targets(
        self, k: int, kernel: Kernel, normaliser: Normaliser, builder: Builder
    ) -> dict[Buffer, Buffer]:
        """For outputs of a kernel, the k-th step, the inputs that it may write them to."""
        wanted = {value: self._into[value] for value in kernel.outputs if value in self._into}
        if not wanted or k < self._first:
            return {}
        normal = normaliser.normal(kernel)
        inputs = dict(zip(normal.inputs, normal.kernel.inputs, strict=True))
        outputs = dict(zip(normal.outputs, normal.kernel.outputs, strict=True))
        stores = tuple((s.buffer, s.index, s.value, s.combine) for s in normal.kernel.stores)

        def may_overwrite(output: Buffer, read: Buffer) -> bool:
            """Asked once for kernels that are alike, as those of equal layers are."""
            key = stores, output, read
            if key not in self._answers:
                loops = schedule(normal.kernel, builder)
                self._answers[key] = _may_overwrite(loops, output, read)
            return self._answers[key]

        return {
            value: given
            for value, given in wanted.items()
            if self._last.get(given, k) <= k
            and (given not in inputs or may_overwrite(outputs[value], inputs[given]))
        }


def _alike(value: Buffer, given: Buffer) -> bool:
    a, b = ((each.dtype, each.sizes, each.strides) for each in (value, given))
    return a == b


def _may_fail(step: Kernel | Opaque) -> bool:
    """Whether a step may raise, other than for a lack of memory."""
    return isinstance(step, Opaque) or bool(checks(*written(step.stores)))


def _may_overwrite(loops: Schedule, output: Buffer, read: Buffer) -> bool:
    """Whether each element of an input is read before that of the output is written, and never
    after."""
    nodes = written(loops.kernel.stores)
    if any(isinstance(node, Reduce | Scan) for node in below(*nodes)):
        return False
    stores = [store for store in loops.kernel.stores if store.buffer is output]
    if len(stores) != 1 or stores[0].combine is not None:
        return False
    places = {load.index for load in loads(*nodes) if load.buffer is read}
    if places != {stores[0].index}:
        return False
    statements = list(_within(loops.body, ()))
    return _comes_once(statements, stores[0], read) and _reads_first(statements, stores[0], read)


Placed = tuple[tuple[Axis, ...], Statement]
"""A statement, behind the axes of the loops around it."""


def _comes_once(statements: Sequence[Placed], store: Store, read: Buffer) -> bool:
    """Whether the loops around a store, and around what reads, come to each element once: not again
    for each row of a larger result, when it has been written."""
    around = {
        axes
        for axes, statement in statements
        if (isinstance(statement, Write) and statement.store is store)
        or (isinstance(statement, Compute) and any(_is_load(x, read) for x in statement.nodes))
    }
    if len(around) != 1:
        return False
    (axes,) = around
    walked = [axis.extent for axis in axes if axis.extent != 1]
    wanted = [n for n in store.buffer.sizes if n != 1]
    if all(type(n) is int for n in (*walked, *wanted)):
        return math.prod(walked) == math.prod(wanted)
    return Counter(walked) == Counter(wanted)


def _within(body: Sequence[Statement], axes: tuple[Axis, ...]) -> Iterator[Placed]:
    """One after the other, as they stand, those of loops among them."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from _within(statement.body, (*axes, statement.axis))
        else:
            yield axes, statement


def _reads_first(statements: Sequence[Placed], store: Store, read: Buffer) -> bool:
    done = False
    for _, statement in statements:
        match statement:
            case Write(store=written_) if written_ is store:
                done = True
            case Compute(nodes=nodes) if done and any(_is_load(node, read) for node in nodes):
                return False
    return done


def _is_load(node: Node, buffer: Buffer) -> bool:
    return isinstance(node, Load) and node.buffer is buffer
