"""From a hook to compiled code: regions, their entries, and the versions of a function's code."""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from jitpkg import config, events, forks
from jitpkg.code.analysis import is_function, is_generator
from jitpkg.code.instructions import Inconsistent
from jitpkg.code.verify import Unverified
from jitpkg.errors import (
    Break,
    GraphBreak,
    IncorrectResult,
    RecompileLimit,
    SizeSpecialized,
)
from jitpkg.facts.thread_state import function_modes, leave_modes
from jitpkg.guards import state as global_state
from jitpkg.guards.explain import FirstFailure, first_failure
from jitpkg.internals import Missing, say_if_untested
from jitpkg.interrupts import from_outside, uninterrupted
from jitpkg.living import Living
from jitpkg.messages import beginning
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.correctness import verified
from jitpkg.rewriter.door import RETURN, Door, leaving
from jitpkg.rewriter.emitter import Emitter, Hook
from jitpkg.rewriter.entry import Entry, Interface
from jitpkg.rewriter.ledger import Account
from jitpkg.rewriter.originals import ORIGINALS
from jitpkg.rewriter.points import Points
from jitpkg.rewriter.produce import Produced, is_deep, produce
from jitpkg.rewriter.region import LOOK, LOOK_AGAIN, Followed, Region, Result
from jitpkg.rewriter.stances import may_compile
from jitpkg.rewriter.telling import failed, forked, limit_reached, not_whole
from jitpkg.tracer.libraries import looks_past_its_caller
from jitpkg.tracer.vm import Branch

_CALLED = -1
"""In place of a number of kept stack values: a resume function that an instruction calls."""

_NO_GRAPH = "no operation on tensors is found in it that could be compiled"

_PASSED = "nearly all calls fit none of its entries, and no more are made"

_DROPS = 2
"""So many times a hook in the middle has given nothing: it is not put there again."""

_CLOSURES = 8
"""Entries that differ in what a cell or a default holds only may be so many times more."""


