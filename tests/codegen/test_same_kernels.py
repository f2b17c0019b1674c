"""The same program gets the same kernels in each process: those on disk are found by their text."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg
from jitpkg import events
from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Store
from tests.codegen.cpu.support import buffer, needs_llvm

pytestmark = needs_llvm

PROGRAMS: dict[str, Callable[[Tensor], object]] = {
    "folds over each dim": lambda x: (x.sum(0), x.sum(1), x.sum(2)),
    "less their means": lambda x: x - x.mean(0) - x.mean(1, keepdim=True) - x.mean(2, True),
    "over two dims each": lambda x: (x.sum((0, 1)), x.sum((1, 2)), x.amax((0, 2))),
    "softmaxes": lambda x: x.softmax(0) + x.softmax(1) + x.softmax(2),
    "norms of norms": lambda x: x / (x.norm(dim=0) + x.norm(dim=1)[:, None].amax(0) + 1),
    "running": lambda x: x.cumsum(0) + x.cumsum(1) * x.cumsum(2),
    "turned": lambda x: (x.transpose(0, 2) + x).sum((0, 1)) + (x.transpose(1, 2) * x).sum((1, 2)),
    "many reads": lambda x: functional.gelu(x.flip(0) + x.flip(1) + x.roll(1, 2)).var((0, 2)),
}


def kernels(function: Callable[[Tensor], object], x: Tensor) -> list[str]:
    texts: list[str] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.KernelCompiled):
            texts.append(event.text)

    with events.STREAM.listening(note):
        jitpkg.compile(function, backend="jitpkg")(x)
    return texts


@pytest.mark.parametrize("name", PROGRAMS)
def test_wherever_objects_lie(name: str) -> None:
    """A set of nodes is in another order when they lie elsewhere."""
    x = torch.randn(8, 8, 8)
    first = kernels(PROGRAMS[name], x)
    assert first
    between: list[object] = []
    for seed in range(12):
        draw = random.Random(seed)
        between += [bytearray(draw.randrange(1, 400)) for _ in range(draw.randrange(2000))]
        draw.shuffle(between)
        del between[::2]
        assert kernels(PROGRAMS[name], x) == first


def test_folds_over_rows_of_their_own() -> None:
    """None of two folds comes first by the number of its axes."""
    found = set()
    between: list[object] = []
    for seed in range(40):
        between += [bytearray(random.Random(seed).randrange(1, 400)) for _ in range(seed * 7)]
        b = Builder()
        axes = b.axes((4, 6))
        stores = []
        for number, axis in enumerate(axes):
            over = b.axis(5)
            x = buffer(f"x{number}", axis.extent, 5)
            total = b.reduce("sum", b.load(x, (axis, over)), [over])
            stores.append(Store(buffer(f"out{number}", axis.extent), (axis,), total))
        kernel = kernel_of("k", stores)
        found.add(tuple(axis.extent for axis in kernel.axes))
    assert len(found) == 1
