"""Which versions of PyTorch jitpkg was tested with."""

from __future__ import annotations

import re

OLDEST = "2.11"
NEWEST = "2.15.0"


def running() -> str:
    """The version that runs here, without what says for which device it was built."""
    import torch  # `import jitpkg` loads this room, and no torch

    return str(torch.__version__).partition("+")[0]


def release(version: str) -> tuple[int, ...]:
    """Its numbers; of a development version those of the release that is to come."""
    found = re.match(r"[\d.]*\d", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def is_newer() -> bool:
    """Whether this PyTorch came out after all that jitpkg was tested with."""
    return release(running()) > release(NEWEST)


def has(since: str | None, until: str | None) -> bool:
    """Whether this PyTorch lies between two versions, the last one included."""
    here = release(running())
    first, last = release(since or OLDEST), release(until or running())
    return first <= here and here[: len(last)] <= last


def remark() -> str | None:
    """A sentence about a version that was not tested; None for one that was."""
    if is_newer():
        what = "is newer than what this version of jitpkg was tested with"
    elif release(running()) < release(OLDEST):
        what = "is older than what jitpkg needs"
    else:
        return None
    return f"PyTorch {running()} {what} ({OLDEST} to {NEWEST})"
