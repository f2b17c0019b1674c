"""Folders and files that nobody but the user can have put there, or changed.

What the cache holds is run. So each folder on the way to it is the user's or the administrator's,
and each file is opened as if an enemy had put it there: no link is followed, nothing waits for a
writer, and only a regular file of the user's own is read, no further than it says itself.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

POSSIBLE = {os.open, os.stat, os.rename, os.unlink, os.rmdir, os.mkdir} <= os.supports_dir_fd
"""Whether this system names files relative to an open directory; where not, nothing is kept."""

_ADMINISTRATOR = 0

_SAFELY = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFELY


class NotPrivate(OSError):
    """A folder belongs to another user, or others may write into it."""


class Strange(OSError):
    """What has the name of a file of the cache's is none that it can have written."""


@contextmanager
def folder(path: Path) -> Iterator[int]:
    """A descriptor of a folder.

    Raises:
        NotPrivate: others may change it, or put another one in its place.
        OSError: it is not there, or cannot be opened.
    """
    real = Path(os.path.realpath(path))
    for above in reversed(real.parents):  # from the root on, so that each is where it stays
        _check_above(above, path)
    descriptor = os.open(real, _FOLDER)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise NotPrivate(f"{path} belongs to another user ({found.st_uid})")
        if _is_open(found):
            raise NotPrivate(f"others may write into {path} ({_mode(found)})")
        yield descriptor
    finally:
        os.close(descriptor)


def _check_above(above: Path, path: Path) -> None:
    """Whoever may write into a folder may rename what is in it, but for the sticky bit.

    A group that is the user's own counts as the user: what is in the folder is the user's anyway.
    """
    found = os.lstat(above)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above))
    if found.st_uid not in (_ADMINISTRATOR, os.geteuid()):
        raise NotPrivate(f"{above}, above {path}, belongs to another user ({found.st_uid})")
    others = stat.S_IWOTH if found.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP
    if found.st_mode & others and not found.st_mode & stat.S_ISVTX:
        raise NotPrivate(f"others may write into {above}, above {path} ({_mode(found)})")


def _is_open(found: os.stat_result) -> bool:
    return bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _mode(found: os.stat_result) -> str:
    return f"its mode is {stat.S_IMODE(found.st_mode):04o}"


@contextmanager
def below(name: str, at: int) -> Iterator[int]:
    """A descriptor of a folder in an open one.

    Raises:
        OSError: it is not there, or is none.
    """
    descriptor = os.open(name, _FOLDER, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def file(at: int, name: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor of a file in an open folder.

    Raises:
        Strange: it is no regular file of the user's own, or others may write to it.
        OSError: it is not there, or cannot be opened.
    """
    try:
        descriptor = os.open(name, flags | _SAFELY, 0o600, dir_fd=at)
    except OSError as error:
        if error.errno in _OF_KINDS:
            raise Strange(error.errno, f"{name} is no file: {error.strerror}") from None
        raise
    try:
        why = why_strange(os.fstat(descriptor))
        if why is not None:
            raise Strange(f"{name} {why}")
        yield descriptor
    finally:
        os.close(descriptor)


_OF_KINDS = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR, errno.ENODEV, errno.EOPNOTSUPP)
"""What opening a link, a pipe, a socket, a folder or a device fails with."""


def why_strange(found: os.stat_result) -> str | None:
    """Why a file cannot have been written by the cache; None where it can."""
    if not stat.S_ISREG(found.st_mode):
        return f"is no file ({stat.filemode(found.st_mode)})"
    if found.st_uid != os.geteuid():
        return f"belongs to another user ({found.st_uid})"
    return f"may be written by others ({_mode(found)})" if _is_open(found) else None


def bytes_of(descriptor: int, count: int) -> bytes:
    """At most so many bytes, from where a file is."""
    parts: list[bytes] = []
    while count > 0 and (part := os.read(descriptor, count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def write(descriptor: int, data: bytes) -> None:
    """All of the bytes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def remove(at: int, name: str) -> None:
    """Remove a file, or an empty folder in the place of one; any other folder stays."""
    with suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=at)
        except (IsADirectoryError, PermissionError):  # EPERM: so other systems say of a folder
            with suppress(OSError):
                os.rmdir(name, dir_fd=at)


def make(path: Path) -> None:
    """Make a folder, and those above it: for the user alone.

    Raises:
        OSError: it cannot be made.
    """
    missing = [path, *path.parents]
    while missing and missing[-1].exists():
        missing.pop()
    for each in reversed(missing):
        with suppress(FileExistsError):  # another process has just made it
            each.mkdir(0o700)


def why_not_writable(path: Path) -> str | None:
    """Why nothing can be kept in a folder, or in one that is still to be made; None where it can.

    Nothing is left there.
    """
    try:
        if path.is_dir():
            with folder(path) as at:
                name = f".{os.urandom(8).hex()}.tmp"
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=at))
                os.unlink(name, dir_fd=at)
            return None
        above = next(each for each in path.parents if each.exists())
        for each in (above, *above.parents):
            _check_above(Path(os.path.realpath(each)), path)
        probe = above / f".{os.urandom(8).hex()}.tmp"
        probe.mkdir(0o700)
        probe.rmdir()
    except OSError as error:
        return str(error)
    return None


def drop_strange(at: int) -> None:
    """Remove all below a folder that is not a regular file or a folder of the user's own.

    For what other programs read by its path, once it has been looked at.
    """
    with os.scandir(at) as scanned:
        names = [each.name for each in scanned]
    for name in names:
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            if why_strange(found) is not None:
                remove(at, name)
        elif found.st_uid == os.geteuid() and not _is_open(found):
            with below(name, at) as inner:
                drop_strange(inner)
        else:
            remove_tree(at, name)


def remove_tree(at: int, name: str) -> None:
    """Remove a folder and all in it; links are not followed."""
    shutil.rmtree(name, ignore_errors=True, dir_fd=at)


def close_to_others(path: Path) -> None:
    """Take from others what a mask may have left them: what Triton writes has any mode."""
    for each in (path, *path.iterdir()):
        with suppress(FileNotFoundError):  # somebody else's, who has just removed it
            found = os.lstat(each)
            if not stat.S_ISLNK(found.st_mode) and _is_open(found):
                each.chmod(stat.S_IMODE(found.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
