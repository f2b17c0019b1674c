"""Hooks in the middle of a function that give nothing go together, and do not come back."""

import time
from collections import Counter

import torch

import jitpkg
from jitpkg import config, events


def watched(function, calls):
    """How often each region was traced and each function's code emitted; results must be right."""
    compiled, traced, emitted = jitpkg.compile(function), Counter(), Counter()

    def note(event):
        traced[type(event)] += isinstance(event, events.Traced)
        emitted[type(event)] += isinstance(event, events.CodeEmitted)

    with events.STREAM.listening(note), config.patch(disturb="", recompile_limit=40):
        for arguments in calls:
            expected, found = function(*arguments), compiled(*arguments)
            assert torch.equal(found[0], expected[0])
            assert found[1:] == expected[1:]
    return traced[events.Traced], emitted[events.CodeEmitted]


def shapes(x, items):
    y = x + 1
    found = []
    for item in items:
        time.time()
        found.append(item)
        time.time()
        found.append([item])
        time.time()
        found.append(len(found))
    return y, found


def test_hooks_that_give_nothing_do_not_come_back_for_ever():
    """Each rank of `x` is a new entry at the start, whose way leads to the same breaks."""
    calls = [(torch.ones([2] * (k // 4 + 1)), list(range(20))) for k in range(80)]
    traced, emitted = watched(shapes, calls)
    starts = 20
    assert starts < traced <= starts + 2 * 3 * 4 + 4
    assert emitted < 40


def test_hooks_that_go_in_one_turn_go_in_one_version():
    _, emitted = watched(shapes, [(torch.ones(2), list(range(20)))] * 4)
    assert emitted < 8


def test_the_function_itself_may_run_while_a_version_is_made():
    """As functions of the standard library do that the emitter uses."""
    compiled, depth, calls = jitpkg.compile(shapes), Counter(), Counter()

    def again(event):
        if isinstance(event, events.CodeEmitted) and depth["now"] < 5:
            depth["now"] += 1
            calls["emitted"] = max(calls["emitted"], depth["now"])
            assert compiled(torch.ones(2), [3, 4])[1] == shapes(torch.ones(2), [3, 4])[1]
            depth["now"] -= 1

    with events.STREAM.listening(again), config.patch(disturb=""):
        for _ in range(4):
            assert compiled(torch.ones(2), list(range(20)))[1][-1] == 59
    assert calls["emitted"] < 5
