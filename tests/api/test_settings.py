"""Settings: patched, refused, read from the environment."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import config, errors, events
from tests.api.support import Counts, Net, X, affine, broken, fresh, sine

# Settings


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError, match="Settings are frozen"):
        config.recompile_limit = 3


def test_settings_are_patched_and_put_back() -> None:
    before = config.current()
    with config.patch(recompile_limit=3) as options:
        assert (options.recompile_limit, config.recompile_limit) == (3, 3)
        with config.patch(recompile_limit=4, disturb="break:2"):
            assert (config.recompile_limit, config.disturb) == (4, "break:2")
        assert (config.recompile_limit, config.disturb) == (3, before.disturb)
        with pytest.raises(KeyError), config.patch(recompile_limit=5):
            raise KeyError
        assert config.recompile_limit == 3
    assert config.current() == before


@config.patch(recompile_limit=7)
def patched_limit() -> int:
    return jitpkg.config.recompile_limit


def test_settings_patched_by_a_decorator() -> None:
    before = config.recompile_limit
    assert patched_limit() == 7
    assert patched_limit() == 7
    assert config.recompile_limit == before


DISTURBANCES = "break, break:K, postpone:BITS and guess:BITS"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nothing": 1}, "No setting 'nothing'. The settings are: backend, disable, stance, "),
        ({"recompile_limit": "8"}, "The setting 'recompile_limit' takes int, not '8' (str)."),
        ({"recompile_limit": True}, "The setting 'recompile_limit' takes int, not True (bool)."),
        ({"disable": 1}, "The setting 'disable' takes bool, not 1 (int)."),
        ({"disturb": 3}, "The setting 'disturb' takes str, not 3 (int)."),
        *(
            (
                {"disturb": text},
                f"The setting 'disturb' takes {DISTURBANCES}, not {part!r}.",
            )
            for text, part in (
                ("brake", "brake"),
                ("break:-1", "break:-1"),
                ("break, postpone", "postpone"),
            )
        ),
    ],
)
def test_unknown_settings_and_values_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.InvalidArgument) as caught, config.patch(**changes):
        pass
    assert str(caught.value).startswith(text)


def test_disabled_by_a_setting(C: Any, backend: Counts) -> None:
    f = C(fresh(sine), backend=backend)
    with config.patch(disable=True):
        assert torch.equal(f(X), sine(X))
        assert C(fresh(affine), backend=backend)(X).shape == (2,)
    assert not backend.graphs
    f(X)
    assert len(backend.graphs) == 1


class Runs:
    """A backend that counts how often its graphs run."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        def run(*args: Any) -> Any:
            self.count += 1
            return gm.forward(*args)

        return run


def test_what_is_compiled_already_rests_while_it_is_disabled(C: Any) -> None:
    runs = Runs()
    f, net = C(fresh(broken), backend=runs), C(Net(), backend=runs)
    f(X), net(X)
    assert runs.count == 3
    with config.patch(disable=True):
        assert torch.equal(f(X), sine(X))
        assert torch.equal(net(X), net.forward(X))
        with config.patch(disable=False):
            f(X)
        assert runs.count == 5
        f(X)
    assert runs.count == 5
    f(X), net(X)
    assert runs.count == 8


def test_new_code_is_noticed_while_it_is_disabled() -> None:
    f, runs = fresh(sine), Runs()
    g = jitpkg.compile(f, backend=runs)
    g(X)
    with config.patch(disable=True):
        f.__code__ = (lambda x: x * 100).__code__
        assert torch.equal(g(X), X * 100)
    assert runs.count == 1
    assert torch.equal(g(X), X * 100)
    assert runs.count == 2


