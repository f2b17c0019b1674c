"""Convolutions that have the channels innermost: nobody sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given

import jitpkg
from jitpkg.codegen.cpu import maker
from tests.codegen.cpu.support import needs_llvm
from tests.codegen.examples import examples

Step = Callable[[torch.Tensor], torch.Tensor]

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "in order": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "sliced": lambda x: x.repeat(1, 1, 1, 2)[..., ::2],
    "turned": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
}


def depthwise(x: torch.Tensor, size: int, stride: int, times: int) -> torch.Tensor:
    channels = x.shape[1]
    weight = torch.linspace(-0.5, 0.7, channels * times * size * size)
    weight = weight.view(channels * times, 1, size, size)
    return F.conv2d(x, weight, weight[:, 0, 0, 0], stride, size // 2, groups=channels)


def pixels(x: torch.Tensor, out: int) -> torch.Tensor:
    weight = torch.linspace(-0.4, 0.5, out * x.shape[1]).view(out, x.shape[1], 1, 1)
    return F.conv2d(x, weight)


def dense(x: torch.Tensor, out: int) -> torch.Tensor:
    weight = torch.linspace(-0.2, 0.3, out * x.shape[1] * 9).view(out, x.shape[1], 3, 3)
    return F.conv2d(x, weight, padding=1)


def normalised(x: torch.Tensor) -> torch.Tensor:
    mean, var = x.detach().mean((0, 2, 3)), x.detach().var((0, 2, 3)) + 0.1
    return F.batch_norm(x, mean, var, mean + 1, var)


STEPS: dict[str, Step] = {
    "depthwise": lambda x: depthwise(x, 3, 1, 1),
    "depthwise, half as large": lambda x: depthwise(x, 5, 2, 1),
    "depthwise, twice as many": lambda x: depthwise(x, 3, 1, 2),
    "pixels": lambda x: pixels(x, 8),
    "to one channel": lambda x: pixels(x, 1),
    "dense": lambda x: dense(x, 6),
    "relu": torch.relu,
    "in place": lambda x: (x * 2).relu_(),
    "batch norm": normalised,
    "group norm": lambda x: F.group_norm(x, 1),
    "layer norm": lambda x: F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2]).permute(0, 3, 1, 2),
    "itself": lambda x: x + torch.tanh(x),
    "gate": lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)),
    "pad": lambda x: F.pad(x, (0, 1, 1, 0)),
    "pool": lambda x: F.max_pool2d(x, 2, 1),
    "softmax": lambda x: x.softmax(1),
    "sort": lambda x: x.sort(dim=2).values,
    "running": lambda x: x.cumsum(1) / 8,
    "product": lambda x: torch.matmul(x, x.mT) / 8,
    "flat and back": lambda x: (x.flatten(1) * 0.5).view(x.shape),
    "turned": lambda x: x.transpose(2, 3) * 0.5,
    "shown in another way": lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
    "more": lambda x: torch.cat([x, x * 0.5], 1),
    "upsampled": lambda x: F.interpolate(x, scale_factor=2.0),
}


def program(names: list[str], seen: list[int]) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Returns its last result, and those that are `seen`."""

    def applied(x: torch.Tensor) -> list[torch.Tensor]:
        kept = []
        for k, name in enumerate(names):
            x = STEPS[name](x)
            if k in seen:
                kept.append(x)
        return [x, *kept]

    return applied


def check(names: list[str], seen: list[int], layout: str, trains: bool) -> None:
    torch.manual_seed(0)
    x = LAYOUTS[layout](torch.randn(2, 4, 7, 9))
    of, others = x.clone().requires_grad_(trains), x.clone().requires_grad_(trains)
    function = program(names, seen)
    compiled = jitpkg.compile(function, backend="jitpkg")
    with torch.set_grad_enabled(trains), jitpkg.config.patch(strict=True):
        wanted, found = function(of), compiled(others)
    for one, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
        assert other.stride() == one.stride()
    if trains:
        for results in (wanted, found):
            sum(each.square().mean() for each in results).backward()  # type: ignore[union-attr]
        torch.testing.assert_close(others.grad, of.grad, rtol=1e-4, atol=1e-4)


@needs_llvm
@examples(60)
@given(
    names=st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=7),
    first=st.sampled_from(["depthwise", "depthwise, half as large", "depthwise, twice as many"]),
    at=st.integers(0, 7),
    seen=st.lists(st.integers(0, 7), max_size=2),
    layout=st.sampled_from(list(LAYOUTS)),
    trains=st.booleans(),
)
def test_random_networks(
    names: list[str], first: str, at: int, seen: list[int], layout: str, trains: bool
) -> None:
    names = [*names[:at], first, *names[at:]]
    check(names, seen, layout, trains)


@needs_llvm
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", STEPS)
def test_around_each_step(name: str, layout: str) -> None:
    check(["depthwise", name, "pixels", "depthwise", name], [1], layout, trains=False)


def formats(names: list[str], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each convolution that a graph calls, whether it gets the channels innermost."""
    found: list[bool] = []
    before = maker.put_innermost

    def noting(graph: torch.fx.Graph) -> int:
        count = before(graph)
        for node in graph.nodes:
            if node.target is torch.ops.aten.convolution.default:
                (x, *_) = node.args
                found.append(x.meta["facts"].stride[1] == 1)  # type: ignore[union-attr]
        return count

    monkeypatch.setattr(maker, "put_innermost", noting)
    x = torch.randn(2, 4, 8, 8)
    with torch.no_grad():
        jitpkg.compile(program(names, []), backend="jitpkg")(x)
    return found


@needs_llvm
def test_where(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["depthwise", "batch norm", "relu", "pixels", "itself", "dense", "depthwise"]
    assert formats(names, monkeypatch) == [True, True, False, True]


@needs_llvm
def test_without_depthwise_ones_all_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    assert formats(["pixels", "relu", "dense"], monkeypatch) == [False, False]


@needs_llvm
def test_little_is_copied() -> None:
    """Kernels write what a convolution reads, and read what it has written."""
    names = ["pixels", "relu", "depthwise", "batch norm", "relu", "pixels", "itself", "depthwise"]
    with torch.no_grad():
        report = jitpkg.explain(program(names, []), backend="jitpkg")(torch.randn(2, 4, 8, 8))
    copies = [each for each in report.kernels if each.ops == ("clone",)]
    assert len(copies) <= 2, report  # of the input, and of the result


def _pools() -> list[Any]:
    return [
        (F.avg_pool2d, {"ceil_mode": True}),
        (F.avg_pool2d, {"ceil_mode": True, "count_include_pad": False, "padding": 3}),
        (F.max_pool2d, {"ceil_mode": True}),
        (F.max_pool2d, {"ceil_mode": True, "padding": 2}),
    ]


@needs_llvm
@pytest.mark.parametrize(("pool", "how"), _pools())
@pytest.mark.parametrize("size", [7, 13, 2000])
def test_windows_that_are_larger_than_the_image(pool: Any, how: dict[str, Any], size: int) -> None:
    """They take no longer for that: a window of 2000 x 2000 has 4 million places."""
    x, other = (torch.arange(70.0).sin().view(1, 2, 5, 7).requires_grad_() for _ in range(2))
    wanted = pool(x, size, **how)
    found = jitpkg.compile(lambda t: pool(t, size, **how), backend="jitpkg")(other)
    wanted.square().sum().backward()
    found.square().sum().backward()
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(other.grad, x.grad)
