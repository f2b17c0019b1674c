"""What is kept on disk between processes: `info()` says where and how much, `clear()` removes it.

`JITPKG_CACHE_DIR` names another directory than the platform's; `off` keeps nothing.
"""

from __future__ import annotations

from jitpkg.codegen.cache import Info, kernels

__all__ = ["Info", "clear", "info"]


def info() -> Info:
    """Where compiled kernels and graphs are kept, how many there are, and what they take."""
    return kernels().info()


def clear() -> int:
    """Remove all compiled kernels and graphs that are kept; returns how many it were.

    Functions that are compiled stay so; other processes compile anew what they ask for next.

    Raises:
        OSError: the directory belongs to another user, or cannot be read or written.
    """
    return kernels().clear()
