"""Processes that are killed while they write to the cache, and a disk that is full.

An entry is there as it was put, or it is not there; whoever comes next writes again.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jitpkg.codegen.cache import KernelCache
from jitpkg.errors import JitpkgWarning
from tests.codegen.cache.support import data_of, key_of
from tests.faults.table import Row

KEYS = 40
LIMIT = 8 << 20
"""Small enough that writers clean up now and then."""


def hunt(count: int, *, seed: int = 0) -> Row:
    """Kill so many writers at random moments."""
    row = Row("kill -9 while writing")
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "cache"
        while row.tried < count:
            row.tried += 1
            row.note("after an entry" if killed(folder, choose) else "before one")
            check(row, folder)
    return row.ended()


def killed(folder: Path, choose: random.Random) -> bool:
    """Kill a writer; whether it had put something already."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            write_for_ever(folder, writer, random.Random(choose.random()))
        finally:
            os._exit(1)
    os.close(writer)
    os.read(reader, 1)  # it is about to begin
    time.sleep(choose.uniform(0, 0.004))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    has_written = bool(os.read(reader, 1))
    os.close(reader)
    assert os.WIFSIGNALED(status), "the writer raised"
    return has_written


def write_for_ever(folder: Path, told: int, choose: random.Random) -> None:
    cache = KernelCache(folder, limit=LIMIT)
    os.write(told, b"b")
    while True:
        k = choose.randrange(KEYS)
        cache.put(key_of(k), data_of(k) * choose.choice((1, 1, 1, 30)))
        os.write(told, b"w")


def check(row: Row, folder: Path) -> None:
    """All that is there is whole; the cache can be written to, and cleared."""
    cache = KernelCache(folder, limit=LIMIT)
    with raising():
        for k in range(KEYS):
            found = cache.get(key_of(k))
            whole = (None, data_of(k), data_of(k) * 30)
            row.expect(f"entry {k} is neither whole nor absent", found in whole)
        new = key_of(f"new {row.tried}")
        cache.put(new, data_of(7))
        row.expect("what is put is not there", KernelCache(folder).get(new) == data_of(7))
        if row.tried % 50 == 0:
            cache.clear()
            row.expect("something is left when all is cleared", not any(folder.iterdir()))


@contextmanager
def raising() -> Iterator[None]:
    """Warnings of ours are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", JitpkgWarning)
        yield


def together(count: int, *, seed: int = 0) -> Row:
    """So many times, processes that want one thing at once: one makes it. In half of the rounds
    whoever makes it first is killed."""
    row = Row("16 processes that want one thing")
    choose = random.Random(seed)
    while row.tried < count:
        row.tried += 1
        with tempfile.TemporaryDirectory() as place:
            kills = choose.random() < 0.5
            made, ends = wanting(Path(place) / "cache", kills, choose.uniform(0.005, 0.05))
        dead = -signal.SIGKILL
        row.note("the maker was killed" if kills else "one made it")
        row.expect(f"processes ended with {ends}", set(ends) <= {0, dead})
        row.expect(f"{ends.count(dead)} were killed", ends.count(dead) == int(kills))
        row.expect(f"{made} made it", kills or made == 1)
    return row.ended()


def wanting(folder: Path, kills: bool, seconds: float) -> tuple[int, list[int]]:
    """How many made it, and how all processes ended.

    Args:
        kills: whether the first that makes it is killed while it does.
        seconds: that making takes.
    """
    (gate, opens), (told, tells) = os.pipe(), os.pipe()
    children: list[int] = []
    for _ in range(16):
        child = os.fork()
        if not child:
            status = 1
            try:
                os.close(opens)
                os.read(gate, 1)
                status = int(wanted(KernelCache(folder), tells, seconds) != data_of(1))
            finally:
                os._exit(status)
        children.append(child)
    os.close(opens)
    first = os.read(told, 4)
    if kills:
        os.kill(int.from_bytes(first, "little"), signal.SIGKILL)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(tells)
    made = 1 + len(os.read(told, 4096)) // 4
    os.close(told)
    os.close(gate)
    return made, ends


def wanted(cache: KernelCache, told: int, seconds: float) -> bytes | None:
    """What was found, or made: slowly."""
    key = key_of(1)
    found = cache.get(key)
    if found is not None:
        return found
    with cache.claims.claimed(key, lambda: cache.get(key)) as found:
        if found is not None:
            return found
        os.write(told, os.getpid().to_bytes(4, "little"))
        time.sleep(seconds)
        cache.put(key, data_of(1))
    return cache.get(key)


def full_disk(place: Path) -> list[Row]:
    """No space at each point of writing; limits of a process; a disk, where one can be made."""
    return [
        at_each_call(place / "calls"),
        file_too_large(place / "limit"),
        real_disk(place / "disk"),
    ]


def at_each_call(place: Path) -> Row:
    """The nth call of a function of the system's fails, for each n."""
    row = Row("no space left, at each call of the system")
    for name in ("open", "write", "rename", "mkdir", "fsync", "ftruncate"):
        for n in range(8):
            row.tried += 1
            folder = place / f"{name}{n}" / "cache"
            folder.parent.mkdir(parents=True)
            with failing(name, n) as calls:
                wrong = full(folder)
            row.note("failed" if calls[0] > n else "was not called so often")
            row.expect(f"{name}, call {n}: {wrong}", wrong is None)
    return row.ended()


