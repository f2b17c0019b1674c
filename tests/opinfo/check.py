"""One task: its samples in groups, by eager code twice and by the backend twice, compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from typing import Any

import torch

import jitpkg
from jitpkg import events
from tests.opinfo.allowed import allowed
from tests.opinfo.changes import Versions
from tests.opinfo.compare import Outcome, difference
from tests.opinfo.contexts import CONTEXTS, around, made
from tests.opinfo.reproduce import script
from tests.opinfo.samples import (
    Call,
    Task,
    backward,
    kind,
    samples,
    seed,
    tensors,
    traceable,
    wider,
)

GROUP = 32
"""Samples that are one program: most of what a compilation costs is paid once for them all."""

RAISING = 4
"""Samples of an op that eager code refuses, of which as many are tried, each alone; unless they are
what the context is about."""

Function = Callable[..., Any]


@dataclass
class Checked:
    """What became of a task."""

    compared: int = 0
    unstable: int = 0
    """Samples for which eager code itself comes to something else the second time."""
    kernels: int = 0
    calls: set[str] = field(default_factory=set)
    """ATen ops that were called as they are."""
    declined: set[str] = field(default_factory=set)
    """Why graphs were left as they are."""
    breaks: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)
    """A script for each that is wrong."""

    def plain(self) -> dict[str, Any]:
        return {
            name: sorted(value) if isinstance(value, set) else value
            for name, value in vars(self).items()
        }


def is_view(name: str) -> bool:
    """Whether an op of ATen makes views: nothing to compute."""
    packet = getattr(torch.ops.aten, name, None)
    if not packet:
        return False
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    return any(result.alias_info is not None for result in schemas[0].returns)


def spoil(outcome: Outcome) -> None:
    """Overwrite what a call has returned, as its caller may: the next call must not notice."""
    shared = {x.untyped_storage()._cdata for x in tensors(outcome.given) if is_plain(x)}
    for x in tensors((outcome.results, outcome.gradients)):
        if is_plain(x) and x.untyped_storage()._cdata not in shared:
            with suppress(RuntimeError), torch.no_grad():  # what is expanded cannot be written to
                x.detach().fill_(1)


def is_plain(x: torch.Tensor) -> bool:
    return x.layout is torch.strided and not x.is_nested


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Check:
    """
    Args:
        most: how many samples at most, of different kinds; None for all of them.
    """

    def __init__(
        self,
        op: Any,
        task: Task,
        backend: str | Function | None = None,
        most: int | None = None,
    ) -> None:
        self.done = Checked()
        self._op = op
        self._context = CONTEXTS[task.context].on(task.device)
        function = self._context.function(op)
        self._function = function and traceable(function)
        self._task = task
        self._allowed = replace(allowed(task), rounds_alike=self._context.rounds_alike)
        self._backend = backend or task.backend
        self._most = most
        self._dtype = getattr(torch, task.dtype)
        self._places: list[tuple[int, int]] = []

    def all(self) -> Checked:
        """Check all samples."""
        if self._function is None:
            return self.done
        good, raising = self._chosen()
        made = self._four([*good, *raising])
        for k in raising:
            self._group([k], *made)
        together = 1 if self._context.alone else GROUP
        for start in range(0, len(good), together):
            self._group(good[start : start + together], *made)
        return self.done

    def eagerly(self) -> Checked:
        """Let eager code alone run them."""
        if self._function is not None:
            self._chosen()
        return self.done

    def _changed(self, call: Call) -> list[Versions]:
        """What the context makes of a sample of the database."""
        with torch.random.fork_rng(devices=[]):  # the next sample is the same, whatever is done
            return list(self._context.change(self._op, call))

    def _every(self) -> list[Versions]:
        """All samples; `self._places` says of which sample of the database each was made."""
        every: list[Versions] = []
        self._places = []
        with quiet():
            for place, call in enumerate(self._calls()):
                made = self._changed(call)
                self._places += [(place, k) for k in range(len(made))]
                every += made
        return every

    def _samples(self, chosen: Sequence[int]) -> dict[int, Versions]:
        """Some samples, by number; the others are not made."""
        wanted = {self._places[k]: k for k in chosen}
        places = {place for place, _ in wanted}
        with quiet():
            return {
                wanted[place, k]: versions
                for place, call in enumerate(islice(self._calls(), max(places, default=-1) + 1))
                if place in places
                for k, versions in enumerate(self._changed(call))
                if (place, k) in wanted
            }

    def _calls(self) -> Iterator[Call]:
        grad = bool(self._context.grad)
        return samples(self._op, self._dtype, grad=grad, device=self._task.device)

    def _chosen(self) -> tuple[list[int], list[int]]:
        """Samples that eager code takes, and some that it refuses."""
        good: list[int] = []
        raising: list[int] = []
        every = self._every()
        most = len(every) if self._most is None else self._most
        order = f"{self._task.op} {self._task.context}"
        for k in range(len(every)) if self._most is None else mixed(every, order):
            works = all(self._run([version]).error is None for version in every[k])
            (good if works else raising).append(k)
            if len(good) >= most:
                break
        refused = most if self._context.refused else min(RAISING, most)
        return sorted(good), sorted(raising[:refused])

    def _four(self, chosen: Sequence[int]) -> list[dict[int, Versions]]:
        """Samples for four runs."""
        return [self._samples(chosen) for _ in range(4)]

    def _run(self, calls: Sequence[Call], compiled: Function | None = None) -> Outcome:
        """Run a program from a known random state."""
        function = compiled or made(len(calls), self._context)
        seed(self._task.device)
        leaf = torch.ones(2, requires_grad=True, device=self._task.device)
        is_differentiated = self._context.grad or self._context.before
        gradients = None
        try:
            with around(self._context):
                results = function(self._function, calls, leaf)
            if is_differentiated:
                gradients = backward(results, (calls, leaf), again=self._context.again)
        except Exception as error:
            return Outcome(given=calls, error=error)
        return Outcome(results, gradients, calls)

    def _group(self, chosen: Sequence[int], *made_: dict[int, Versions]) -> None:
        versions = [
            [[calls[k][v] for k in chosen] for calls in made_]
            for v in range(len(made_[0][chosen[0]]))
        ]
        expected = [self._run(kinds[0]) for kinds in versions]
        again = [self._run(kinds[1]) for kinds in versions]
        if any(self._differ(*pair) is not None for pair in zip(again, expected, strict=True)):
            self._split(chosen, unstable=1)
            return
        compiled = jitpkg.compile(
            made(len(chosen), self._context), backend=self._backend, dynamic=self._context.dynamic
        )
        found, seen = self._heard(versions[0][2], compiled)
        if (seen.declined or seen.breaks) and len(chosen) > 1:
            # nothing of its graph was compiled, or the others are in other graphs
            self._split(chosen)
            return
        if self._context.again and "no second derivative" in str(found.error):
            if len(chosen) > 1:  # samples may write to what others read
                self._split(chosen)
                return
            self.done.declined.add(str(found.error)[:200])
            return
        why = self._difference(found, expected[0], chosen, 0)
        if why is None:
            spoil(found)
            why = self._later(compiled, versions, expected, chosen)
        if why is not None and len(chosen) > 1:
            before = len(self.done.wrong)
            self._split(chosen)
            if len(self.done.wrong) > before:
                return
        self._note(seen, len(chosen))
        if why is not None:
            self._wrong(why, chosen)

    def _later(
        self,
        compiled: Function,
        versions: list[list[list[Call]]],
        expected: list[Outcome],
        chosen: Sequence[int],
    ) -> str | None:
        """What differs in calls after the first: of other versions, and of the first one again."""
        for v in (*range(1, len(versions)), 0):
            why = self._difference(
                self._run(versions[v][2 if v else 3], compiled), expected[v], chosen, v
            )
            if why is not None:
                return f"call {v + 1}: {why}" if v else f"second call: {why}"
        return None

    def _differ(
        self, found: Outcome, expected: Outcome, exact: Outcome | None = None
    ) -> str | None:
        return difference(found, expected, exact, self._allowed)

    def _difference(
        self, found: Outcome, expected: Outcome, chosen: Sequence[int], version: int
    ) -> str | None:
        why = self._differ(found, expected)
        if why is None or self._allowed.exact or expected.error is not None:
            return why
        made_ = self._samples(chosen)
        exact = self._run(wider([made_[k][version] for k in chosen]))
        return self._differ(found, expected, exact)

    def _split(self, chosen: Sequence[int], *, unstable: int = 0) -> None:
        if len(chosen) == 1:
            self.done.unstable += unstable
            return
        made_ = self._four(chosen)
        for k in chosen:
            self._group([k], *made_)

    def _wrong(self, why: str, chosen: Sequence[int]) -> None:
        made_ = self._samples(chosen)
        self.done.wrong.append(f"sample {', '.join(map(str, chosen))}: {why}")
        alone = len(chosen) == 1
        self.done.programs.append(
            script(self._op, self._task, made_[chosen[0]]) if alone else "only together"
        )

    def _heard(self, calls: Sequence[Call], compiled: Function) -> tuple[Outcome, Checked]:
        """Run what is compiled for the first time, and listen."""
        seen = Checked()

        def listen(event: events.Event) -> None:
            match event:
                case events.Fused(kernels=kernels, calls=called):
                    seen.kernels += len(kernels)
                    seen.calls.update(name for name in called if not is_view(name))
                case events.Declined(why=why):
                    seen.declined.add(why[:200])
                case events.Broke(graph_break=graph_break):
                    seen.breaks.add(graph_break.title()[:200])

        with events.STREAM.listening(listen):
            found = self._run(calls, compiled)
        return found, seen

    def _note(self, seen: Checked, compared: int) -> None:
        self.done.compared += compared
        self.done.kernels += seen.kernels
        self.done.calls |= seen.calls
        self.done.declined |= seen.declined
        self.done.breaks |= seen.breaks


def mixed(every: Sequence[Versions], seed: str) -> list[int]:
    """The samples' places: first one of each kind, in random order; then all others."""
    first: dict[object, int] = {}
    for k, versions in enumerate(every):
        first.setdefault(kind(versions[0]), k)
    kinds = list(first.values())
    Random(seed).shuffle(kinds)
    return list(dict.fromkeys((*kinds, *range(len(every)))))
