"""A kernel in several ways, of which the fastest is kept: what `max_autotune` asks for.

The ways differ in what no result shows: how many registers are worked on side by side, and how much
is worth a thread. Whether to write past the cache is not among them: that depends on what comes
next, and 36 MB that were faster here by 4% were slower in use by 25%.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.ir.nodes import Buffer, Reduce, Scan, below, written
from jitpkg.internals import dispatch

SIDE_BY_SIDE = (1, 2, 4, 8)
BETTER = 0.93
"""Of the time of what is kept otherwise: what is measured is not the same twice."""
ROUNDS = 7
SHORTEST, LONGEST = 1e-4, 5e-2
"""Seconds of one turn, at least, and of all turns of a kernel, about."""


def families(kernel: Kernel, host: Host, threads: int) -> Iterator[Callable[[Host], list[Host]]]:
    """What is chosen one after the other: each gives other ways than the best one so far."""
    if not _adds_up(kernel):
        yield lambda best: [replace(best, side_by_side=count) for count in SIDE_BY_SIDE]
    if threads > 1:
        grains = (host.grain // 4, host.grain * 4)
        yield lambda best: [replace(best, grain=grain) for grain in grains]


def _adds_up(kernel: Kernel) -> bool:
    """Whether the order of operations may show in a result."""
    if any(store.combine is not None for store in kernel.stores):
        return True
    return any(isinstance(node, Reduce | Scan) for node in below(*written(kernel.stores)))


def arguments(buffers: Sequence[Buffer]) -> list[torch.Tensor]:
    """Tensors to measure with, which draw no random numbers."""
    with dispatch.NO_MODES.get()(), torch.no_grad():
        return [_argument(buffer.sizes[0], buffer.dtype) for buffer in buffers]


def _argument(size: int, dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.linspace(-2, 2, size, device="cpu", dtype=torch.float32).to(dtype)
    return torch.zeros(size, dtype=dtype, device="cpu")  # an index that is in range


def fastest(ways: Sequence[Callable[..., Any]], given: Sequence[torch.Tensor]) -> int:
    """Which one it is; the first, if no other is clearly faster. They take turns."""
    once = min(_seconds(way, given, 1) for way in ways for _ in range(2))
    repeat = max(1, round(SHORTEST / max(once, 1e-7)))
    rounds = max(3, min(ROUNDS, int(LONGEST / (once * repeat * len(ways)))))
    turns = [[_seconds(way, given, repeat) for way in ways] for _ in range(rounds)]
    medians = [statistics.median(times) for times in zip(*turns, strict=True)]
    best = min(range(len(ways)), key=medians.__getitem__)
    won = sum(times[best] < times[0] for times in turns)
    return best if medians[best] < BETTER * medians[0] and won >= rounds - 1 else 0


def _seconds(way: Callable[..., Any], given: Sequence[torch.Tensor], repeat: int) -> float:
    began = time.perf_counter()
    for _ in range(repeat):
        way(*given)
    return time.perf_counter() - began
