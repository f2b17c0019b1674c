"""The pytest plugin: tests of compiled code, and tests of how it is compiled.

    pytest --jitpkg        compiles the modules that tests import

pytest loads this wherever jitpkg is installed: by itself it imports neither torch nor the compiler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import field
from typing import Any

import pytest

from jitpkg import auto, config, events
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break
from jitpkg.messages import counted
from jitpkg.tracer.reasons import NO_BREAKS

TESTS = ("conftest", "*.conftest", "test_*", "*.test_*", "*_test", "*.*_test")
"""Names of modules that are tests themselves; `--jitpkg` leaves them alone."""

_SHOWN = 10
"""So many places of breaks are shown at the end."""


@dataclass(eq=False)
class Seen:
    """What was compiled while this listened."""

    graphs: int = 0
    breaks: list[Break] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)
    """Why functions were compiled once more, in sentences."""

    def note(self, event: events.Event) -> None:
        match event:
            case events.GraphCompiled():
                self.graphs += 1
            case events.Broke(graph_break=found) if found.reason not in NO_BREAKS:
                self.breaks.append(found)
            case events.Recompiled(function=function, reasons=reasons):
                self.recompiles.append(f"{function}: {'; '.join(reasons)}")

    def excess(self, limits: Mapping[str, int]) -> Iterator[str]:
        """What there is more of than there may be."""
        lists = {
            "breaks": ("graph break", [_placed(each) for each in self.breaks]),
            "recompiles": ("recompilation", self.recompiles),
        }
        for name, most in limits.items():
            title, found = lists[name]
            if len(found) > most:
                yield "\n  ".join(
                    [f"{counted(len(found), title)}, and at most {most} allowed:", *found]
                )


_LIMITS = ("breaks", "recompiles")


def _placed(found: Break) -> str:
    where = found.where
    return found.title() if where is None else f"{found.title()} ({where.file}:{where.line})"


@pytest.fixture
def jitpkg_seen() -> Iterator[Seen]:
    """What is compiled from here to the end of the test: `graphs`, `breaks` and `recompiles`."""
    seen = Seen()
    with events.STREAM.listening(seen.note):
        yield seen


# The command line


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("jitpkg", "code that jitpkg compiles")
    group.addoption(
        "--jitpkg", action="store_true", help="compile the functions of modules that tests import"
    )
    for name, of in ("include", "of modules to compile"), ("exclude", "of modules to leave alone"):
        group.addoption(
            f"--jitpkg-{name}", metavar="PATTERNS", default="", help=f"{of}, between commas"
        )
    group.addoption("--jitpkg-backend", metavar="NAME", help="what compiles graphs")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any module of the program is imported, by a conftest.py, too."""
    given = early_config.known_args_namespace
    if not given.jitpkg:
        return
    config.set(never_worse=False)  # a test calls what it tests too seldom to gain anything
    auto.install(
        include=_patterns(given.jitpkg_include) or None,
        exclude=(*_patterns(given.jitpkg_exclude), *TESTS),
        backend=given.jitpkg_backend,
        at_once=True,
    )


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(pattern.strip() for pattern in text.split(",") if pattern.strip())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "jitpkg(breaks=None, recompiles=None, **settings): fail a test in which there are more"
        " graph breaks or recompilations; the settings of jitpkg.config hold in it",
    )
    if config.getoption("jitpkg"):
        totals = config.stash[_TOTALS] = _Totals()
        events.STREAM.add(totals.note)


def pytest_unconfigure(config: pytest.Config) -> None:
    totals = config.stash.get(_TOTALS, None)
    if totals is not None:
        events.STREAM.remove(totals.note)


# One test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    settings: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("jitpkg"))):  # the closest one last
        settings.update(mark.kwargs)
    if not settings:
        return (yield)
    limits = {name: settings.pop(name) for name in _LIMITS if name in settings}
    seen = Seen()
    with ExitStack() as stack:
        stack.enter_context(config.patch(**settings))
        stack.enter_context(events.STREAM.listening(seen.note))
        result = yield
    problems = [*seen.excess({name: most for name, most in limits.items() if most is not None})]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
    return result


# The whole session


@dataclass(eq=False)
class _Totals:
    """What `--jitpkg` tells at the end; with pytest-xdist, of all workers together."""

    counts: Counter[str] = field(default_factory=Counter)
    functions: set[str] = field(default_factory=set)
    places: Counter[str] = field(default_factory=Counter)

    def note(self, event: events.Event) -> None:
        match event:
            case events.GraphCompiled(function=function):
                self.functions.add(function)
                self.counts["graph"] += 1
            case events.Broke(graph_break=found) if found.reason not in NO_BREAKS:
                self.places[_placed(found)] += 1
            case events.Recompiled():
                self.counts["recompilation"] += 1

    def told(self) -> dict[str, Any]:
        """As a worker sends it."""
        return {
            "counts": dict(self.counts),
            "functions": sorted(self.functions),
            "places": dict(self.places),
        }

    def add(self, told: Mapping[str, Any]) -> None:
        self.counts.update(told["counts"])
        self.functions.update(told["functions"])
        self.places.update(told["places"])

    def lines(self) -> Iterator[str]:
        breaks = sum(self.places.values())
        yield (
            f"{counted(len(self.functions), 'function')} compiled,"
            f" {counted(self.counts['graph'], 'graph')},"
            f" {counted(breaks, 'graph break')},"
            f" {counted(self.counts['recompilation'], 'recompilation')}"
        )
        for place, count in self.places.most_common(_SHOWN):
            yield f"{count:5}  {place}"
        if len(self.places) > _SHOWN:
            yield f"       and at {counted(len(self.places) - _SHOWN, 'other place')}"


_TOTALS = pytest.StashKey[_Totals]()
_KEY = "jitpkg"


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)  # of a worker of pytest-xdist
    totals = session.config.stash.get(_TOTALS, None)
    if output is not None and totals is not None:
        output[_KEY] = totals.told()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A hook of pytest-xdist's."""
    told = getattr(node, "workeroutput", {}).get(_KEY)
    if told is not None:
        node.config.stash[_TOTALS].add(told)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    totals = config.stash.get(_TOTALS, None)
    if totals is not None:
        terminalreporter.section("jitpkg")
        for line in totals.lines():
            terminalreporter.write_line(line)
