"""Higher-order ops of torch, in compiled code: as in eager code, with gradients."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan

import jitpkg


@torch.compiler.nested_compile_region
def region(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "cond": lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1,
    "cond, the other way": lambda x: torch.cond(x.sum() < 0, torch.sin, torch.cos, (x,)) + 1,
    "nested_compile_region": lambda x: region(x) + 1,
    "while_loop": lambda x: torch.while_loop(
        lambda k, y: k < 3, lambda k, y: (k + 1, y * 2), (torch.tensor(0), x.detach())
    )[1],
    "scan": lambda x: scan(lambda c, y: (c + y, c * y), torch.zeros(()), x.detach())[1],
    "associative_scan": lambda x: associative_scan(
        torch.add, x.detach(), dim=0, combine_mode="generic"
    ),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False),
    "vmap": lambda x: torch.vmap(torch.sin)(x) + 1,
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
}


@pytest.fixture(autouse=True)
def _torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Some of them call torch.compile, which wraps two methods of modules for good."""
    for name in "__init__", "__setstate__":
        monkeypatch.setattr(torch.nn.Module, name, getattr(torch.nn.Module, name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.compiler.reset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    def run(f: Callable[[torch.Tensor], Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        result = f(x)
        if result.requires_grad:
            result.sum().backward()
        return result.detach(), x.grad

    f = PROGRAMS[name]
    (result, grad), (expected, expected_grad) = run(jitpkg.compile(f)), run(f)
    assert torch.equal(result, expected)
    assert (grad is None) is (expected_grad is None)
    assert grad is None or torch.equal(grad, expected_grad)
