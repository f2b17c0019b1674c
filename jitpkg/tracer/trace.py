"""Trace one region: from a point in a function, with real values at hand, to where it ends."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType, CodeType

from torch import fx

from jitpkg.code.dialect import Op, translate
from jitpkg.config import Options
from jitpkg.errors import Break
from jitpkg.facts.answers import Facts
from jitpkg.guards.kinds import Guard, Same, sources_of
from jitpkg.guards.sources import Attr, Globals, Source, base_of
from jitpkg.tracer import namespaces, reasons, state
from jitpkg.tracer.effects import DeleteAttribute, Effect, SetAttribute, SetCell, effect_operands
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.graph import GraphInput
from jitpkg.tracer.heap import Heap
from jitpkg.tracer.iterators import must_finish
from jitpkg.tracer.look import source_of
from jitpkg.tracer.machine import Machine
from jitpkg.tracer.values import NONE, Cell, Kept, Object, Tensor, Value
from jitpkg.tracer.vm import VM, Failure, Mark, Raised, Stopped


@dataclass(frozen=True, slots=True)
class Start:
    """Where a region begins, and what is there."""

    code: CodeType
    point: int
    """Index of the instruction before which the region begins."""
    locals: tuple[Value, ...]
    """By slot."""
    stack: tuple[Value, ...]
    namespace: dict[str, object]
    """The function's globals."""
    guards: tuple[Guard, ...]
    """What is known of the values already."""
    cells: tuple[tuple[Cell, object], ...]
    """The cells among the locals, and the real ones."""
    private: frozenset[Cell] = frozenset()
    """Those that the function has just made: nobody else has them."""


@dataclass(frozen=True, eq=False, slots=True)
class Returned:
    """The region left the function."""

    value: Value


@dataclass(frozen=True, eq=False, slots=True)
class Left:
    """The region ends before an instruction, and Python goes on there."""

    point: int
    locals: tuple[Value, ...]
    stack: tuple[Value, ...]
    graph_break: Break


Exit = Returned | Left


@dataclass(frozen=True, eq=False, slots=True)
class Trace:
    """What a region does: a graph, the guards under which that is so, effects, and how it ends."""

    graph: fx.Graph
    inputs: tuple[GraphInput, ...]
    guards: tuple[Guard, ...]
    effects: tuple[Effect, ...]
    exit: Exit
    heap: Heap
    nodes: Callable[[Tensor], fx.Node]
    op_count: int
    failures: Mapping[str, Failure]
    """For each node of the graph, what is to be done when it fails."""
    instructions: int
    """How many operations were traced, those of callees included."""


@dataclass(frozen=True, eq=False, slots=True)
class _Snapshot:
    """The outermost frame before one of its instructions."""

    point: int
    locals: tuple[Value, ...]
    stack: tuple[Value, ...]
    mark: Mark


class _Region:
    """Watches the outermost frame: remembers where it can be left, and forces breaks."""

    def __init__(
        self, vm: VM, start: Start, options: Options, can_leave: Callable[[int], bool]
    ) -> None:
        self.vm = vm
        self.start = start
        self.options = options
        self.can_leave = can_leave
        self.base = sum(isinstance(value, Kept) for value in start.stack)
        self.snapshots: list[_Snapshot] = []
        self._instruction = -1
        self._points = 0

    def before(self, frame: Frame, op: Op) -> None:
        """Called before each operation of the outermost frame."""
        if op.index == self._instruction and frame.program.ops[frame.at - 1].index == op.index:
            return  # in the middle of an instruction
        self._instruction = op.index
        point = self._point(frame, op)
        if point is None:
            return
        self.snapshots.append(
            _Snapshot(point, tuple(frame.locals), tuple(frame.stack), self.vm.mark())
        )
        if len(self.snapshots) > 1:
            self._force()

    def _point(self, frame: Frame, op: Op) -> int | None:
        """The point to leave at: the instruction, or one before it that is no operation itself."""
        if not self.snapshots:
            return self.start.point
        first = frame.program.first
        point = op.index
        while point >= 0 and first[point] == frame.at:
            if self.can_leave(point):
                return point
            point -= 1
        return None

    def _force(self) -> None:
        self._points += 1
        if self.options.break_anywhere or self.options.break_before == self._points - 1:
            forced = self.vm.break_here(reasons.FORCED)
            raise Stopped(forced)


def trace(
    start: Start,
    options: Options,
    facts: Facts,
    *,
    original_code: Callable[[CodeType], CodeType],
    can_leave: Callable[[int], bool],
    reachable: Callable[[Heap, Sequence[Value]], Collection[Value]],
    can_rebuild: Callable[[Heap, Collection[Value]], bool],
) -> Trace:
    """Trace from `start` until the function returns or tracing cannot go on.

    Runs none of the user's code and changes none of the user's objects.

    Args:
        original_code: from a hooked code object to the one that its author wrote.
        can_leave: whether a region that begins at `start` may end before an instruction.
        reachable: these values, and all that they refer to.
        can_rebuild: whether all of these values can be made real.
    """
    program = translate(start.code)
    frame = Frame(
        program,
        list(start.locals),
        Globals(),
        start.namespace,
        stack=list(start.stack),
        at=program.first[start.point],
    )
    vm = Machine(options, facts, original_code)
    vm.guards.extend(start.guards)
    for cell, real in start.cells:
        assert isinstance(real, CellType)
        namespaces.existing_cell(vm, cell, real)
        vm.seen[id(real)] = cell
        vm.keep_alive.append(real)
    region = _Region(vm, start, options, can_leave)
    vm.checkpoint = region.before
    with state.preserved(), _no_finalisers():
        try:
            finished = vm.resume_frame(frame)
            exit_: Exit = Returned(finished.value)
            effects = _lasting(vm, finished.value, start.private, reachable)
            alive = reachable(vm.heap, _alive(effects, (finished.value,)))
            if must_finish(vm) or not can_rebuild(vm.heap, alive):
                not_rebuilt = Break(reasons.NOT_REBUILT, "a result of the trace")
                exit_ = _left(vm, region, not_rebuilt, reachable, can_rebuild)
            else:
                vm.effects = effects
        except Stopped as stopped:
            exit_ = _left(vm, region, stopped.graph_break, reachable, can_rebuild)
        except Raised as raised:
            exit_ = _left(vm, region, _uncaught(vm, frame, raised), reachable, can_rebuild)
        finally:
            vm.checkpoint = None  # it refers to the trace, which holds the call's arguments
    vm.guards.extend(_distinct(vm))
    return Trace(
        graph=vm.graph.graph,
        inputs=tuple(vm.graph.inputs),
        guards=tuple(vm.guards),
        effects=tuple(vm.effects),
        exit=exit_,
        heap=vm.heap,
        nodes=vm.node,
        op_count=vm.graph.op_count,
        failures=vm.failures,
        instructions=vm.steps,
    )


