"""Code objects that are equal, but for their files: what compiled code says is of its own."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest
import torch

import jitpkg

TEXTS = {
    "the function": "def f(x):\n    return (x + 1).view(7)",
    "a nested function": "def f(x):\n    def g(y):\n        return y.view(7)\n    return g(x + 1)",
    "a comprehension": "def f(x):\n    return [(y + 1).view(7) for y in [x]]",
    "a generator": "def f(x):\n    return list((y + 1).view(7) for y in [x])",
    "a write before": "def f(x):\n    def g(y):\n        y.add_(1)\n        return y.view(7)\n"
    "    return g(x)",
}


def made(text: str, file: str) -> Callable[[torch.Tensor], object]:
    namespace: dict[str, Callable[[torch.Tensor], object]] = {}
    exec(compile(text, file, "exec"), namespace)
    return namespace["f"]


def places(function: Callable[[torch.Tensor], object]) -> list[tuple[str, int | None]]:
    """The files and lines of the program that an exception has passed."""
    try:
        function(torch.ones(3))
    except RuntimeError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [(f.filename, f.lineno) for f in frames if f.filename.startswith("file")]
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("text", TEXTS)
def test_tracebacks_name_the_own_file(text: str) -> None:
    for file in ("file one", "file two", "file three"):
        function = made(TEXTS[text], file)
        compiled = jitpkg.compile(function, backend="eager")
        for _ in range(2):
            assert places(compiled) == places(function)
