"""Where a region can be left: each frame of the trace before each of its instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import CodeType

from jitpkg.code.dialect import Op, Program
from jitpkg.config import Options
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break
from jitpkg.guards.sources import Source
from jitpkg.tracer import iterators, reasons
from jitpkg.tracer.effects import Effect, effect_operands
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.generators import must_finish
from jitpkg.tracer.heap import Heap
from jitpkg.tracer.values import NONE, NULL, Continuation, Kept, Tuple, Value
from jitpkg.tracer.vm import VM, Mark, Stopped

CanRebuild = Callable[[Heap, Sequence[Value]], bool]
"""Whether all of these values can be made real."""


@dataclass(frozen=True, eq=False, slots=True)
class Left:
    """The region ends before an instruction, and Python goes on there."""

    point: int
    locals: tuple[Value, ...]
    stack: tuple[Value, ...]
    graph_break: Break

    def continuations(self) -> Iterator[Continuation]:
        """The inlined functions in the middle of which Python goes on, the outermost first."""
        stack = self.stack
        while found := [value for value in stack if isinstance(value, Continuation)]:
            (inner,) = found
            yield inner
            stack = inner.stack


@dataclass(frozen=True, slots=True)
class Limits:
    """Where Python can take over."""

    leave: Callable[[int], bool]
    """Whether a region may end before an instruction of the function that it begins in."""
    enter: Callable[[CodeType, int], bool]
    """Whether a function that was inlined can be entered before an instruction."""
    rebuild: CanRebuild
    replay: CanRebuild
    """The same for what handlers have done that let the exception of an op pass."""
    passes: bool = True
    """Whether what the graph raises can pass by the handlers that cover the point where the region
    begins."""
    whole: bool = False
    """Whether a break is an error: then nothing is left out of the graph for speed only."""


@dataclass(frozen=True, eq=False, slots=True)
class _Snapshot:
    """A frame before one of its instructions."""

    program: Program
    at: int
    """The operation."""
    point: int | None
    """Index of an instruction; None where that is still to be found."""
    locals: tuple[Value, ...]
    stack: tuple[Value, ...]
    globals: Source
    namespace: dict[str, object]
    mark: Mark
    caller: _Caller | None


@dataclass(frozen=True, eq=False, slots=True)
class _Caller:
    """A frame at an instruction that does nothing but call the next frame's function."""

    snapshot: _Snapshot
    below: int
    """How many stack values lie below those that the call takes."""


