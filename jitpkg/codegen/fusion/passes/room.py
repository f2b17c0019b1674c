"""How much memory of their own the loops of a kernel may still have."""

from __future__ import annotations

from jitpkg.dataclass import dataclass


@dataclass(eq=False, slots=True)
class Room:
    left: int
    """Bytes of the stack."""

    def take(self, size: int) -> bool:
        """Whether there is as much; then it is taken."""
        fits = size <= self.left
        if fits:
            self.left -= size
        return fits