class Dispatcher:
    """The regions of one code object, and the versions of it that are emitted.

    It belongs to a function, or to a code object that several functions share; it refers to
    neither, so that both can die.
    """

    def __init__(self, code: CodeType, compiler: Compiler, name: str) -> None:
        self.points = Points.of(code)
        self.compiler = compiler
        self.name = name
        self.is_generator = is_generator(code)
        self.keeps_frame = self.is_generator or (
            self.points.looks_at_frames and not looks_past_its_caller(code)
        )
        """Whether a call must stay in the frame that it began in, which may be older than the
        newest hooks: it cannot leave for a resume function, or would see that one's frame."""
        self.regions: dict[int, Region] = {}
        self._drops: dict[int, int] = {}
        self._dropped: list[Region] = []
        """Regions that the newest version still has hooks for."""
        self.code = code
        """The newest version."""
        self._is_old = False
        """Whether exits are known that the newest version does not have: see `_discover`."""
        self._leaves: tuple[int, int] | None = None
        """Where the call that has found the last of these is still to leave its frame, and how many
        stack values are kept there."""
        self._lock = forks.lock()
        self._owners: Living[FunctionType] = Living(self._lock)
        self._resumes: dict[tuple[int, int], CodeType] = {}
        self._entries = self._asked = 0
        self._building = False
        self.followed: Followed | None = None
        self.refused: Break | None = None
        """Why functions with this code are never traced, where they are to be whole graphs."""
        ledger = compiler.ledger
        asked, again = compiler.asked, not (compiler.asked or compiler.quiet)
        self._account = None if ledger is None else Account(ledger, asked=asked, again=again)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """In a pickle of a function by value there is no compiled code."""
        return type(None), ()

    def original_of(self, function: FunctionType) -> FunctionType | None:
        """What a function of this was made from, where it follows another one."""
        return self.followed.original if self.followed and self.owns(function) else None

    def reset(self) -> None:
        """Drop all entries and hooks but the first."""
        with self._lock:
            self.regions.clear()
            self._drops.clear()
            self.compiler.reset()
            self.install()

    # Versions of the code

    def install(self, functions: Iterable[FunctionType] = ()) -> bool:
        """Hook the beginning of the code; False where that cannot be."""
        first = self.points.first
        if first is None:
            return False
        self._owners.update(functions)
        if first not in self.regions:
            self.regions[first] = Region(self, first)
        try:
            self._emit()
        except Unverified as error:
            failed(self.name, error, config.current())
            return False
        return True

    def heed(self, options: config.Options) -> None:
        """Do in the calls that begin from now on what the settings say."""
        for region in tuple(self.regions.values()):
            region.heed(options)

    def owns(self, function: FunctionType) -> bool:
        """Whether this keeps the function's code up to date."""
        return function in self._owners

    def release(self, function: FunctionType) -> None:
        """Give one function its own code back, for good."""
        with self._lock:
            if function in self._owners:
                self._owners.discard(function)
                function.__code__ = ORIGINALS.of(function.__code__)

    def uninstall(self) -> None:
        """Give the functions their own code back."""
        self._replace(self.points.code)

    def _emit(self) -> None:
        """Emit a version with all regions and exits that are known now."""
        emitter = self._emitter()
        emitted = emitter.hooked()
        self._resumes.clear()
        events.STREAM.emit(events.CodeEmitted(self.name, self.points.code, emitted))
        self._replace(emitted)

    def _with_exit(self, region: Region, exit_: int) -> Region:
        """The region, which now has this exit, too.

        A generator's frame cannot learn a new exit: while it lives, its code's regions have the
        entries and exits that the code knows, and the next version has a region of its own.
        """
        exits = (*region.exits, exit_)
        if self.keeps_frame:
            old, region = region, Region(self, region.h)
            region.history = old.history
            for entry in old.entries:
                region.add(entry.copy())
        region.exits = exits
        return region

    def _emitter(self) -> Emitter:
        known = list(self.regions.items())  # in one step: another thread may add some
        hooks = {h: Hook(Door(region), region.exits) for h, region in known}
        return Emitter(self.points, hooks)

    def _replace(self, code: CodeType) -> None:
        self._dropped.clear()
        self._is_old = False
        old, self.code = self.code, code
        ORIGINALS.add(code, self.points.code)
        for function in self._owners:
            if function.__code__ is old or ORIGINALS.of(function.__code__) is self.points.code:
                function.__code__ = code

    def resume_function(
        self,
        p: int,
        base: int,
        globals_: dict[str, object],
        cells: tuple[types.CellType, ...],
    ) -> FunctionType:
        """The newest version, entered at point `p`."""
        finds, self._leaves = self._leaves == (p, base), None
        if self._is_old and not finds:
            self.refresh()
        code = self._resume_code(p, base)
        return FunctionType(code, globals_, code.co_name, None, cells)

    def _resume_code(self, p: int, base: int) -> CodeType:
        """The newest version, entered at `p`; `base` may be `_CALLED`."""
        code = self._resumes.get((p, base))
        if code is None:
            code = self._emitter().resume(p, max(base, 0), called=base == _CALLED)
            ORIGINALS.add(code, self.points.code)
            self._resumes[p, base] = code
        return code

    @property
    def has_graph(self) -> bool:
        """Whether a graph has been compiled for any region, not counting what that leads to."""
        regions = tuple(self.regions.values())
        return any(entry.op_count for region in regions for entry in region.entries)

    def hook(self, points: Sequence[int]) -> None:
        """Stand at these points as well, if the code can be hooked at all."""
        with self._lock:
            new = [h for h in points if self._lacks(h)]
            self.regions.update((h, Region(self, h)) for h in new)
            if new:
                self._emit()

    def continuation(
        self,
        p: int,
        globals_: dict[str, object],
        free: tuple[types.CellType, ...],
        own: tuple[types.CellType, ...],
        state: tuple[Any, ...],
    ) -> FunctionType:
        """The newest version, entered at `p` by a call whose own arguments mean nothing."""
        code = self._resume_code(p, _CALLED)
        cells = (*free, *map(types.CellType, own), types.CellType(state))
        return FunctionType(code, globals_, code.co_name, (None,), cells)

    def traced(self) -> None:
        """Dynamo has traced a version of the code: see `Door`."""

    # A miss

    def followed_at(self, region: Region) -> Followed | None:
        """What this is kept in step with, at the hook that sees whether it is."""
        return self.followed if region.h == self.points.first else None

    def outdated(self, region: Region) -> Result | None:
        """How a call goes on that finds the code changed of what this follows."""
        followed = self.followed_at(region)
        leave = followed.stale(self.points.code) if followed else None
        return None if leave is None else (leaving(region.h), leave, ())

    def miss(self, region: Region, arguments: tuple[object, ...]) -> Result:
        if (outdated := self.outdated(region)) is not None:
            return outdated
        if self.keeps_frame and self.regions.get(region.h) is not region:
            return region.native(arguments)  # a frame that is older than the newest hooks
        options = config.current()
        account = self._account if config.weighs(options) else None
        if options.runs_originals or self._building:
            return region.native(arguments)
        if region.full:
            region.misses += 1
            if account is not None and region.misses >= LOOK_AGAIN and region.is_passed():
                self.give_back(region, _PASSED)
            return region.native(arguments)
        if account is not None and self._is_postponed(region, account):
            return region.native(arguments)  # before all that costs more to ask
        if not forks.may_compile():
            forked()
            return region.native(arguments)
        if self.refused is not None:
            not_whole(self.name, self.refused)
        try:
            obstacle = global_state.obstacle()
        except Missing as missing:
            self._lack(missing, region)
            return region.native(arguments)
        if obstacle is not None:
            return region.native(arguments)
        bits = options.disturbance.postpone
        if bits and region.entries and self._is_forced_to_wait(bits):
            return region.native(arguments)
        if options.stance != "default":
            failures = partial(self._failures, region, arguments)
            if not may_compile(self.name, region, arguments, self.compiler, options, failures):
                return region.native(arguments)
        made = uninterrupted(
            lambda: self._attempt(region, arguments, options, account),
            partial(self._end_of_building, function_modes()),
        )
        if made is None:
            return region.native(arguments)
        entry, changed, looks = made
        if changed and (self.keeps_frame or looks):
            return region.native(arguments)
        if entry.exit is None:
            return region.leave_here(arguments) if changed else region.native(arguments)
        if self.keeps_frame and entry.exit not in (RETURN, *region.exits):
            return region.native(arguments)
        return self._first_run(entry, region, arguments, options)

    def _lack(self, missing: Missing, region: Region) -> None:
        """Without this part of PyTorch there is no entry; the user has been told once."""
        region.full = True
        events.STREAM.emit(events.FellBack(self.name, missing))

    def _attempt(
        self,
        region: Region,
        arguments: tuple[object, ...],
        options: config.Options,
        account: Account | None,
    ) -> tuple[Entry, bool, bool] | None:
        """Build, unless another thread does; None where that fails, too."""
        if not self._lock.acquire(blocking=False):
            return None
        self._building = True
        try:
            return self._build(region, arguments, options, account)
        except (GraphBreak, RecompileLimit, SizeSpecialized):
            raise
        except IncorrectResult:
            self.reset()
            raise
        except Missing as missing:
            self._lack(missing, region)
            return None
        except Exception as error:
            if from_outside(error):
                raise
            if not (isinstance(error, RecursionError) and is_deep()):  # the program will see to it
                region.full = not options.raises  # the warning may be an error
                failed(self.name, error, options)
            return None

    def _end_of_building(self, before: tuple[object, ...]) -> None:
        """An interrupt may have come when the lock had been taken and nothing else done.

        Args:
            before: the torch-function modes that were active.
        """
        leave_modes(before)
        if self._lock.acquire(blocking=False):  # once more, or nobody has it
            self._building = False
            self._lock.release()
        try:  # noqa: SIM105
            self._lock.release()
        except RuntimeError:
            pass  # it is another thread's

    def _first_run(
        self, entry: Entry, region: Region, arguments: tuple[object, ...], options: config.Options
    ) -> Result:
        is_whole = entry.exit == RETURN and region.h == self.points.first
        if options.verify_correctness and is_whole and not self.is_generator:
            try:
                return verified(entry, region.handover, arguments)
            except IncorrectResult:
                self.reset()
                raise
        return entry.run(*arguments)  # type: ignore[no-any-return]

    def _build(
        self,
        region: Region,
        arguments: tuple[object, ...],
        options: config.Options,
        account: Account | None,
    ) -> tuple[Entry, bool, bool] | None:
        """A new entry for these values, whether the code has new hooks, and whether the program
        would notice the frame of a resume function."""
        say_if_untested()
        failures = self._failures(region, arguments)
        counted = sum(not failure.depends_on_closure for failure in failures)
        limit = self.compiler.recompile_limit or options.recompile_limit
        if counted >= limit or len(failures) >= _CLOSURES * limit:
            limit_reached(self.name, limit, failures, self.compiler)
            region.full = True
            return None
        if failures:
            sentences = tuple(failure.sentence for failure in failures)
            events.STREAM.emit(events.Recompiled(self.name, sentences))
        name = f"{self.name}#{self._entries}"
        followed = self.followed_at(region)
        loan = None if account is None else account.loan(first=not region.entries)
        interface = Interface(
            name=self.name,
            parameters=region.handover.parameters(),
            count=self.points.input_count(region.h),
            here=region.h,
            unchanged=region.unchanged,
            leave=region.leave,
            rest=region.rest,
            probe=region.probe,
            missed=region.missed,
            settled=region.settled,
            guards=tuple(followed.guards()) if followed else (),
            loan=loan,
            place=self._place(),
        )
        with nullcontext() if loan is None else loan.taken():
            produced = produce(
                name,
                region.handover,
                arguments,
                interface,
                self.compiler,
                options,
                region.history,
            )
        if produced is None:
            return None
        self._entries += 1
        changed = self._discover(region, produced)
        region = self.regions.get(region.h, region)
        region.add(produced.entry)
        if region.idle:
            self.drop(region)
        return produced.entry, changed, produced.looks_at_frames

    def _place(self) -> str:
        """Where the function stands; nothing for what calls an object, which has another name."""
        code = self.points.code
        return beginning(code) if self.name == code.co_qualname else ""

    def missed(self, region: Region, entry: str, branch: Branch) -> None:
        """Make no guess at a branch any more, and give up the entry that has made it."""
        if self.compiler.fullgraph:
            return  # it would not be whole then
        region.history.missed.add(branch)
        self._remove(region, entry)

    def settled(self, region: Region, entry: str, branch: Branch, way: bool) -> None:
        """Guess the way at a branch, and give up the entry that ends there."""
        region.history.usual[branch] = way
        self._remove(region, entry)

    def _remove(self, region: Region, entry: str) -> None:
        """The next call for which there was this entry finds none, and is traced."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            for each in {region, self.regions.get(region.h, region)}:
                each.remove(entry)
        finally:
            self._lock.release()

    # What does not pay

    def _is_postponed(self, region: Region, account: Account) -> bool:
        """Whether too much is owed to compile now."""
        region.misses += 1
        clock = account.ledger.clock
        if region.until > clock():
            if region.misses >= LOOK:
                region.wait_until(region.until, clock)
            return True
        refused = account.refusal(first=not region.entries, cost=region.cost)
        if refused is None:
            return False
        region.wait_until(refused.until, clock)
        if not account.told:
            account.told = True
            events.STREAM.emit(events.Postponed(self.name, refused.why))
        return True

    def _is_forced_to_wait(self, bits: int) -> bool:
        """Whether a test wants this compilation to be postponed."""
        k = self._asked % 16
        self._asked += 1
        return bool(bits >> k & 1)

    def weigh(self, region: Region) -> None:
        """Take note of what was measured."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            why = region.weighed(self.name)
            if why is not None:
                self.give_back(region, why)
        finally:
            self._lock.release()

    def give_back(self, region: Region, why: str) -> None:
        """Let the original code run from this hook on, for good."""
        is_followed = self.followed_at(region) is not None
        if is_followed or len(self.regions) > 1:
            at, first = region.h, self.points.first
            line = None if at == first else self.points.instructions[at].line
            events.STREAM.emit(events.GivenBack(self.name, why, line))
        self._drops[region.h] = _DROPS
        if is_followed:
            region.close()
        else:
            self.drop(region, why)

    def drop(self, region: Region, why: str = _NO_GRAPH) -> None:
        """Take out a hook that gives nothing; the last one gives the functions their code back.

        Where others stay, it is taken out once it is met again: they often go together.
        """
        if self.followed_at(region):
            return
        try:
            if not self._lock.acquire(blocking=False):
                return
            if self.regions.get(region.h) is not region:
                return
            del self.regions[region.h]
            self._drops[region.h] = self._drops.get(region.h, 0) + 1
            if self.regions:
                region.run = region.gone
                self._dropped.append(region)
            else:
                self.uninstall()
                events.STREAM.emit(events.GivenBack(self.name, why))
        finally:
            try:  # noqa: SIM105
                self._lock.release()
            except RuntimeError:
                pass  # it is another thread's

    def refresh(self) -> None:
        """Emit the version without the hooks that were dropped and with the exits that were found,
        if that is not done yet."""
        try:
            if not self._lock.acquire(blocking=False):
                return
            dropped, self._dropped = self._dropped, []  # the emitter may run this very code
            if (dropped or self._is_old) and self.regions:
                last = {} if dropped else dict(self._resumes)
                self._emit()
                self._resumes.update(last)  # it has all that is known
        except Unverified as error:
            self._is_old = False  # once is enough
            failed(self.name, error, config.current())
        finally:
            try:  # noqa: SIM105
                self._lock.release()
            except RuntimeError:
                pass  # it is another thread's

    def _discover(self, region: Region, produced: Produced) -> bool:
        """Give the code the hooks and exits that a new entry needs; whether anything changed.

        A call that finds a new exit goes on in a resume function. The functions get their code when
        a frame has to be left once more: a call that finds many would make one for each. But where
        the program would notice such a frame, the next call is to have none.
        """
        p = produced.entry.exit
        exit_ = None if p is None or p < 0 else p
        newest = self.regions.get(region.h, region)
        is_new = exit_ not in (None, *newest.exits)
        if exit_ is not None and is_new:
            self.regions[region.h] = self._with_exit(newest, exit_)
        hooks = [h for h in produced.hooks if self._lacks(h)]
        self.regions.update((h, Region(self, h)) for h in hooks)
        if not is_new and not hooks:
            return False
        stays = self.keeps_frame or produced.looks_at_frames
        if not is_new or stays:
            self._emit()
        if exit_ is not None and not stays:
            base = region.handover.base
            self._resumes.clear()
            self._resume_code(exit_, base)  # this call needs it
            self._is_old, self._leaves = is_new, (exit_, base)
        return True

    def _lacks(self, h: int) -> bool:
        """Whether a hook at this point is missing, and might give something."""
        return h not in self.regions and self._drops.get(h, 0) < _DROPS

    def _failures(self, region: Region, arguments: tuple[object, ...]) -> tuple[FirstFailure, ...]:
        """Why each entry did not fit a call."""
        sources = region.handover.sources()
        return tuple(first_failure(entry.guards, sources, arguments) for entry in region.entries)


def dispatcher_for(code: CodeType, compiler: Compiler, name: str) -> Dispatcher | None:
    """A dispatcher; None for code that is no function's or that is not understood."""
    if not is_function(code):
        return None
    try:
        return Dispatcher(code, compiler, name)
    except Inconsistent as error:
        events.STREAM.emit(events.FellBack(name, error))
        return None
