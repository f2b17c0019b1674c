"""What kernels are printed and compiled for: the numbers of a GPU that choices depend on."""

from __future__ import annotations

from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU."""

    capability: tuple[int, int]
    processors: int
    """Streaming multiprocessors."""
    shared: int
    """Bytes of shared memory that a block may have."""
    cache: int
    """Bytes of the second cache."""
    warp: int = 32

    @property
    def architecture(self) -> int:
        """As in `sm_90`."""
        major, minor = self.capability
        return 10 * major + minor


A100 = Target((8, 0), processors=108, shared=166_912, cache=40 << 20)
H200 = Target((9, 0), processors=132, shared=232_448, cache=50 << 20)
"""An H100 has the same numbers."""
