"""What was compiled, kept on disk by what it was made from.

    library = native.load(object_code(text))   # of `cache.objects`, the one module that needs LLVM

A key is a hash of all that an answer depends on, so nothing here is ever out of date, and two
processes that write one key write the same.

Whole graphs are kept by the same means: see `graphs` and `entry`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jitpkg.codegen.cache.folder import Info, place
from jitpkg.codegen.cache.store import FORMAT, KernelCache

__all__ = ["Info", "KernelCache", "kernel_key", "kernels"]


@cache
def kernels() -> KernelCache:
    """The process's cache, where the environment says at the first use."""
    return KernelCache(place())


def kernel_key(text: str, target: str) -> str:
    """The key of the object code for a kernel's IR text on a target, as `native.target()` is."""
    return _digest(FORMAT, "kernel", _version(), text, target)


def _digest(*parts: str) -> str:
    made = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        made.update(len(encoded).to_bytes(8, "little"))
        made.update(encoded)
    return made.hexdigest()


@cache
def _version() -> str:
    """jitpkg's version; where that is no release, with the source that makes object code of IR."""
    try:
        found = version("jitpkg")
    except PackageNotFoundError:
        found = "dev"
    if "dev" not in found:
        return found
    sources = sorted(Path(__file__).parents[2].glob("native/*.py"))
    return _digest(found, *(source.read_text(encoding="utf-8") for source in sources))
