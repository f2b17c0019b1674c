"""The program is told that it is compiled; optimizers are not, and compute what they ever do."""

from typing import Any

import pytest
import torch

import jitpkg


@pytest.mark.parametrize(
    ("module", "told"),
    [("program", True), ("torch.optim.adam", False), ("torch.nn.functional", True)],
)
def test_who_is_told(module: str, told: bool) -> None:
    namespace: dict[str, Any] = {"__name__": module, "is_compiling": torch.compiler.is_compiling}
    exec("def f(x):\n    return x + 1, is_compiling()", namespace)
    f = jitpkg.jit(lambda x, asking: asking(x))
    assert f(torch.ones(2), namespace["f"])[1] is told
