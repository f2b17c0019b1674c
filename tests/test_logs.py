"""Logs: topics are switched on by name, and records say what happens."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import jitpkg
from jitpkg import events
from jitpkg.logs import TOPICS

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("jitpkg")
    before = logger.handlers[:], logger.propagate, logger.level
    yield
    jitpkg.set_logs("")
    logger.handlers[:], logger.propagate = before[:2]
    logger.setLevel(before[2])


def branch(x):
    is_positive = x.sum() > 0
    if is_positive:
        return x + 1
    return x - 1


def records(caplog: pytest.LogCaptureFixture, topics: str) -> list[logging.LogRecord]:
    logging.getLogger("jitpkg").addHandler(caplog.handler)
    jitpkg.set_logs(topics)
    kernels = topics in ("kernels", "schedules", "all")
    compiled = jitpkg.compile(branch, backend="jitpkg" if kernels else "eager")
    compiled(torch.ones(3))
    compiled(torch.ones(4))
    return [record for record in caplog.records if record.name.startswith("jitpkg.")]


SAID = {
    "graphs": "branch#0: graph of 2 ops; backend",
    "guards": "\n  x: float32[3]",
    "kernels": "out0[0] = (sum(in0[i] for i < 3) > 0.0)",
    "schedules": "loops after the pass live_only\nfor i < ",
    "entries": "values = guards_hold(x)",
    "breaks": "B103: a branch depends on a tensor's data",
    "recompiles": "branch: compiled again, because\n  x has size 4 in dim 0; built for 3",
    "bytecode": "branch: emitted code\n",
}


OTHERS = {
    "gains": {
        events.Measured("f", "f#0", 412e-6, 1.31e-3, 2.2): (
            "f#0: 412 us compiled, 1.31 ms as it is; 2.2 s to compile"
        ),
        events.Postponed("f", "too dear"): "f: not compiled for now: too dear",
        events.GivenBack("f", "no gain"): "f: runs as it was written: no gain",
        events.GivenBack("f", "no gain", 7): "f: runs as it was written from line 7 on: no gain",
    },
    "auto": {
        events.ModuleSeen("m", 1): "module m: 1 function may be compiled",
        events.ModuleSeen("m", 0, "why not"): "module m: left alone: why not",
        events.Begun("f", 2): "f: compiled from its call 2 on that sees a tensor",
        events.Suggested("Do this."): "Do this.",
        events.GivenBack("f", "no gain"): "f: runs as it was written: no gain",
    },
}
"""Topics of which the program above says nothing."""


@pytest.mark.parametrize("topic", OTHERS)
def test_topic_of_other_programs(topic: str, caplog: pytest.LogCaptureFixture) -> None:
    assert records(caplog, topic) == []
    for event in OTHERS[topic]:
        events.STREAM.emit(event)
    found = [record for record in caplog.records if record.name == f"jitpkg.{topic}"]
    said = dict.fromkeys(record.getMessage() for record in found)  # by two loggers
    assert list(said) == list(OTHERS[topic].values())


@pytest.mark.parametrize("topic", sorted({*TOPICS} - {*OTHERS}))
def test_topic(topic: str, caplog: pytest.LogCaptureFixture) -> None:
    found = records(caplog, topic)
    assert {record.name for record in found} == {f"jitpkg.{topic}"}
    assert any(SAID[topic] in record.getMessage() for record in found)
    assert all(type(record.event).__module__ == "jitpkg.events" for record in found)  # type: ignore[attr-defined]


def test_all_topics(caplog: pytest.LogCaptureFixture) -> None:
    names = {record.name for record in records(caplog, "all")}
    assert names == {f"jitpkg.{topic}" for topic in TOPICS if topic not in OTHERS}


def test_no_topic_no_record(caplog: pytest.LogCaptureFixture) -> None:
    assert records(caplog, "") == []


def test_an_unknown_topic_is_refused() -> None:
    with pytest.raises(jitpkg.errors.InvalidArgument, match="The topics are: graphs, guards"):
        jitpkg.set_logs("graphs,grahps")


def test_the_environment_switches_logs_on() -> None:
    program = "import torch, jitpkg; jitpkg.jit(lambda x: x + 1)(torch.ones(1))"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"JITPKG_LOGS": "graphs", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr.startswith("[jitpkg.graphs] <lambda>#0: graph of 1 op")
