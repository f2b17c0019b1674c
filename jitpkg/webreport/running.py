"""Where the time of kernels goes, and how near each comes to what the memory can do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from html import escape

import torch

from jitpkg.dataclass import dataclass
from jitpkg.messages import counted, duration, size
from jitpkg.webreport.recording import Recording

_MOST = 100
"""Kernels that are shown."""

_COPIED = 64 << 20
"""Bytes of the copy that is timed: more than the caches hold."""

_IN_CACHE = 8 << 20
"""A kernel that moves less may find all of it in a cache, which is faster than memory."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The calls of a kernel in a graph."""

    graph: str
    kernel: str
    calls: int
    seconds: float
    bytes: int
    """That a call moves, on average."""

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.bytes * self.calls / self.seconds if self.seconds else 0.0


def ran(recording: Recording) -> list[Ran]:
    """What has run, the longest first."""
    found = []
    for (graph, name), times in recording.times.items():
        moved = [kernel.bytes for kernel in recording.fused.get(graph, ()) if kernel.name == name]
        if times.calls and moved:
            mean = sum(moved) // len(moved)
            found.append(Ran(graph, name, times.calls, times.seconds, mean))
    return sorted(found, key=lambda each: -each.seconds)


def copy_bandwidth() -> float:
    """Bytes a second that a copy reads and writes, with torch's threads as they are now."""
    source, target = (torch.zeros(_COPIED, dtype=torch.uint8, device="cpu") for _ in range(2))
    least = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        target.copy_(source)
        least = min(least, time.perf_counter() - began)
    return 2 * _COPIED / least


def running(recording: Recording) -> str:
    """A table of kernels; nothing where none was timed."""
    found = ran(recording)
    if not found:
        return ""
    copy = copy_bandwidth()
    seconds = sum(each.seconds for each in found)
    more = len(found) - _MOST
    return (
        "<h2>Where the time of kernels goes</h2>\n"
        f"<p class=faint>{duration(seconds)} in {counted(len(found), 'kernel')}; a copy in memory"
        f" moves {_rate(copy)}. A kernel whose bar is full is as fast as memory lets it be, and"
        " only fusing more makes the program faster; where it is short, the kernel computes, or"
        " waits for data that lie apart. What moves little may find it in a cache.</p>\n"
        "<table class=running><tr><th>kernel</th><th>graph</th><th>calls</th><th>in all</th>"
        "<th>a call</th><th>moves</th><th>a second</th><th>of a copy</th></tr>"
        f"{''.join(map(''.join, (_row(each, copy) for each in found[:_MOST])))}</table>\n"
        + (f"<p class=faint>And {counted(more, 'kernel')} more.</p>\n" if more > 0 else "")
    )


def _row(each: Ran, copy: float) -> Iterator[str]:
    yield f"<tr data-item><td><code>{escape(each.kernel)}</code></td><td>{escape(each.graph)}</td>"
    share = each.bandwidth / copy
    for text in (
        f"{each.calls:,}",
        duration(each.seconds),
        duration(each.seconds / each.calls),
        size(each.bytes),
        _rate(each.bandwidth),
    ):
        yield f"<td class=number>{escape(text)}</td>"
    if each.bytes < _IN_CACHE:
        yield "<td class=faint>in a cache</td></tr>"
        return
    yield (
        f'<td><span class=bar><span style="width:{min(share, 1):.0%}"></span></span>'
        f" {share:.0%}</td></tr>"
    )


def _rate(bandwidth: float) -> str:
    return f"{bandwidth / 1e9:.1f} GB/s"
