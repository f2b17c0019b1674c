"""The cache's directory: where it is, whether it may be trusted, what is in it.

Object code from it runs in this process, so nobody else may write there. Each operation opens the
directory, looks whose it is, and names files relative to what it has opened: no other directory
can be put in its place between the look and the use, and nothing stays open.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

VARIABLE = "JITPKG_CACHE_DIR"
OFF = "off"

POSSIBLE = {os.open, os.stat, os.rename, os.unlink} <= os.supports_dir_fd
"""Whether this system names files relative to an open directory; where not, nothing is kept."""

KEY = re.compile(r"[0-9a-f]{64}")
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
WRITTEN = "written"
"""A file as long as the number of blocks written since the last cleaning."""

TRITON = "triton"
"""The folder in which Triton keeps what it compiles for us: a folder for each kernel."""

BLOCK = 4096
"""Bytes that file systems hand out."""

ABANDONED = 3600
"""Seconds after which the process that wrote a temporary file is taken to have died."""


class NotPrivate(OSError):
    """The directory belongs to another user, or others may write into it."""


def place(environment: Mapping[str, str] | None = None) -> Path | None:
    """The directory that the environment asks for, or the platform's; None where there is none."""
    asked = (os.environ if environment is None else environment).get(VARIABLE, "")
    if asked == OFF or not POSSIBLE:
        return None
    if asked:
        return Path(asked).absolute()
    found = platformdirs.user_cache_path("jitpkg", appauthor=False)
    return found if found.is_absolute() else None  # it is not for a user without a home


@contextmanager
def opened(directory: Path) -> Iterator[int]:
    """A descriptor of the directory.

    Raises:
        NotPrivate: it cannot be trusted.
        OSError: it is not there, or cannot be opened.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise NotPrivate(f"{directory} belongs to another user ({found.st_uid})")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            mode = stat.S_IMODE(found.st_mode)
            raise NotPrivate(f"others may write into {directory} (its mode is {mode:04o})")
        yield descriptor
    finally:
        os.close(descriptor)


def inside(directory: Path, name: str) -> Path:
    """A folder in the directory, which is made when it is needed.

    Raises:
        NotPrivate: one of them cannot be trusted.
        OSError: they cannot be opened or made.
    """
    with opened(directory) as at, suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=at)
    with opened(directory / name):
        return directory / name


def opener(at: int) -> Callable[[str, int], int]:
    """What `open` uses to open files relative to a directory."""
    return lambda name, flags: os.open(name, flags, 0o600, dir_fd=at)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that the cache has written, or a folder that Triton has."""

    used: float
    """When it was last used, to the hour."""
    bytes: int
    """What it takes on disk."""
    name: str


def entries(at: int) -> list[Entry]:
    """The entries of an open directory."""
    return [*(entry for entry in _files(at) if KEY.fullmatch(entry.name)), *_of_triton(at)]


def _of_triton(at: int) -> Iterator[Entry]:
    with suppress(FileNotFoundError, NotADirectoryError), _below(TRITON, at) as folders:
        with os.scandir(folders) as scanned:
            names = [each.name for each in scanned if each.is_dir(follow_symlinks=False)]
        for name in names:
            with suppress(FileNotFoundError), _below(name, folders) as kernel:
                taken = sum(file.bytes for file in _files(kernel))
                yield Entry(os.fstat(kernel).st_mtime, taken, f"{TRITON}/{name}")


@contextmanager
def _below(name: str, at: int) -> Iterator[int]:
    """A descriptor of a folder in an open one."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def taken(directory: Path) -> int:
    """The bytes that the files of a folder take on disk."""
    with opened(directory) as at:
        return sum(file.bytes for file in _files(at))


def _files(at: int) -> Iterator[Entry]:
    with os.scandir(at) as scanned:
        for file in scanned:
            with suppress(FileNotFoundError):  # another process has just removed it
                found = file.stat(follow_symlinks=False)
                blocks = -(-found.st_size // BLOCK)
                yield Entry(found.st_mtime, blocks * BLOCK, file.name)


def account(at: int, size: int) -> int:
    """Note that `size` bytes are being written; how many it were since the last cleaning, in all
    processes: an append is atomic, so none is lost."""
    with open(WRITTEN, "ab", buffering=0, opener=opener(at)) as file:
        file.write(bytes(-(-size // BLOCK)))
        return os.fstat(file.fileno()).st_size * BLOCK


def clean(at: int, keep: int) -> None:
    """Remove what was used least recently beyond `keep` bytes, and what dead writers left."""
    with open(WRITTEN, "wb", opener=opener(at)):
        pass  # first, so that no other process begins to clean now
    abandoned = time.time() - ABANDONED
    for file in list(_files(at)):
        if TEMPORARY.fullmatch(file.name) and file.used < abandoned:
            remove(at, file.name)
    kept = sorted(entries(at), key=lambda entry: entry.used)
    total = sum(entry.bytes for entry in kept)
    for entry in kept:
        if total <= keep:
            return
        remove(at, entry.name)
        total -= entry.bytes


def remove(at: int, name: str) -> None:
    """Remove an entry, or another file, where it is there."""
    if name.startswith(f"{TRITON}/"):
        shutil.rmtree(name, ignore_errors=True, dir_fd=at)
        return
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=at)


def clear(directory: Path) -> int:
    """Remove all that the cache has written, and nothing else; returns the number of entries.

    Raises:
        OSError: the directory cannot be trusted, read or written.
    """
    try:
        with opened(directory) as at:
            own = entries(at)
            files = list(_files(at))
            rest = [f for f in files if f.name == WRITTEN or TEMPORARY.fullmatch(f.name)]
            for entry in own + rest:
                remove(at, entry.name)
            shutil.rmtree(TRITON, ignore_errors=True, dir_fd=at)
            return len(own)
    except FileNotFoundError:
        return 0


@dataclass(frozen=True, slots=True)
class Info:
    """What a cache holds."""

    directory: Path | None
    """None: nothing is kept on disk."""
    limit: int
    """The bytes that it may take on disk."""
    files: int = 0
    bytes: int = 0
    """What they take on disk."""
    oldest: datetime | None = None
    """When the entry that is used least recently was used last, to the hour."""
    newest: datetime | None = None
    trouble: str | None = None
    """Why the directory is not used."""


def info(directory: Path | None, limit: int) -> Info:
    """What is in a directory now."""
    if directory is None:
        return Info(None, limit, trouble=f"no directory ({VARIABLE}={OFF}, or no home)")
    try:
        with opened(directory) as at:
            found = entries(at)
    except FileNotFoundError:
        return Info(directory, limit)
    except OSError as error:
        return Info(directory, limit, trouble=str(error))
    times = sorted(datetime.fromtimestamp(entry.used, UTC) for entry in found)
    return Info(
        directory,
        limit,
        len(found),
        sum(entry.bytes for entry in found),
        times[0] if times else None,
        times[-1] if times else None,
    )