# The environment


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, config.Options()),
        ({"JITPKG_DISABLE": "1"}, config.Options(disable=True)),
        ({"JITPKG_DISABLE": "off", "JITPKG_STRICT": "Yes"}, config.Options(strict=True)),
        ({"JITPKG_RECOMPILE_LIMIT": "3"}, config.Options(recompile_limit=3)),
        ({"JITPKG_DISTURB": "break:5"}, config.Options(disturb="break:5")),
        ({"JITPKG_DISTURB": ""}, config.Options()),
        ({"JITPKG_LOGS": "graphs,breaks"}, config.Options(logs="graphs,breaks")),
        ({"JITPKG_SOMETHING_ELSE": "1", "DISABLE": "1"}, config.Options()),
    ],
)
def test_settings_from_the_environment(
    environment: dict[str, str], expected: config.Options
) -> None:
    assert config.from_environment(environment) == expected


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"JITPKG_DISABLE": "maybe"}, "JITPKG_DISABLE='maybe' is not a switch; give 1 or 0."),
        (
            {"JITPKG_DISTURB": "x"},
            "The setting 'disturb' takes break, break:K, postpone:BITS and guess:BITS, not 'x'.",
        ),
        ({"JITPKG_RECOMPILE_LIMIT": "8x"}, "JITPKG_RECOMPILE_LIMIT='8x' is not a whole number."),
    ],
)
def test_bad_variables_are_refused(environment: dict[str, str], text: str) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        config.from_environment(environment)
    assert str(caught.value) == text


PROGRAM = """
import sys, torch, jitpkg
graphs = []

@jitpkg.jit(backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
def f(x):
    y = x.sin()
    print("in the middle")
    return y + 1

f(torch.ones(2))
print(len(graphs))
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(jitpkg.__file__).parents[1])
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("JITPKG_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**inherited, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_disabled_by_the_environment() -> None:
    done = run(PROGRAM, JITPKG_DISABLE="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "in the middle\n0\n", "")


def test_logs_by_the_environment() -> None:
    done = run(PROGRAM, JITPKG_LOGS="graphs,breaks")
    assert (done.returncode, done.stdout) == (0, "in the middle\n2\n")
    lines = done.stderr.splitlines()
    heads = [line.partition(" of ")[0] for line in lines if line.startswith("[")]
    assert heads == [
        "[jitpkg.breaks] f: graph break",
        "[jitpkg.graphs] f#0: graph",
        "[jitpkg.graphs] f#1: graph",
    ]
    assert "B106: something is printed" in lines
    assert "    sin = x.sin();  x = None" in lines


def test_unknown_topic_in_the_environment() -> None:
    done = run(PROGRAM, JITPKG_LOGS="graph")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "jitpkg.errors.InvalidArgument: There is nothing to log under graph. The topics are:"
        " graphs, guards, kernels, schedules, entries, breaks, recompiles, gains, auto,"
        " bytecode, all."
    )


def test_bad_variable_stops_the_program_at_once() -> None:
    done = run("import jitpkg.config", JITPKG_STRICT="maybe")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("is not a switch; give 1 or 0.")


# Logs


@pytest.fixture
def _quiet_again() -> Iterator[None]:
    yield
    jitpkg.set_logs("")


@pytest.mark.usefixtures("_quiet_again")
@pytest.mark.parametrize("topics", ["all", "graphs, guards ,entries", ["graphs", "guards"]])
def test_records_of_what_is_compiled(topics: Any) -> None:
    records: list[logging.LogRecord] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keeping()
    logging.getLogger("jitpkg").addHandler(handler)
    try:
        jitpkg.set_logs(topics)
        f = jitpkg.jit(fresh(affine))
        f(X), f(X, 5)
        jitpkg.set_logs("")
        count = len(records)
        f(X, 6)
    finally:
        logging.getLogger("jitpkg").removeHandler(handler)
    names = {record.name for record in records}
    assert {"jitpkg.graphs", "jitpkg.guards"} <= names
    assert ("jitpkg.recompiles" in names) is (topics == "all")
    assert all(record.levelno == logging.INFO for record in records)
    assert all(isinstance(record.__dict__["event"], events.Event) for record in records)
    texts = {record.name: record.getMessage() for record in records}
    if topics == "all":
        assert texts["jitpkg.recompiles"] == (
            "affine: compiled again, because\n  k is 5; built for 2"
        )
        assert "RETURN_VALUE" in texts["jitpkg.bytecode"]
    assert len(records) == count


@pytest.mark.parametrize("topics", ["graph", ["graphs", "x"]])
def test_unknown_topics_are_refused(topics: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="There is nothing to log under "):
        jitpkg.set_logs(topics)
