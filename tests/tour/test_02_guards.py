"""2. What a graph took for granted is guarded.

The graph of a function holds only as long as what the trace read stays as it was: the class, dtype
and shape of a tensor, the value of a number, a global, an attribute. Each of these is a guard.
"""

import torch

import jitpkg

FACTOR = 2


def f(x, n):
    return x * n + FACTOR


def test_what_was_read_is_guarded() -> None:
    guards = jitpkg.explain(f)(torch.ones(2), 3).out_guards
    assert {"x: float32[2]", "n == 3", "FACTOR == 2"} <= set(guards)


def test_what_was_not_read_is_not_guarded() -> None:
    def g(x, unused):
        return x + 1

    guards = jitpkg.explain(g)(torch.ones(2), "anything").out_guards
    assert not any("unused" in guard for guard in guards)


def test_a_guard_that_fails_gives_another_graph() -> None:
    """And says in a sentence why. A number that has changed is one that varies from then on."""
    heard: list[jitpkg.events.Event] = []
    compiled = jitpkg.compile(f)
    with jitpkg.events.STREAM.listening(heard.append):
        compiled(torch.ones(2), 3)
        compiled(torch.ones(2), 3)  # the same entry serves it
        compiled(torch.ones(2), 4)
        compiled(torch.ones(5), 3)

    assert sum(isinstance(event, jitpkg.events.GraphCompiled) for event in heard) == 3
    reasons = [event.reasons for event in heard if isinstance(event, jitpkg.events.Recompiled)]
    assert reasons == [
        ("n is 4; built for 3",),
        ("x has size 5 in dim 0; built for 2", "x has size 5 in dim 0; built for 2"),
    ]


def test_a_global_may_change() -> None:
    """The new value counts from the next call on."""
    compiled = jitpkg.compile(f)
    assert compiled(torch.ones(1), 1).item() == 3
    try:
        globals()["FACTOR"] = 10
        assert compiled(torch.ones(1), 1).item() == 11
    finally:
        globals()["FACTOR"] = 2