class Region:
    """Watches the frames of a trace: remembers where it can be left, and forces breaks."""

    def __init__(self, vm: VM, start: int, base: int, options: Options, limits: Limits) -> None:
        self.vm = vm
        self.start = start
        """The point where the region begins."""
        self.base = base
        """How many stack values the hook keeps on the stack."""
        self.limits = limits
        self.disturbance = options.disturbance
        self.forces = self.disturbance.breaks
        self.snapshots: list[_Snapshot] = []
        self._latest: dict[Frame, _Snapshot] = {}
        self._callers: dict[Frame, _Caller | None] = {}
        self._points = 0

    def before(self, frame: Frame, op: Op) -> None:
        """Called before each operation of the outermost frame, and of those that it calls."""
        if frame.at and frame.program.ops[frame.at - 1].index == op.index:
            return  # in the middle of an instruction
        outermost = frame is self.vm.frames[0]
        caller = None if outermost else self._caller(frame)
        if caller is None and not outermost:
            return
        point = self._point(frame.program, frame.at, outermost) if outermost or self.forces else -1
        if point is None:
            self._latest.pop(frame, None)
            return
        snapshot = _Snapshot(
            frame.program,
            frame.at,
            None if point < 0 else point,
            tuple(frame.locals),
            tuple(frame.stack),
            frame.globals,
            frame.namespace,
            self.vm.mark(),
            caller,
        )
        self._latest[frame] = snapshot
        self.snapshots.append(snapshot)
        if len(self.snapshots) > 1:
            self._force()

    def _caller(self, frame: Frame) -> _Caller | None:
        if frame not in self._callers:
            waiting = self.vm.frames[-2]
            snapshot = self._latest.get(waiting)
            if snapshot is None or snapshot.at != waiting.at - 1:
                self._callers[frame] = None
            else:
                self._callers[frame] = _Caller(snapshot, len(waiting.stack))
        return self._callers[frame]

    def _point(self, program: Program, at: int, outermost: bool) -> int | None:
        """The point to leave at: the instruction, or one before it that is no operation itself."""
        if outermost and not self.snapshots:
            return self.start
        point = program.ops[at].index
        while point >= 0 and program.first[point] == at:
            if self.limits.leave(point) if outermost else self.limits.enter(program.code, point):
                return point
            point -= 1
        return None

    def _force(self) -> None:
        self._points += 1
        if self.disturbance.break_anywhere or self.disturbance.break_before == self._points - 1:
            raise Stopped(self.vm.break_here(reasons.FORCED))

    # Leaving

    def left(self, graph_break: Break) -> Left:
        """Go back to the last instruction before which everything can be handed to Python."""
        for snapshot in reversed(self.snapshots):
            self.vm.rollback(snapshot.mark)
            if is_inside(self.vm):
                continue
            if (walking := iterators.in_midst(self.vm)) is not None:
                graph_break = walking
                continue
            found = self._left_at(snapshot, graph_break)
            if found is not None:
                return found
        raise AssertionError("a region can always end where it begins")

    def _left_at(self, snapshot: _Snapshot, graph_break: Break) -> Left | None:
        stack, depth = snapshot.stack, 1
        outer = snapshot
        while outer.caller is not None:
            outer, depth = outer.caller.snapshot, depth + 1
        broke_deeper = len(graph_break.stack) > depth
        while snapshot.caller is not None:
            program = snapshot.program
            point = self._point(program, snapshot.at, False)
            if point is None:
                return None
            inner = Continuation(
                program.code,
                point,
                snapshot.locals,
                stack,
                snapshot.globals,
                snapshot.namespace,
                calls=broke_deeper,
            )
            broke_deeper = False
            stack = _calling(self.vm, snapshot.caller, inner)
            snapshot = snapshot.caller.snapshot
        assert snapshot.point is not None
        left = Left(snapshot.point, snapshot.locals, stack, graph_break)
        if not _kept_in_place(left, self.base):
            return None
        values = alive(self.vm.effects, (*left.locals, *stack[self.base :]))
        return left if self.limits.rebuild(self.vm.heap, values) else None


def is_inside(vm: VM) -> bool:
    """Whether Python cannot go on here: a generator has to finish, or a block was entered for which
    nothing real stands, of a torch-function mode (`with torch.device(…)` is one), of what asks no
    subclass of tensors, or of `warnings.catch_warnings()`."""
    entered = vm.devices != vm.devices_before or vm.function_modes or vm.catching
    return must_finish(vm) or bool(entered) or not vm.asks_subclasses


def _calling(vm: VM, caller: _Caller, inner: Continuation) -> tuple[Value, ...]:
    """The stack of a frame whose call instruction is to call `inner` with whatever arguments."""
    snapshot, below = caller.snapshot, caller.below
    taken = snapshot.stack[below:]
    function = next(k for k, value in enumerate(taken) if value is not NULL)
    nothing: list[Value] = [value if value is NULL else NONE for value in taken]
    nothing[function] = inner
    match snapshot.program.ops[snapshot.at].name:
        case "CALL_KW":
            nothing[-1] = _NO_ARGUMENTS  # the keywords' names
        case "CALL_FUNCTION_EX":
            arguments = [k for k, value in enumerate(taken) if value is not NULL and k != function]
            nothing[arguments[0]] = _NO_ARGUMENTS
            if len(arguments) > 1:
                nothing[arguments[1]] = vm.new_dict([])
    return (*snapshot.stack[:below], *nothing)


_NO_ARGUMENTS = Tuple((), tuple)


def _kept_in_place(left: Left, base: int) -> bool:
    """Whether what the hook keeps on the stack is where it was; elsewhere it cannot be rebuilt."""
    return all(
        isinstance(value, Kept) and value.depth == depth
        for depth, value in enumerate(left.stack[:base])
    )


def alive(effects: Sequence[Effect], values: Sequence[Value]) -> list[Value]:
    """What has to be made real at an exit: values that live on, and those of effects."""
    return [*values, *(operand for effect in effects for operand in effect_operands(effect))]