def _lasting(
    vm: VM,
    result: Value,
    private: frozenset[Cell],
    reachable: Callable[[Heap, Sequence[Value]], Collection[Value]],
) -> list[Effect]:
    """The effects when the function has returned: nobody asks for the cells that only it had.

    Each keeps its place, for failures know effects by their number.
    """
    own = [isinstance(effect, SetCell) and effect.target in private for effect in vm.effects]
    if not any(own):
        return vm.effects
    others = [effect for effect, is_own in zip(vm.effects, own, strict=True) if not is_own]
    reached = reachable(vm.heap, _alive(others, (result,)))
    return [
        SetCell(effect.target, NONE)
        if isinstance(effect, SetCell) and is_own and effect.target not in reached
        else effect
        for effect, is_own in zip(vm.effects, own, strict=True)
    ]


@contextmanager
def _no_finalisers() -> Iterator[None]:
    """Keep the collector, and so the user's finalisers, from running in the middle of a trace."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _distinct(vm: VM) -> list[Guard]:
    """What the trace changed is none of the other things that the trace has read."""
    guarded = {source for guard in vm.guards for source in sources_of(guard)}
    guarded.update(base for s in tuple(guarded) if (base := base_of(s)) is not None)
    known: dict[type, dict[Source, None]] = {}
    for value in vm.seen.values():
        if isinstance(value, Object | Cell) and value.source in guarded:
            known.setdefault(_storage(value), {})[value.source] = None
    for owner in vm.owners.values():
        path = Attr(source, "__dict__") if (source := source_of(owner)) is not None else None
        if path is not None and path in guarded:
            known.setdefault(dict, {})[path] = None
    known.setdefault(dict, {}).update(dict.fromkeys(vm.namespaces.values()))
    found: dict[Guard, None] = {}
    for effect in vm.effects:
        for changed, storage in _changed(effect):
            for other in known.get(storage, {}):
                if other != changed:
                    found[Same(changed, other, same=False)] = None
    return list(found)


def _storage(value: Object | Cell) -> type:
    return CellType if isinstance(value, Cell) else value.cls


def _changed(effect: Effect) -> Iterator[tuple[Source, type]]:
    """What an effect writes to: a container, a cell, an object's slots or its dictionary."""
    target = effect.target
    source = source_of(target)
    if source is None:
        return
    if isinstance(target, Object | Cell):
        yield source, _storage(target)
    is_attribute = isinstance(effect, SetAttribute | DeleteAttribute)
    if is_attribute and not (isinstance(target, Object) and not target.cls.__dictoffset__):
        yield Attr(source, "__dict__"), dict


def _uncaught(vm: VM, frame: Frame, raised: Raised) -> Break:
    vm.frames.append(frame)
    try:
        detail = f"{raised.value.cls.__name__} is raised"
        return vm.break_here(reasons.RAISES, detail)
    finally:
        vm.frames.pop()


def _left(
    vm: VM,
    region: _Region,
    graph_break: Break,
    reachable: Callable[[Heap, Sequence[Value]], Collection[Value]],
    can_rebuild: Callable[[Heap, Collection[Value]], bool],
) -> Left:
    """Go back to the last instruction before which everything can be handed to Python."""
    for snapshot in reversed(region.snapshots):
        vm.rollback(snapshot.mark)
        if must_finish(vm) or not _kept_in_place(snapshot, region.base):
            continue
        values = _alive(vm.effects, (*snapshot.locals, *snapshot.stack[region.base :]))
        if can_rebuild(vm.heap, reachable(vm.heap, values)):
            return Left(snapshot.point, snapshot.locals, snapshot.stack, graph_break)
    raise AssertionError("a region can always end where it begins")


def _kept_in_place(snapshot: _Snapshot, base: int) -> bool:
    """Whether what the hook keeps on the stack is where it was, and nowhere else."""
    in_place = all(
        isinstance(value, Kept) and value.depth == depth
        for depth, value in enumerate(snapshot.stack[:base])
    )
    others = (*snapshot.locals, *snapshot.stack[base:])
    return in_place and not any(isinstance(value, Kept) for value in others)


def _alive(effects: Sequence[Effect], values: tuple[Value, ...]) -> list[Value]:
    """What has to be made real at an exit: values that live on, and those of effects."""
    alive = list(values)
    for effect in effects:
        alive.extend(effect_operands(effect))
    return alive