@contextmanager
def failing(name: str, n: int) -> Iterator[list[int]]:
    """From its nth call on, a function of `os` finds no space."""
    original: Callable[..., object] = getattr(os, name)
    calls = [0]

    def fails(*args: object, **kwargs: object) -> object:
        calls[0] += 1
        if calls[0] > n:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*args, **kwargs)

    setattr(os, name, fails)
    try:
        yield calls
    finally:
        setattr(os, name, original)


def full(folder: Path) -> str | None:
    """What is wrong with a cache on a full disk."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", JitpkgWarning)
        cache = KernelCache(folder)
        for k in range(4):
            cache.put(key_of(k), data_of(k))
        for k in range(4):
            if cache.get(key_of(k)) not in (None, data_of(k)):
                return "an entry is half there"
        other = KernelCache(folder)
        for k in range(4):
            if other.get(key_of(k)) not in (None, data_of(k)):
                return "another process sees half of an entry"
    ours = [str(each.message) for each in said if each.category is JitpkgWarning]
    return None if len(ours) <= 1 else f"it is said {len(ours)} times"


def file_too_large(place: Path) -> Row:
    """A limit to the size of files stops a write in its middle."""
    row = Row("a write stops in its middle")
    place.mkdir()
    before, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.RLIMIT_FSIZE
    soft, hard = resource.getrlimit(limits)
    for size in (0, 1, 50, 100, 1000, 4000):
        row.tried += 1
        resource.setrlimit(limits, (size, hard))
        try:
            wrong = full(place / str(size))
        finally:
            resource.setrlimit(limits, (soft, hard))
        row.expect(f"after {size} bytes: {wrong}", wrong is None)
        row.expect(f"after {size} bytes: no later process writes", full(place / "later") is None)
        row.note("right" if wrong is None else "wrong")
    signal.signal(signal.SIGXFSZ, before)
    return row.ended()


def real_disk(place: Path) -> Row:
    """A disk of some kilobytes, if this user may mount one."""
    row = Row("a disk of 64 kB that is full")
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        row.note("cannot be mounted here", 1)
        return row.ended()
    try:
        row.tried += 1
        cache = KernelCache(place / "cache")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", JitpkgWarning)
            for k in range(60):
                cache.put(key_of(k), data_of(k))
        row.expect(f"it is said {len(said)} times", len(said) == 1)
        kept = [KernelCache(place / "cache").get(key_of(k)) for k in range(60)]
        row.expect("half of an entry", all(d in (None, data_of(k)) for k, d in enumerate(kept)))
        row.expect("nothing is kept", any(kept))
        row.expect("not in memory", all(cache.get(key_of(k)) == data_of(k) for k in range(60)))
        row.note("entries kept", sum(data is not None for data in kept))
    finally:
        subprocess.run(["umount", str(place)], check=True)
    return row.ended()


if __name__ == "__main__":
    import sys

    from tests.faults.table import shown

    with tempfile.TemporaryDirectory() as name:
        print(shown([hunt(int(sys.argv[1])), *full_disk(Path(name))]))
