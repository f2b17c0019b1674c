"""Bytes by key: on disk where that works, else in memory.

Written once and never changed: a temporary file in the same directory, then a rename, so that a
reader sees all of an entry or none of it. Each begins with its length and a checksum of its key and
data: what was cut off or changed by a crash or a bad disk counts as absent, and is removed, and so
is what the cache cannot have written. No entry is locked: see `claims` for who waits for whom.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from jitpkg.codegen.cache import folder, trust
from jitpkg.codegen.cache.claims import Claims
from jitpkg.codegen.cache.folder import Info
from jitpkg.errors import InvalidArgument
from jitpkg.messages import warn

FORMAT = "2"
"""Of the entries: part of every key and checksum."""

LIMIT = 512 << 20
"""Bytes on disk: some 50,000 kernels."""

CLEANED_PER_LIMIT = 8
"""The directory is cleaned when a part of the limit has been written, down to the rest of it."""

MEMORY = 64 << 20
"""Bytes kept in memory where the disk takes no more."""

SEEN = 3600
"""Seconds for which a use is not noted again."""

_MAGIC = b"jitpkg\n" + FORMAT.encode()
_LENGTH = 8
_HEAD = len(_MAGIC) + _LENGTH + hashlib.sha256().digest_size
"""Bytes before the data: what it is, how long they are, and the checksum."""


class KernelCache:
    """Object code by its key, for all processes of a user; no method raises for what a disk does.

    The first failure to write gives a warning; from then on, new entries are kept in memory.
    """

    def __init__(self, directory: Path | None, *, limit: int = LIMIT) -> None:
        """Make one that writes into a directory, which is made when it is needed.

        Args:
            directory: None keeps all in memory.
            limit: bytes on disk; the least recently used go first.
        """
        self.directory = directory
        self.limit = limit
        self.claims = Claims(directory)
        self._writes = directory is not None
        self._memory: dict[str, bytes] = {}
        self._held = 0

    def get(self, key: str) -> bytes | None:
        """The data of a key, if they are there."""
        _check(key)
        found = self._memory.get(key)
        if found is None and self.directory is not None:
            try:
                with trust.folder(self.directory) as at:
                    return _read(at, key, self.limit)
            except trust.NotPrivate as error:
                self.give_up(error)
            except OSError:
                return None
        return found

    def all_keys(self) -> list[str]:
        """The keys of all entries, on disk and in memory, in order.

        Raises:
            OSError: the directory cannot be trusted or read.
        """
        return sorted({*self._memory, *folder.keys(self.directory)})

    def put(self, key: str, data: bytes) -> None:
        """Keep the data of a key."""
        _check(key)
        part = self.limit // CLEANED_PER_LIMIT
        if self.directory is not None and self._writes and len(data) < part:
            try:
                self._write(self.directory, key, data)
                return
            except IsADirectoryError:
                pass  # it is in the place of this one entry
            except FileNotFoundError as error:
                if not self.directory.is_dir():  # else another process clears it just now
                    self.give_up(error)
            except OSError as error:
                self.give_up(error)
        if self._held + len(data) <= MEMORY:
            self._memory[key] = data
            self._held += len(data)

    def _write(self, directory: Path, key: str, data: bytes) -> None:
        trust.make(directory)
        with trust.folder(directory) as at:
            written = folder.account(at, _HEAD + len(data))
            _write(at, key, data)
            self._clean(at, written)

    def note(self, size: int) -> None:
        """Count bytes that Triton has written to its folder."""
        if self.directory is None or not self._writes:
            return
        with suppress(OSError), trust.folder(self.directory) as at:
            self._clean(at, folder.account(at, size))

    def _clean(self, at: int, written: int) -> None:
        """Clean up, where that much has been written since the last time."""
        part = self.limit // CLEANED_PER_LIMIT
        if written > part:
            folder.clean(at, self.limit - part)

    def give_up(self, error: OSError) -> None:
        """Keep nothing more on disk, and say why, once."""
        if self._writes:
            self._writes = False
            warn(
                f"Compiled kernels cannot be kept on disk: {error}. They are kept in memory, and"
                f" each process compiles its own. {folder.VARIABLE} can name another directory;"
                f" {folder.VARIABLE}={folder.OFF} keeps none."
            )

    def info(self) -> Info:
        """What is on disk."""
        return folder.info(self.directory, self.limit)

    def clear(self) -> int:
        """Remove all entries; returns how many were on disk.

        Raises:
            OSError: the directory cannot be trusted, read or written.
        """
        self._memory.clear()
        self._held = 0
        return 0 if self.directory is None else folder.clear(self.directory)


def _check(key: str) -> None:
    if not folder.KEY.fullmatch(key):
        raise InvalidArgument(f"A key is a sha256 in hexadecimal, not {key!r}.")


def _head(key: str, data: bytes) -> bytes:
    made = hashlib.sha256(f"jitpkg {FORMAT} {key}\n".encode())
    made.update(data)
    return _MAGIC + len(data).to_bytes(_LENGTH, "little") + made.digest()


def _read(at: int, key: str, most: int) -> bytes | None:
    """The data of an entry; what is none is removed."""
    try:
        with trust.file(at, key) as entry:
            data = _whole(entry, key, most)
            if data is not None:
                _note_use(entry)
                return data
    except trust.Strange:
        pass
    trust.remove(at, key)
    return None


def _whole(entry: int, key: str, most: int) -> bytes | None:
    """The data, if they are as long as the entry says, and what it says."""
    head = trust.bytes_of(entry, _HEAD)
    length = int.from_bytes(head[len(_MAGIC) :][:_LENGTH], "little")
    if length > most or os.fstat(entry).st_size != _HEAD + length:
        return None
    data = trust.bytes_of(entry, length)
    return data if head == _head(key, data) else None


def _note_use(entry: int) -> None:
    if time.time() - os.fstat(entry).st_mtime > SEEN:
        with suppress(OSError):
            os.utime(entry)


def _write(at: int, key: str, data: bytes) -> None:
    temporary = f".{os.urandom(8).hex()}.tmp"
    try:
        with trust.file(at, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as entry:
            trust.write(entry, _head(key, data) + data)
        _put_in_place(at, temporary, key)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise


def _put_in_place(at: int, temporary: str, key: str) -> None:
    try:
        os.rename(temporary, key, src_dir_fd=at, dst_dir_fd=at)
    except IsADirectoryError:
        trust.remove(at, key)
        os.rename(temporary, key, src_dir_fd=at, dst_dir_fd=at)
