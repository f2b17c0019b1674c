"""Threads that the compiler starts for work of its own.

What has a hook runs in them as it was written. Who started them waits for them and may have locks:
a thread that compiled would wait for those.
"""

from __future__ import annotations

import threading


class _Here(threading.local):
    """About the running thread."""

    is_ours = False


_HERE = _Here()


def is_ours() -> bool:
    """Whether the running thread is one of the compiler's own."""
    return _HERE.is_ours


def begin() -> None:
    """Say so of the running thread, first of all that it does."""
    _HERE.is_ours = True
