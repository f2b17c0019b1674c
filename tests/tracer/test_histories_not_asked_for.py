"""Autograd makes the history of a view when it is first asked for after a write to the base.

Eager code can tell: until then it takes the view for a leaf. Guards and facts do not ask.
"""

from __future__ import annotations

from itertools import product

import pytest

from jitpkg.testing.programs import Program, check
from jitpkg.testing.programs.modes import HOW_COMPUTED, Mode

TAKEN = ("x[0]", "x[:1]", "x.view(-1)", "x.unbind()[0]")
WRITTEN = (
    "x[0] = y[0]",
    "x.mul_(y)",
    "x.requires_grad_()",
    "x.requires_grad_()\n    with torch.no_grad(): x.mul_(2)",
)
USED = (
    "view[...] = 0",
    "view.mul_(2)",
    "view.grad",
    "view.is_leaf",
    "view.requires_grad",
    "print(view.grad_fn is None)",
    "(view.is_leaf, view.mul_(2))",
    "((view * 2).sum(), view.mul_(2))",
)
MODES = {
    "eager": {"backend": "eager"},
    "jitpkg": {"backend": "jitpkg", "ignore": HOW_COMPUTED, "settings": {"never_worse": False}},
}


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("backend", MODES)
@pytest.mark.parametrize(("taken", "written"), [*product(TAKEN, WRITTEN)])
def test_views_are_used_as_in_eager_code(
    taken: str, written: str, backend: str, broken: bool
) -> None:
    for used in USED:
        between = "print()" if broken else "pass"
        source = f"""import torch
def program(x, y):
    view = {taken}
    {written}
    {between}
    found = None
    {used if "=" in used else f"found = {used}"}
    return x, view, found
"""
        calls = ("call(torch.ones(1), torch.ones(1).requires_grad_())",)
        outcome = check(Program(source, calls), Mode(backend, MODES[backend]))
        assert outcome.verdict in ("same", "left out"), (source, outcome.said)


ADDED = """import torch
def program(x):
    t = x[0]
    def maker():
        try:
            x[0] = 0
        finally:
            x.requires_grad_()
        yield 0
    for k in maker():
        pass
    w = x[0]
    try:
        t
    except Exception:
        pass
    return t, w
"""


def test_gradients_are_added_in_the_order_of_eager_code() -> None:
    """The engine goes first through what was made last: here the history of `t`."""
    outcome = check(Program(ADDED, ("call(torch.ones(1))",)), Mode("eager", MODES["eager"]))
    assert outcome.verdict == "same", outcome.said


def test_a_write_that_eager_code_refuses_for_want_of_a_history_is_left_out() -> None:
    source = "import torch\ndef program(x, y):\n    view = x[0]\n    x.mul_(y)\n    view.mul_(2)"
    program = Program(source, ("call(torch.ones(1), torch.ones(1).requires_grad_())",))
    outcome = check(program, Mode("jitpkg", MODES["jitpkg"]))
    assert (outcome.verdict, outcome.kind) == (
        "left out",
        "writes to a view that has no history yet",
    )
