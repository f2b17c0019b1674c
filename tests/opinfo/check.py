"""One task: its samples in groups, by eager code twice and by the backend twice, compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch

import jitpkg
from jitpkg import events
from tests.opinfo.compare import Allowed, Outcome, difference
from tests.opinfo.samples import SEED, Call, Task, backward, samples, tensors, traceable, wider

GROUP = 32
"""Samples that are one program: most of what a compilation costs is paid once for them all."""
ALLOWED: Mapping[str, Allowed] = MappingProxyType(
    {
        **dict.fromkeys(
            "empty empty_like empty_permuted empty_strided new_empty new_empty_strided".split(),
            Allowed(values=True),
        ),
        "native_layer_norm": Allowed(atol=1e-4),  # of one element: 0 against a difference of sums
    }
)
"""What may differ, by op."""

RAISING = 4
"""Samples of an op that eager code refuses, of which as many are tried, each alone."""

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

    def plain(self) -> dict[str, Any]:
        return {
            name: sorted(value) if isinstance(value, set) else value
            for name, value in vars(self).items()
        }


def program(length: int) -> Function:
    """A function that makes so many calls. It has no loop: behind a graph break, whose iterator
    would exist already, it could not be traced."""
    lines = [f"    r{k} = function(*calls[{k}][0], **calls[{k}][1])" for k in range(length)]
    returned = "".join(f"r{k}, " for k in range(length))
    source = "\n".join(["def program(function, calls):", *lines, f"    return ({returned})"])
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<{length} samples>", "exec"), namespace)
    return namespace["program"]


def run(compiled: Function, function: Function, calls: Sequence[Call], *, grad: bool) -> Outcome:
    """Run a program from a known random state."""
    torch.default_generator.manual_seed(SEED)
    try:
        results = compiled(function, calls)
        gradients = backward(results, calls) if grad else None
    except Exception as error:
        return Outcome(error=error)
    return Outcome(results, gradients, calls)


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
        most: how many samples at most, evenly chosen; None for all of them.
    """

    def __init__(
        self,
        op: Any,
        task: Task,
        backend: str | Function = "jitpkg",
        most: int | None = None,
    ) -> None:
        self.done = Checked()
        self._op = op
        self._function = traceable(op.op)
        self._task = task
        self._allowed = ALLOWED.get(task.op, Allowed())
        self._backend = backend
        self._most = most
        self._dtype = getattr(torch, task.dtype)

    def all(self) -> Checked:
        """Check all samples."""
        works = [self._alone(call).error is None for call in self._samples()]
        made = self._four()
        for raising in [k for k, good in enumerate(works) if not good][:RAISING]:
            self._group([raising], *made)
        good = [k for k, good in enumerate(works) if good]
        for start in range(0, len(good), GROUP):
            self._group(good[start : start + GROUP], *made)
        return self.done

    def eagerly(self) -> Checked:
        """Let eager code alone run them."""
        for call in self._samples():
            self._alone(call)
        return self.done

    def _samples(self) -> list[Call]:
        made = list(samples(self._op, self._dtype, grad=self._task.backward))
        return made if self._most is None else made[:: -(-len(made) // self._most) or 1]

    def _four(self) -> list[list[Call]]:
        """Samples for four runs."""
        return [self._samples() for _ in range(4)]

    def _alone(self, call: Call) -> Outcome:
        return self._run([call])

    def _run(self, calls: Sequence[Call], compiled: Function | None = None) -> Outcome:
        function = compiled or program(len(calls))
        return run(function, self._function, calls, grad=self._task.backward)

    def _group(self, chosen: Sequence[int], *made: list[Call]) -> None:
        kinds = [[calls[k] for k in chosen] for calls in made]
        expected, again = self._run(kinds[0]), self._run(kinds[1])
        if difference(again, expected, allowed=self._allowed) is not None:
            self._split(chosen, unstable=1)
            return
        compiled = jitpkg.compile(program(len(chosen)), backend=self._backend, dynamic=False)
        found, seen = self._heard(kinds[2], compiled)
        if seen.declined and len(chosen) > 1:  # nothing of its graph was compiled
            self._split(chosen)
            return
        why = self._difference(found, expected, chosen)
        if why is None:
            spoil(found)
            why = self._difference(self._run(kinds[3], compiled), expected, chosen)
            why = why and f"second call: {why}"
        if why is not None and len(chosen) > 1:
            before = len(self.done.wrong)
            self._split(chosen)
            if len(self.done.wrong) > before:
                return
        self._note(seen, len(chosen))
        if why is not None:
            self.done.wrong.append(f"sample {', '.join(map(str, chosen))}: {why}")

    def _difference(self, found: Outcome, expected: Outcome, chosen: Sequence[int]) -> str | None:
        why = difference(found, expected, allowed=self._allowed)
        if why is None:
            return None
        made = self._samples()
        exact = self._run(wider([made[k] for k in chosen]))
        return difference(found, expected, exact, self._allowed)

    def _split(self, chosen: Sequence[int], *, unstable: int = 0) -> None:
        if len(chosen) == 1:
            self.done.unstable += unstable
            return
        made = self._four()
        for k in chosen:
            self._group([k], *made)

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
