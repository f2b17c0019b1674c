"""Finds the programs, and runs one: from the same initial state each time."""

from __future__ import annotations

import contextlib
import marshal
import random
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils.hooks import RemovableHandle

import jitpkg
from jitpkg.comparison.differences import differences
from jitpkg.comparison.facts import Fact, State
from jitpkg.comparison.running import observe
from jitpkg.comparison.surroundings import same_process
from tests.programs.program import Program, Programs

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


def run(program: str, compiled: Compile, heard: Heard | None = None) -> list[list[Fact]]:
    """Make all calls of a program; everything that can be seen after each."""
    heard = heard or Heard()
    file, _, name = program.partition(":")
    with _clean_state(), jitpkg.events.STREAM.listening(heard.events.append):
        fresh_program, namespace = fresh(file, name)

        def describe(state: State) -> None:
            for watched in fresh_program.watch:
                state.add(f"global {watched}", namespace.get(watched, "<none>"))

        def after_call(k: int) -> None:
            if k == 0:
                heard.first_call = len(heard.events)

        target = compiled(fresh_program.target)
        return observe(target, fresh_program.calls, describe, after_call=after_call)


@contextlib.contextmanager
def _clean_state() -> Iterator[None]:
    """Seeds, and what a program may leave behind when it fails."""
    RemovableHandle.next_id = 0  # it is a key of a module's hooks
    with same_process(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        yield


def difference(
    eager: Sequence[Sequence[Fact]],
    compiled: Sequence[Sequence[Fact]],
    ignore: Collection[str] = (),
) -> str:
    """The first facts that differ, or nothing."""
    for k, (a, b) in enumerate(zip(eager, compiled, strict=True), 1):
        if found := differences(a, b, ignore=ignore):
            return "\n".join(f"call {k}: {one}" for one in found[:6])
    return ""
