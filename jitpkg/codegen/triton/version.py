"""Which Triton is installed, and what depends on that. Nothing of it is imported."""

from __future__ import annotations

import re
from importlib.metadata import version

OLDEST = (3, 6)
"""Whose launchers take what ours gives them; newer ones up to 3.9 are known to."""


def installed() -> str:
    """Its version.

    Raises:
        PackageNotFoundError: it is not installed.
    """
    return version("triton")


def release() -> tuple[int, ...]:
    """Major and minor version.

    Raises:
        PackageNotFoundError: it is not installed.
    """
    return tuple(int(part) for part in re.findall(r"\d+", installed())[:2])


def assembler_flags() -> tuple[str, ...]:
    """What it gives the assembler for each kernel, but for what the kernel's options say."""
    return ("--regAllocOptLevel=2",) if release() >= (3, 7) else ()
