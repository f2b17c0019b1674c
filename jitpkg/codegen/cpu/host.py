"""What a printer has to know of the processor."""

from __future__ import annotations

from collections.abc import Mapping

from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Host:
    """A processor and what is in its process."""

    bits: int
    """How wide its vector registers are."""
    parallel: bool = True
    """Whether kernels can be cut into parts for torch's threads."""
    cache: int = 32 << 20
    """Bytes of the last cache; what is larger is written past it."""
    grain: int = 32768
    """Elements that are worth a thread."""
    side_by_side: int | None = None
    """How many registers a loop works on at once; None leaves it to the loop."""


def host_of(features: Mapping[str, bool], parallel: bool = True) -> Host:
    """From LLVM's names of what the processor can do."""
    if features.get("avx512f") and features.get("avx512bw") and features.get("avx512dq"):
        return Host(512, parallel)
    return Host(256 if features.get("avx2") else 128, parallel)
