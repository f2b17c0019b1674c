"""The program is told that it is compiled; optimizers are not, and compute what they ever do."""

import sys
from collections.abc import Callable
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


def stepped(compiled: Callable[[Any], Any], cls: Any, settings: dict[str, Any]) -> torch.Tensor:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(5, 4)) for _ in range(2)]
    optimizer = cls(parameters, lr=0.01, **settings)
    step = compiled(lambda: optimizer.step())
    for _ in range(6):
        for parameter in parameters:
            parameter.grad = torch.randn(5, 4)
        step()
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


@pytest.mark.parametrize("skipped", [True, False])
@pytest.mark.parametrize(
    ("name", "settings"), [("Adam", {}), ("NAdam", {}), ("SGD", {"momentum": 0.9}), ("ASGD", {})]
)
def test_optimizers(
    monkeypatch: pytest.MonkeyPatch, name: str, settings: dict[str, Any], skipped: bool
) -> None:
    """They are called for real; traced, they would give the same, by many small graphs."""
    if not skipped:
        libraries = sys.modules["jitpkg.tracer.libraries"]
        parts = tuple(part for part in libraries.SKIPPED_PARTS if part != "torch.optim")
        monkeypatch.setattr(libraries, "SKIPPED_PARTS", parts)
    cls = getattr(torch.optim, name)
    wanted = stepped(lambda f: f, cls, settings)
    assert torch.equal(stepped(jitpkg.jit, cls, settings), wanted)
