"""Finds the programs, and runs one: from the same initial state each time."""

from __future__ import annotations

import contextlib
import io
import marshal
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

import jitpkg
from tests.programs.program import Call, Program, Programs
from tests.programs.state import State, random_states

FILES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]_*.py")))

Compile = Callable[[Any], Any]


@cache
def _marshalled(file: str) -> bytes:
    path = Path(__file__).with_name(f"{file}.py")
    source = path.read_text(encoding="utf-8")
    return marshal.dumps(compile(source, str(path), "exec", dont_inherit=True))


def fresh(file: str, name: str) -> tuple[Program, dict[str, Any]]:
    """A program and its globals as they are when its file has just been executed.

    So two runs share nothing: no class, no cache, no argument, no code object.
    """
    namespace: dict[str, Any] = {"__name__": f"tests.programs.{file}"}
    exec(marshal.loads(_marshalled(file)), namespace)
    programs: Programs = namespace["program"]
    return programs[name], namespace


def all_programs() -> dict[str, Program]:
    """Each program, by "file:name"."""
    found: dict[str, Program] = {}
    for file in FILES:
        module = import_module(f"tests.programs.{file}")
        found.update((f"{file}:{program.name}", program) for program in module.program)
    return found


@dataclass
class Heard:
    """What jitpkg said while a program ran."""

    events: list[jitpkg.events.Event] = field(default_factory=list)
    first_call: int = 0
    """How many of the events came during the first call."""

    @property
    def graphs(self) -> int:
        """Graphs that the first call compiled."""
        first = self.events[: self.first_call]
        return sum(isinstance(event, jitpkg.events.GraphCompiled) for event in first)

    def breaks(self) -> list[str]:
        """The breaks that the first call met; raising, yielding and forced ones do not count."""
        return list(
            dict.fromkeys(
                f"{event.graph_break.title()} at {event.graph_break.where}"
                for event in self.events[: self.first_call]
                if isinstance(event, jitpkg.events.Broke)
                and event.graph_break.reason.code not in ("B102", "B112", "B114")
            )
        )

    @property
    def forced(self) -> int:
        """Breaks that a setting asked for."""
        return sum(
            isinstance(event, jitpkg.events.Broke) and event.graph_break.reason.code == "B102"
            for event in self.events
        )


def run(program: str, compiled: Compile, heard: Heard | None = None) -> list[str]:
    """Make all calls of a program; every fact about what they did, as lines."""
    heard = heard or Heard()
    file, _, name = program.partition(":")
    with _clean_state(), jitpkg.events.STREAM.listening(heard.events.append):
        fresh_program, namespace = fresh(file, name)
        target = compiled(fresh_program.target)
        lines: list[str] = []
        results: list[object] = []
        for k, call in enumerate(fresh_program.calls):
            results.append(_called(target, call, lines))
            if k == 0:
                heard.first_call = len(heard.events)
            lines.append(f"random streams: {random_states()}")
            watched = {name: namespace.get(name, "<none>") for name in fresh_program.watch}
            lines.extend(_described(results, fresh_program.calls[: k + 1], watched))
    return lines


def _called(target: Callable[..., Any], call: Call, lines: list[str]) -> object:
    """The result or the exception; the output becomes lines."""
    output = io.StringIO()
    result: object
    try:
        with contextlib.redirect_stdout(output):
            result = target(*call.args, **call.kwargs)
    except jitpkg.errors.JitpkgError:
        raise
    except Exception as error:
        result = _Raised(error)
    lines.extend(f"printed: {line}" for line in output.getvalue().splitlines())
    _backward(result, lines)
    return result


@dataclass
class _Raised:
    error: Exception


def _backward(result: object, lines: list[str]) -> None:
    """Compute gradients of all results that have some."""
    sums = [t.sum() for t in _tensors(result) if t.is_floating_point() and t.grad_fn is not None]
    if not sums:
        return
    try:
        torch.autograd.backward(sums)
    except RuntimeError as error:
        lines.append(f"backward raises: {error}")


def _tensors(result: object) -> Iterator[torch.Tensor]:
    match result:
        case torch.Tensor():
            yield result
        case list() | tuple():
            for item in result:
                yield from _tensors(item)
        case dict():
            for item in result.values():
                yield from _tensors(item)


def _described(results: list[object], calls: tuple[Call, ...], watched: object) -> list[str]:
    state = State()
    for k, call in enumerate(calls):
        for j, argument in enumerate(call.args):
            state.add(f"call {k} argument {j}", argument)
        for name, argument in call.kwargs.items():
            state.add(f"call {k} argument {name}", argument)
    for k, result in enumerate(results):
        state.add(f"call {k} result", result)
    state.add("globals", watched)
    return state.lines


@contextlib.contextmanager
def _clean_state() -> Iterator[None]:
    """Seeds, and what a program may leave behind when it fails."""
    dtype = torch.get_default_dtype()
    RemovableHandle.next_id = 0  # it is a key of a module's hooks
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(True)


def difference(eager: list[str], compiled: list[str]) -> str:
    """The first lines that differ, or nothing."""
    pairs = list(zip(eager, compiled, strict=False))
    wrong = [f"eager    {a}\ncompiled {b}" for a, b in pairs if a != b]
    if len(eager) != len(compiled):
        longer = max(eager, compiled, key=len)
        wrong.append(f"{len(eager)} lines eagerly, {len(compiled)} compiled: {longer[len(pairs)]}")
    return "\n".join(wrong[:6])
