"""Ops that fail behind a `try` inside of which the graph begins: its handlers do not get that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg

INSIDE = {
    "pass on both ways": "if flag.any():\n    pass\nelse:\n    pass",
    "pass on one way": "if flag.any():\n    pass",
    "a constant": "if flag.any():\n    0\nelse:\n    ...",
    "a loop that ends": "while flag.any():\n    break",
    "a break": "jitpkg.graph_break()\npass",
    "an op before": "seen.append(1)\nif (flag + 1).all():\n    pass",
    "an op behind": "if flag.any():\n    seen.append(2)\nelse:\n    flag = flag * 2",
}
AROUND = {
    "except": "try:\n{0}\nexcept Exception as error:\n    seen.append(type(error))",
    "bare except": "try:\n{0}\nexcept:\n    seen.append('caught')",
    "else": "try:\n{0}\nexcept Exception:\n    seen.append('caught')\nelse:\n    pass",
    "finally": "try:\n{0}\nfinally:\n    seen.append('finally')",
    "with": "with contextlib.suppress(Exception):\n{0}",
    "in a loop": "for _ in range(1):\n    try:\n        for _ in range(1):\n{2}\n"
    "    except Exception:\n        seen.append('caught')",
    "twice": "try:\n    try:\n{1}\n    except KeyError:\n        seen.append('inner')\n"
    "except Exception:\n    seen.append('outer')",
}


def program(around: str, inside: str) -> Callable[..., Any]:
    """A write that fails, behind a statement with handlers."""
    bodies = ["\n".join("    " * n + line for line in inside.splitlines()) for n in (1, 2, 3)]
    lines = [*around.format(*bodies).splitlines(), "k[at] = 5.0", "return k * 2"]
    text = "def function(k, at, flag, seen):\n" + "".join(f"    {line}\n" for line in lines)
    namespace: dict[str, Any] = {"contextlib": contextlib, "jitpkg": jitpkg}
    exec(compile(text, "behind.py", "exec"), namespace)
    function: Callable[..., Any] = namespace["function"]
    return function


def outcome(function: Callable[..., Any], at: int, flag: bool) -> Any:
    seen: list[Any] = []
    k = torch.zeros(3)
    try:
        result = function(k, torch.tensor([at]), torch.tensor([flag]), seen).tolist()
    except Exception as error:
        result = type(error)
    return result, k.tolist(), seen


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("around", AROUND)
def test_as_eager_code(around: str, inside: str, backend: str) -> None:
    function = program(AROUND[around], INSIDE[inside])
    compiled = jitpkg.compile(function, backend=backend)
    for at in (1, 7, 2, 7):
        for flag in (False, True):
            assert outcome(compiled, at, flag) == outcome(function, at, flag)
