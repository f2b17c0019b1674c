"""Trace one region: from a point in a function, with real values at hand, to where it ends."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType

import torch
from torch import fx

from jitpkg import collector
from jitpkg.code.dialect import translate
from jitpkg.config import Options
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break, Location
from jitpkg.facts.answers import Facts
from jitpkg.guards.kinds import Guard, Same, sources_of
from jitpkg.guards.sources import Globals, Source, base_of, dictionary_of
from jitpkg.marks import KEEPS
from jitpkg.tracer import (
    array_memory,
    autograd_functions,
    escapes,
    guesses,
    iterators,
    namespaces,
    reasons,
    state,
    values,
)
from jitpkg.tracer.effects import DeleteAttribute, Effect, SetAttribute, SetCell, replaced
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.graph import GraphInput
from jitpkg.tracer.heap import Heap
from jitpkg.tracer.history import History
from jitpkg.tracer.look import source_of
from jitpkg.tracer.machine import Machine
from jitpkg.tracer.reached import reachable
from jitpkg.tracer.region import Left, Limits, Region, alive, is_inside
from jitpkg.tracer.values import (
    NONE,
    Array,
    Cell,
    Kept,
    Known,
    Marker,
    Object,
    Reading,
    Tensor,
    Value,
)
from jitpkg.tracer.vm import (
    SHOWN,
    VM,
    Around,
    Failure,
    Guess,
    Originals,
    Raised,
    Stopped,
    Undecided,
)


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
    nodes: Callable[[Tensor | Reading], fx.Node]
    op_count: int
    failures: Mapping[str, Failure]
    """For each node of the graph, what is to be done when it fails."""
    rewinds: frozenset[torch.device]
    """Devices whose random streams are set back where a node fails that may be rewound."""
    steps: int
    """How many operations of the program's own code were traced, those of callees included."""
    writes: frozenset[Source]
    """Tensors that the graph writes to."""
    draws: frozenset[torch.device]
    """Devices whose random streams the graph draws from."""
    repeats: bool
    """Whether nobody would see more of the graph's running twice than in these."""
    guesses: tuple[Guess, ...] = ()
    """Branches on data that the trace has gone past: of each the tensor is looked at when the graph
    has run, and before anything else is done."""
    undecided: Undecided | None = None
    """The branch on data at which the trace ends, where its way may be guessed once it is known."""
    decided: tuple[tuple[Guard, tuple[Location, ...]], ...] = ()
    """Relations that make one number of a size which the program has marked as dynamic, and the
    calls that led to each."""


