"""The pytest plugin: tests of compiled code, and tests of how it is compiled.

    pytest -p jitpkg.pytest_plugin --jitpkg        compiles the modules that tests import

It is no entry point: pytest rewrites all modules of a package that has one, also where nobody asks
for it. Until it is asked for something it imports nothing: a conftest.py may still set variables of
the environment that jitpkg reads.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

TESTS = ("conftest", "*.conftest", "test_*", "*.test_*", "*_test", "*.*_test")
"""Names of modules that are tests themselves; `--jitpkg` leaves them alone."""

_LIMITS = ("breaks", "recompiles")
_TOTALS = pytest.StashKey[Any]()
_KEY = "jitpkg"


@pytest.fixture
def jitpkg_seen() -> Iterator[Any]:
    """What is compiled from here to the end of the test: `graphs`, `breaks` and `recompiles`."""
    from jitpkg.pytest_plugin.seen import Seen

    seen = Seen()
    with seen.listening():
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
    from jitpkg import auto, config

    config.set(never_worse=False)  # a test calls what it tests too seldom to gain anything
    auto.install(
        include=given.jitpkg_include or None,
        exclude=(*given.jitpkg_exclude.split(","), *TESTS),
        backend=given.jitpkg_backend,
        at_once=True,
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "jitpkg(breaks=None, recompiles=None, **settings): fail a test in which there are more"
        " graph breaks or recompilations; the settings of jitpkg.config hold in it",
    )
    if config.getoption("jitpkg"):
        from jitpkg.pytest_plugin.seen import Totals

        config.stash[_TOTALS] = Totals()
        config.stash[_TOTALS].start()


def pytest_unconfigure(config: pytest.Config) -> None:
    totals = config.stash.get(_TOTALS, None)
    if totals is not None:
        totals.stop()


# One test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    settings: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("jitpkg"))):  # the closest one last
        settings.update(mark.kwargs)
    if not settings:
        return (yield)
    from jitpkg import config
    from jitpkg.pytest_plugin.seen import Seen

    limits = {name: settings.pop(name) for name in _LIMITS if name in settings}
    seen = Seen()
    with ExitStack() as stack:
        stack.enter_context(config.patch(**settings))
        stack.enter_context(seen.listening())
        result = yield
    problems = [*seen.excess({name: most for name, most in limits.items() if most is not None})]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
    return result


# The whole session


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
