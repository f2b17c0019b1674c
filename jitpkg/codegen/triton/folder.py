"""Where Triton keeps what it has compiled: in a folder inside jitpkg's cache."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import triton

from jitpkg import forks
from jitpkg.codegen.cache import folder, kernels, trust
from jitpkg.codegen.cache.store import SEEN


@cache
def own_folder() -> Path:
    """The process's folder for Triton; one that goes with the process where nothing is kept.

    A folder that others may write into is not used: what lies in it runs on the GPU.
    """
    above = folder.place()
    if above is not None:
        try:
            trust.make(above)
            own = folder.inside(above, folder.TRITON)
            with trust.folder(own) as at:  # Triton itself asks nothing of what it finds there
                trust.drop_strange(at)
            return own
        except OSError as error:
            kernels().give_up(error)
    made = tempfile.mkdtemp(prefix="jitpkg-triton-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


class _Setting:
    """Triton's one setting for the whole process, ours while any thread compiles for us.

    Triton reads it once, when a compilation begins. A kernel of the user's own that another thread
    begins to compile at that moment lies in our folder, and is compiled again in another process:
    no harm but that.
    """

    def __init__(self) -> None:
        self.lock = forks.lock()
        self.users = 0

    def enter(self) -> None:
        with self.lock:
            self.users += 1
            # Not by assignment: that writes to the environment, which other processes inherit.
            vars(triton.knobs.cache)["dir"] = str(own_folder())

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                vars(triton.knobs.cache).pop("dir", None)


_SETTING = _Setting()


@contextmanager
def kept_in_own_folder() -> Iterator[None]:
    """Triton keeps what is compiled meanwhile in our folder, unless somebody has said where."""
    if not _SETTING.users and _said():
        yield
        return
    _SETTING.enter()
    try:
        yield
    finally:
        _SETTING.leave()


def note_made(kernel: Path) -> None:
    """Note that there is a folder of a kernel more: it counts towards what the cache may take."""
    if kernel.parent == own_folder():
        with suppress(FileNotFoundError):  # another process has just removed it
            trust.close_to_others(kernel)
            kernels().note(folder.taken(kernel))


def note_used(kernel: Path) -> None:
    """Note that the folder of a kernel is used: those that are not are removed first."""
    with suppress(OSError):
        if time.time() - kernel.stat().st_mtime > SEEN:
            os.utime(kernel)


def _said() -> bool:
    asked = os.environ.get("TRITON_CACHE_DIR") or os.environ.get("TRITON_CACHE_MANAGER")
    return bool(asked) or bool({"dir", "manager_class"} & vars(triton.knobs.cache).keys())
