"""Loops with a break in them: the body is compiled once, whatever variables are overwritten."""

import pytest
import torch

import jitpkg


def unused_variable(x):
    for _ in range(100):
        x = x + 1
        print(end="")
    return x


def counter_behind_the_break(x):
    k = 0
    for number in [2.0] * 50:
        x = x + number
        print(end="")
        k = 0
    return x + k


class Record:
    pass


def overwritten_object(x):
    kept = Record()
    for _ in range(20):
        x = x + 1
        print(end="")
        kept = Record()
    return x, type(kept).__name__


@pytest.mark.parametrize("program", [unused_variable, counter_behind_the_break, overwritten_object])
def test_the_body_is_compiled_once(program) -> None:
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = jitpkg.compile(program, backend=backend)
    with jitpkg.config.patch(disturb=""):
        result = compiled(torch.zeros(2))
    expected = program(torch.zeros(2))
    assert str(result) == str(expected)
    assert len(graphs) <= 4


class Dies:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("died")


def drops(x, kept, log):
    y = x + 1
    kept = None
    log.append("behind")
    return y * 2, kept


def test_a_finaliser_runs_where_its_object_is_dropped() -> None:
    logs = []
    for function in (drops, jitpkg.compile(drops), jitpkg.compile(drops)):
        log: list[str] = []
        function(torch.ones(2), Dies(log), log)
        logs.append(log)
    assert logs[1] == logs[0]
    assert logs[2] == logs[0]