def trace(
    start: Start,
    options: Options,
    facts: Facts,
    *,
    originals: Originals,
    limits: Limits,
    history: History,
) -> Trace:
    """Trace from `start` until the function returns or tracing cannot go on.

    Runs none of the user's code and changes none of the user's objects.

    Args:
        originals: what compiled functions and hooked code objects were made from.
        limits: where a region that begins at `start` may end.
        history: what earlier traces from there were built for.
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
    vm = Machine(options, facts, originals, history, whole=limits.whole)
    covering = escapes.covering(program, start.point)
    vm.around = Around(limits.replay, limits.passes, covering)
    vm.guards.extend(start.guards)
    for cell, real in start.cells:
        assert isinstance(real, CellType)
        namespaces.existing_cell(vm, cell, real)
        vm.seen[id(real)] = cell
        vm.keep_alive.append(real)
    base = sum(isinstance(value, Kept) for value in start.stack)
    region = Region(vm, start.point, base, options, limits)
    vm.checkpoint = region.before
    vm.heap.refuse = lambda: vm.stop(reasons.OPAQUE, "a change of what a function remembers")
    with state.preserved(), collector.resting():  # no finaliser runs in the middle of a trace
        try:
            finished = vm.resume_frame(frame)
            exit_: Exit = Returned(finished.value)
            effects = _lasting(vm, finished.value, start.private, limits)
            walking = iterators.in_midst(vm)
            if walking is not None:
                exit_ = region.left(walking)
            elif is_inside(vm) or not limits.rebuild(vm.heap, alive(effects, (finished.value,))):
                exit_ = region.left(Break(reasons.NOT_REBUILT, "a result of the trace"))
            else:
                vm.effects = effects
        except Stopped as stopped:
            exit_ = region.left(stopped.graph_break)
        except Raised as raised:
            exit_ = region.left(_uncaught(vm, frame, raised))
        finally:
            # They refer to the trace, which holds the call's arguments.
            vm.checkpoint = vm.heap.refuse = None
    _keep_replaced(vm)
    vm.guards = list(dict.fromkeys(vm.guards))  # a model reads the same things in each layer
    vm.guards.extend(_distinct(vm))
    array_memory.guard_apart(vm)
    if vm.frozen:
        left = alive(vm.effects, _values_of(exit_))
        autograd_functions.note_views(vm, reachable(vm.heap, left, cells=True))
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
        rewinds=frozenset(vm.drawn) if vm.rewinds or vm.guesses else frozenset(),
        steps=vm.own_steps,
        writes=frozenset(t.source for t in vm.mutations if t.source is not None),
        draws=frozenset(vm.drawn),
        repeats=SHOWN not in vm.mutations,
        guesses=tuple(vm.guesses),
        undecided=guesses.undecided(vm, exit_) if isinstance(exit_, Left) else None,
        decided=tuple((g, stack) for g, stack in vm.decided.items() if g in vm.guards),
    )


def _values_of(exit_: Exit) -> tuple[Value, ...]:
    """What the region hands back."""
    if isinstance(exit_, Returned):
        return (exit_.value,)
    return tuple(value for value in (*exit_.locals, *exit_.stack) if not isinstance(value, Marker))


def _lasting(vm: VM, result: Value, private: frozenset[Cell], limits: Limits) -> list[Effect]:
    """The effects when the function has returned: nobody asks for the cells that only it had.

    Each keeps its place, for failures know effects by their number.
    """
    own = [isinstance(effect, SetCell) and effect.target in private for effect in vm.effects]
    if not any(own):
        return vm.effects
    others = [effect for effect, is_own in zip(vm.effects, own, strict=True) if not is_own]
    reached = reachable(vm.heap, alive(others, (result,)), cells=True)
    return [
        SetCell(effect.target, NONE)
        if isinstance(effect, SetCell) and is_own and effect.target not in reached
        else effect
        for effect, is_own in zip(vm.effects, own, strict=True)
    ]


def _keep_replaced(vm: VM) -> None:
    """Let what an effect assigns live on until another one replaces it: an op in between may fail,
    and then the program has it."""
    gone = list(replaced(vm.effects))
    if not gone:
        return
    ops = [node for node in vm.graph.graph.nodes if node.name in vm.failures]
    before = [vm.failures[node.name].effects for node in ops]
    for k, replacing in gone:
        effect = vm.effects[k]
        assert isinstance(effect, SetAttribute)
        value, last = effect.value, bisect_right(before, replacing) - 1
        if isinstance(value, Tensor | Array | Reading) and last >= 0 and before[last] > k:
            reached = reachable(vm.heap, [value])
            made = [v for v in reached if isinstance(v, Tensor | Reading) and source_of(v) is None]
            if made:
                ops[last].meta.setdefault(KEEPS, []).extend(each.node.name for each in made)


def _distinct(vm: VM) -> list[Guard]:
    """What the trace changed is none of the other things that the trace has read."""
    guarded = {source for guard in vm.guards for source in sources_of(guard)}
    guarded.update(base for s in tuple(guarded) if (base := base_of(s)) is not None)
    known: dict[type, dict[Source, None]] = {}
    for value in vm.seen.values():
        if isinstance(value, Object | Cell | values.Iterator) and value.source in guarded:
            known.setdefault(_storage(value), {})[value.source] = None
    for owner in vm.owners.values():
        source = source_of(owner)
        path = None if source is None else dictionary_of(source, _class_of(owner))
        if path is not None and (path in guarded or isinstance(owner, Tensor)):
            known.setdefault(dict, {})[path] = None
    known.setdefault(dict, {}).update(dict.fromkeys(vm.namespaces.values()))
    found: dict[Guard, None] = {}
    for effect in vm.effects:
        for changed, storage in _changed(effect):
            for other in known.get(storage, {}):
                if other != changed:
                    found[Same(changed, other, same=False)] = None
    return list(found)


def _storage(value: Object | Cell | values.Iterator) -> type:
    match value:
        case Cell():
            return CellType
        case Object():
            return value.cls
        case values.Iterator():
            return type(value.obj)


def _changed(effect: Effect) -> Iterator[tuple[Source, type]]:
    """What an effect writes to: a container, a cell, an object's slots or its dictionary."""
    target = effect.target
    source = source_of(target)
    if source is None:
        return
    if isinstance(target, Tensor):
        match effect:
            case SetAttribute(name=name) | DeleteAttribute(name=name) if name != "grad":
                yield dictionary_of(source, torch.Tensor), dict
        return
    if isinstance(target, Object | Cell):
        yield source, _storage(target)
    if isinstance(target, values.Iterator):
        for iterator in iterators.advanced_by(target):
            assert iterator.source is not None
            yield iterator.source, _storage(iterator)
        return
    is_attribute = isinstance(effect, SetAttribute | DeleteAttribute)
    if is_attribute and not (isinstance(target, Object) and not target.cls.__dictoffset__):
        yield dictionary_of(source, _class_of(target)), dict


def _class_of(owner: Value) -> type:
    match owner:
        case Object():
            return owner.cls
        case Known():
            return type(owner.obj)
        case Tensor():
            return torch.Tensor
        case _:
            return FunctionType


def _uncaught(vm: VM, frame: Frame, raised: Raised) -> Break:
    vm.frames.append(frame)
    try:
        detail = f"{raised.value.cls.__name__} is raised"
        return vm.break_here(reasons.RAISES, detail)
    finally:
        vm.frames.pop()
