"""The cache's directory: where it is, what is in it.

Object code from it runs in this process, so nobody else may write there: see `trust`. Each
operation opens the directory, looks whose it is, and names files relative to what it has opened: no
other directory can be put in its place between the look and the use, and nothing stays open.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from jitpkg.codegen.cache import trust
from jitpkg.dataclass import dataclass

VARIABLE = "JITPKG_CACHE_DIR"
OFF = "off"

KEY = re.compile(r"[0-9a-f]{64}")
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
WRITTEN = "written"
"""A file as long as the number of blocks written since the last cleaning."""

CLAIMS = "claims"
"""An empty file, of which processes lock bytes: see `claims`."""

TRITON = "triton"
"""The folder in which Triton keeps what it compiles for us: a folder for each kernel."""

BLOCK = 4096
"""Bytes that file systems hand out."""

ABANDONED = 3600
"""Seconds after which the process that wrote a temporary file is taken to have died."""


def place(environment: Mapping[str, str] | None = None) -> Path | None:
    """The directory that the environment asks for, or the platform's; None where there is none."""
    asked = (os.environ if environment is None else environment).get(VARIABLE, "")
    if asked == OFF or not trust.POSSIBLE:
        return None
    if asked:
        return Path(asked).absolute()
    found = platformdirs.user_cache_path("jitpkg", appauthor=False)
    return found if found.is_absolute() else None  # it is not for a user without a home


def inside(directory: Path, name: str) -> Path:
    """A folder in the directory, which is made when it is needed.

    Raises:
        NotPrivate: one of them cannot be trusted.
        OSError: they cannot be opened or made.
    """
    with trust.folder(directory) as at, suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=at)
    with trust.folder(directory / name):
        return directory / name


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
    return [*_own(at), *_of_triton(at)]


def keys(directory: Path | None) -> list[str]:
    """The keys of the entries in a directory, if there is one.

    Raises:
        OSError: the directory cannot be trusted or read.
    """
    if directory is None:
        return []
    try:
        with trust.folder(directory) as at:
            return [entry.name for entry in _own(at)]
    except FileNotFoundError:
        return []


def _own(at: int) -> Iterator[Entry]:
    """Those that Triton has not written."""
    return (entry for entry in _files(at) if KEY.fullmatch(entry.name))


def _of_triton(at: int) -> Iterator[Entry]:
    with suppress(FileNotFoundError, NotADirectoryError), trust.below(TRITON, at) as folders:
        with os.scandir(folders) as scanned:
            names = [each.name for each in scanned if each.is_dir(follow_symlinks=False)]
        for name in names:
            with suppress(FileNotFoundError), trust.below(name, folders) as kernel:
                taken = sum(file.bytes for file in _files(kernel))
                yield Entry(os.fstat(kernel).st_mtime, taken, f"{TRITON}/{name}")


def taken(directory: Path) -> int:
    """The bytes that the files of a folder take on disk."""
    with trust.folder(directory) as at:
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
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        return _account(at, size, flags)
    except trust.Strange:
        trust.remove(at, WRITTEN)
        return _account(at, size, flags)


def _account(at: int, size: int, flags: int) -> int:
    with trust.file(at, WRITTEN, flags) as written:
        trust.write(written, bytes(-(-size // BLOCK)))
        return os.fstat(written).st_size * BLOCK


def clean(at: int, keep: int) -> None:
    """Remove what was used least recently beyond `keep` bytes, and what dead writers left."""
    with trust.file(at, WRITTEN, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
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
        trust.remove_tree(at, name)
    else:
        trust.remove(at, name)


def clear(directory: Path) -> int:
    """Remove all that the cache has written, and nothing else; returns the number of entries.

    Raises:
        OSError: the directory cannot be trusted, read or written.
    """
    try:
        with trust.folder(directory) as at:
            own = entries(at)
            files = list(_files(at))
            rest = [f for f in files if f.name in (WRITTEN, CLAIMS) or TEMPORARY.fullmatch(f.name)]
            for entry in own + rest:
                remove(at, entry.name)
            trust.remove_tree(at, TRITON)
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
        with trust.folder(directory) as at:
            found = entries(at)
    except FileNotFoundError:
        return Info(directory, limit, trouble=trust.why_not_writable(directory))
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
        trust.why_not_writable(directory),
    )
