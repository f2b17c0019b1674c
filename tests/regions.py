"""Regions that need no tracer, to exercise the emitter: they give back what they were given.

`Identity` goes on where it was asked, `Leaving` goes on in a resume function, and `Walking`
executes a few simple instructions itself and goes on behind them. A rewritten program must do
exactly what the plain one does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any, Protocol

from jitpkg.code.analysis import is_function, is_generator
from jitpkg.code.effects import VALUE, accesses
from jitpkg.code.instructions import Instruction
from jitpkg.rewriter.door import RETURN, UNBOUND, Door
from jitpkg.rewriter.emitter import Emitter, Hook
from jitpkg.rewriter.points import Points

UNKNOWN = -2
"""An exit that no code knows: the hook calls `leave`."""

Outcome = tuple[int, Callable[..., Any] | None, Any]
Pick = Callable[[tuple[Any, ...]], tuple[Any, ...]]


class Region(Protocol):
    exits: tuple[int, ...]

    def run(self, *values: Any) -> Outcome: ...


RegionAt = Callable[[Points, int], Region | None]
"""The region for a point, or None where there shall be no hook."""


def unchanged(points: Points, h: int) -> Pick:
    """From the inputs at `h` to the outputs of an exit to `h`."""
    places = points.unchanged(h)
    if len(places) > 1:
        return operator.itemgetter(*places)
    if places:
        only = places[0]
        return lambda values: (values[only],)
    return lambda _: ()


class Identity:
    """Goes on where it was asked."""

    def __init__(self, points: Points, h: int) -> None:
        self.exit = h
        self.exits = (h,)
        self.pick = unchanged(points, h)

    def run(self, *values: Any) -> Outcome:
        return self.exit, None, self.pick(values)


class Leaving:
    """Goes on in a resume function that is entered at the same point."""

    def __init__(self, points: Points, h: int, emitter: Callable[[], Emitter]) -> None:
        self.points = points
        self.at = h
        self.exits = (h,)
        self.pick = unchanged(points, h)
        self.emitter = emitter
        self.code: CodeType | None = None
        self.left = 0

    def run(self, *values: Any) -> Outcome:
        if self.code is None and not self.prepare():
            return self.at, None, self.pick(values)
        self.left += 1
        return UNKNOWN, self.leave, self.pick(values)

    def prepare(self) -> bool:
        """Emit the resume function; False where it must not be done now."""
        self.code = self.emitter().resume(self.at, self.points.analysis.kept(self.at))
        return True

    def leave(
        self, _: int, namespace: dict[str, Any], cells: tuple[Any, ...]
    ) -> Callable[..., Any]:
        assert self.code is not None
        return FunctionType(self.code, namespace, self.code.co_name, None, cells)


class Null:
    """A NULL on the stack of a walk."""


class Stop(Exception):
    """The walk leaves this instruction to Python."""


class Walking:
    """Executes up to `steps` simple instructions and goes on where an exit is possible.

    With `emitter`, it goes on there in a resume function.
    """

    def __init__(
        self, points: Points, h: int, steps: int = 6, emitter: Callable[[], Emitter] | None = None
    ) -> None:
        self.points = points
        self.at = h
        self.steps = steps
        self.base = points.analysis.kept(h)
        self.slots = points.locals_at(h)
        self.stack = points.stack_above(h, self.base)
        self.cells = {s: k for k, s in enumerate((*points.cells_at(h), *points.free))}
        self.same = unchanged(points, h)
        self.exits = (h, *(p for p in self.reachable() if p != h))
        self.emitter = emitter
        self.codes: dict[int, CodeType] = {}
        self.moved: set[int] = set()
        self.left = 0

    def reachable(self) -> list[int]:
        """Exits that a walk may come to."""
        points, ways, found = self.points, [(self.at, 0)], set()
        while ways:
            i, count = ways.pop()
            if i in found or count > self.steps:
                continue
            found.add(i)
            if points.instructions[i].opname in SIMPLE or is_branch(points.instructions[i]):
                ways.extend((n, count + 1) for n in points.analysis.successors(i))
        return sorted(p for p in found if points.exit_refusal(self.at, p) is None)

    def run(self, *values: Any) -> Outcome:
        walk = _Walk(self, values)
        i = self.at
        best: Outcome = (i, None, self.same(values))
        for _ in range(self.steps):
            ins = self.points.instructions[i]
            if ins.opname in ("RETURN_VALUE", "RETURN_CONST"):
                value = walk.result(ins)
                return best if value is Null else (RETURN, None, value)
            try:
                i = walk.step(i, ins)
            except Stop:
                break
            if i in self.exits and walk.kept_is_untouched(i):
                best = i, None, walk.outputs(i)
        self.moved.add(best[0])
        if self.emitter is None or is_generator(self.points.code):
            return best
        self.left += 1
        return -2 - best[0], self.leave, best[2]

    def leave(
        self, exit_: int, namespace: dict[str, Any], cells: tuple[Any, ...]
    ) -> Callable[..., Any]:
        p = -2 - exit_
        assert self.emitter is not None
        if p not in self.codes:
            self.codes[p] = self.emitter().resume(p, self.base)
        return FunctionType(self.codes[p], namespace, self.codes[p].co_name, None, cells)


class _Walk:
    """The frame of one walk."""

    def __init__(self, region: Walking, values: tuple[Any, ...]) -> None:
        self.region = region
        self.slots = dict(zip(region.slots, values, strict=False))
        inputs = iter(values[len(region.slots) :])
        passed = [next(inputs) if value.passed else Null for value in region.stack]
        self.cells = tuple(inputs)
        self.stack = [Null if value is UNBOUND else value for value in reversed(passed)]
        self.kept = region.base
        """How many of the kept values are untouched."""

    def kept_is_untouched(self, p: int) -> bool:
        depth = len(self.region.points.analysis.stack(p))
        return min(self.region.base, depth) <= self.kept

    def outputs(self, p: int) -> tuple[Any, ...]:
        points, base = self.region.points, self.region.base
        values = [self.slots.get(slot, UNBOUND) for slot in points.restored_at(p)]
        for value in points.stack_above(p, base):
            if value.passed:
                held = self.stack[value.depth - self.kept]
                values.append(UNBOUND if held is Null else held)
        return tuple(values)

    def result(self, ins: Instruction) -> Any:
        if ins.opname == "RETURN_CONST":
            return self.region.points.code.co_consts[ins.arg]
        return self.stack[-1] if self.stack else Null

    def step(self, i: int, ins: Instruction) -> int:
        """Execute one instruction; the next one."""
        if is_branch(ins):
            assert ins.target is not None
            return ins.target if self.jumps(ins) else i + 1
        if ins.opname not in SIMPLE:
            raise Stop
        used = accesses(ins)
        if used:
            for access, slot in used:
                self.access(access, slot)
        else:
            self.execute(i, ins)
        return i + 1 if ins.target is None else ins.target

    def access(self, access: str, slot: int) -> None:
        if slot >= self.region.points.slot_count or slot in self.region.cells:
            raise Stop
        match access:
            case "load":
                self.stack.append(self.bound(slot))
            case "delete":
                self.bound(slot)
                self.slots[slot] = UNBOUND
            case "store":
                value = self.pop()
                self.slots[slot] = UNBOUND if value is Null else value
            case _:
                raise Stop

    def bound(self, slot: int) -> Any:
        value = self.slots.get(slot, UNBOUND)
        if value is UNBOUND:
            raise Stop
        return value

    def pop(self) -> Any:
        if not self.stack:
            raise Stop
        return self.stack.pop()

    def values(self, count: int) -> list[Any]:
        """The topmost values, none of them NULL."""
        top = self.stack[len(self.stack) - count :] if count else []
        if len(top) < count or any(value is Null for value in top):
            raise Stop
        return top

    def execute(self, i: int, ins: Instruction) -> None:
        stack, arg = self.stack, ins.arg
        match ins.opname:
            case "LOAD_CONST":
                stack.append(self.region.points.code.co_consts[arg])
            case "LOAD_DEREF":
                stack.append(self.cell_contents(arg))
            case "PUSH_NULL":
                stack.append(Null)
            case "POP_TOP":
                self.drop(i)
            case "COPY":
                stack.append(self.values(arg)[0])
            case "SWAP":
                self.values(arg)
                stack[-1], stack[-arg] = stack[-arg], stack[-1]
            case "BUILD_TUPLE" | "BUILD_LIST":
                values = self.values(arg)
                made = tuple(values) if ins.opname == "BUILD_TUPLE" else list(values)
                del stack[len(stack) - arg :]
                stack.append(made)
            case "UNPACK_SEQUENCE":
                (value,) = self.values(1)
                if type(value) is not tuple or len(value) != arg:
                    raise Stop
                stack[-1:] = reversed(value)
            case "IS_OP":
                a, b = self.values(2)
                stack[-2:] = [(a is b) != bool(arg)]

    def drop(self, i: int) -> None:
        """POP_TOP, of a kept value too."""
        if self.stack:
            self.pop()
            return
        if self.region.points.analysis.stack(i)[-1] != VALUE or not self.kept:
            raise Stop
        self.kept -= 1

    def cell_contents(self, slot: int) -> Any:
        if slot not in self.region.cells:
            raise Stop
        try:
            return self.cells[self.region.cells[slot]].cell_contents
        except ValueError:
            raise Stop from None

    def jumps(self, ins: Instruction) -> bool:
        (value,) = self.values(1)
        if ins.opname.endswith("NONE"):
            taken = (value is None) != ins.opname.endswith("NOT_NONE")
        elif type(value) is bool:
            taken = value == ins.opname.endswith("TRUE")
        else:
            raise Stop
        self.pop()
        return taken


SIMPLE = frozenset(
    "LOAD_FAST LOAD_FAST_CHECK STORE_FAST DELETE_FAST LOAD_FAST_LOAD_FAST STORE_FAST_LOAD_FAST"
    " STORE_FAST_STORE_FAST LOAD_CONST LOAD_DEREF PUSH_NULL POP_TOP NOP COPY SWAP BUILD_TUPLE"
    " BUILD_LIST UNPACK_SEQUENCE IS_OP JUMP_FORWARD JUMP_BACKWARD".split()
)
"""Instructions that a walk executes; they call nothing of the user's."""


def is_branch(ins: Instruction) -> bool:
    return ins.opname.startswith("POP_JUMP")


class Rewriter:
    """Puts regions into code objects, nested ones included.

    It keeps the regions alive, unless `keeps` is false and somebody else does.
    """

    def __init__(self, region_at: RegionAt, *, keeps: bool = True) -> None:
        self.region_at = region_at
        self.keeps = keeps
        self.regions: list[Region] = []
        self.rewritten: dict[tuple[str, CodeType], CodeType] = {}
        """By file and, since files are read again, by what they hold."""
        self.done: dict[int, CodeType] = {}

    def code(self, code: CodeType) -> CodeType:
        """The rewritten code; what was rewritten before is given back as it is."""
        key = code.co_filename, code
        if id(code) in self.done or key in self.rewritten:
            return self.rewritten.get(key, code)
        nested = tuple(self.code(c) if isinstance(c, CodeType) else c for c in code.co_consts)
        changed = any(a is not b for a, b in zip(nested, code.co_consts, strict=True))
        new = code.replace(co_consts=nested) if changed else code
        if is_function(code):
            points = Points.of(new)
            if hooks := self.hooks(points):
                new = Emitter(points, hooks).hooked()
        self.rewritten[key] = self.done[id(new)] = new
        return new

    def hooks(self, points: Points, which: Iterable[int] | None = None) -> dict[int, Hook]:
        """A hook for each point that has a region."""
        found: dict[int, Hook] = {}
        for h in points.hookable() if which is None else which:
            if (region := self.region_at(points, h)) is not None:
                if self.keeps:
                    self.regions.append(region)
                found[h] = Hook(Door(region), region.exits)
        return found

    def function(self, function: FunctionType) -> FunctionType:
        """A copy of `function` that is rewritten."""
        new = FunctionType(
            self.code(function.__code__),
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        new.__kwdefaults__ = function.__kwdefaults__
        new.__qualname__ = function.__qualname__
        new.__annotations__ = function.__annotations__
        return new


def walk(code: CodeType) -> Iterator[CodeType]:
    """A code object and all that are nested in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from walk(const)
