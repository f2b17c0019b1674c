"""Killed writers, corrupted files, many processes, full and read-only disks: at worst, it is made
anew."""

import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from jitpkg.codegen.cache import KernelCache, folder
from jitpkg.errors import JitpkgWarning
from tests.codegen.cache.support import data_of, failing, key_of, output_of, own_files, started

ALL = range(20)


def filled(place: Path) -> KernelCache:
    cache = KernelCache(place)
    for k in ALL:
        cache.put(key_of(k), data_of(k))
    return cache


# Killed writers


WRITES_FOR_EVER = """
print("ready", flush=True)
while True:
    for k in range(20):
        cache.put(key_of(k), data_of(k))
"""


def test_killed_writers_leave_whole_entries_only(tmp_path: Path) -> None:
    moments = random.Random(0)
    for _ in range(8):
        writer = started(WRITES_FOR_EVER, tmp_path / "kernels")
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0, 0.03))
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        assert writer.returncode == -signal.SIGKILL
        check_all(tmp_path / "kernels")


def check_all(place: Path) -> None:
    """Each file that has a key's name is whole, and a new writer can go on."""
    whole = {k for k in ALL if (place / key_of(k)).exists()}
    cache = KernelCache(place)
    assert {k for k in ALL if cache.get(key_of(k)) is not None} == whole
    for k in ALL:
        assert cache.get(key_of(k)) in (None, data_of(k))
    cache.put(key_of(0), data_of(0))
    assert cache.get(key_of(0)) == data_of(0)


@pytest.mark.parametrize("step", ["write", "close", "rename"])
def test_a_writer_killed_at_each_step(tmp_path: Path, step: str) -> None:
    """What is on disk when the process ends there: a temporary file at most."""
    program = f"""
from jitpkg.codegen.cache import folder
import signal
die = lambda *arguments, **named: os.kill(os.getpid(), signal.SIGKILL)
if {step!r} == "rename":
    os.rename = die
else:
    open_file = os.open
    def opened(name, *arguments, **named):
        found = open_file(name, *arguments, **named)
        if str(name).endswith(".tmp"):
            if {step!r} == "close":
                os.write(found, data_of(3)[:40])
            die()
        return found
    os.open = opened
cache.put(key_of(3), data_of(3))
"""
    writer = started(program, tmp_path)
    writer.communicate()
    assert writer.returncode == -signal.SIGKILL
    (left,) = own_files(tmp_path) - {"written"}
    assert folder.TEMPORARY.fullmatch(left)
    check_all(tmp_path)


def test_leftovers_are_removed_when_they_are_old(tmp_path: Path) -> None:
    old, new = tmp_path / ".0123456789abcdef.tmp", tmp_path / ".fedcba9876543210.tmp"
    for file in (old, new):
        file.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    cache = KernelCache(tmp_path, limit=32 << 10)
    cache.put(key_of(1), b"x")
    assert old.exists()
    cache.put(key_of(2), b"x")
    assert not old.exists()
    assert new.exists()


# Corrupted files


CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "cut off": lambda whole: whole[:-1],
    "half": lambda whole: whole[: len(whole) // 2],
    "longer": lambda whole: whole + b"\0",
    "zeros": lambda whole: bytes(len(whole)),
    "a bit of the data": lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
    "a bit of the checksum": lambda whole: bytes([whole[0] ^ 128]) + whole[1:],
    "no data": lambda whole: whole[:32],
}


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_corrupted_file_counts_as_absent(tmp_path: Path, kind: str) -> None:
    cache = filled(tmp_path)
    for file in tmp_path.iterdir():
        if file.name != "written":
            file.write_bytes(CORRUPTIONS[kind](file.read_bytes()))
    for k in ALL:
        assert cache.get(key_of(k)) is None
    assert own_files(tmp_path) == {"written"}
    check_again(cache)


def check_again(cache: KernelCache) -> None:
    for k in ALL:
        cache.put(key_of(k), data_of(k))
        assert cache.get(key_of(k)) == data_of(k)


def test_an_entry_under_another_s_name_counts_as_absent(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    shutil.copy(tmp_path / key_of(1), tmp_path / key_of(2))
    assert cache.get(key_of(2)) is None
    assert cache.get(key_of(1)) == data_of(1)


def test_the_account_of_what_was_written_may_be_lost(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    (tmp_path / "written").unlink()
    check_again(cache)
    (tmp_path / "written").write_bytes(b"x" * 5000)
    check_again(cache)


def test_folders_in_the_place_of_files(tmp_path: Path) -> None:
    """An empty one is removed; any other stays, and its entry is kept in memory."""
    (tmp_path / key_of(1)).mkdir()
    (tmp_path / key_of(2) / "below").mkdir(parents=True)
    cache = KernelCache(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in (1, 2, 3):
            assert cache.get(key_of(k)) is None
            cache.put(key_of(k), b"data")
    assert (tmp_path / key_of(2) / "below").exists()
    other = KernelCache(tmp_path)
    assert [other.get(key_of(k)) for k in (1, 2, 3)] == [b"data", None, b"data"]
    assert cache.get(key_of(2)) == b"data"


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    in_memory_after_one_warning(KernelCache(tmp_path / "file"), "File exists|Not a directory")


# Many processes


def test_sixteen_processes_on_one_empty_cache(tmp_path: Path) -> None:
    program = """
import random
work = list(range(40)) * 3
random.Random(int(sys.argv[2])).shuffle(work)
sys.stdin.readline()
made = 0
for k in work:
    found = cache.get(key_of(k))
    if found is None:
        cache.put(key_of(k), data_of(k))
        made += 1
    else:
        assert found == data_of(k), k
assert all(cache.get(key_of(k)) == data_of(k) for k in range(40))
print(made)
"""
    place = tmp_path / "below" / "kernels"
    gate, opens = os.pipe()
    start = partial(started, "import sys\nsys.stdin = open(0)\n" + program, place)
    saved = os.dup(0)
    os.dup2(gate, 0)
    try:
        processes = [start(n) for n in range(16)]
    finally:
        os.dup2(saved, 0)
        os.close(saved)
    time.sleep(1)
    os.close(gate)
    os.close(opens)  # all at once
    outputs = [process.communicate(timeout=100) for process in processes]
    assert [error for _, error in outputs if error] == []
    assert all(process.returncode == 0 for process in processes)
    assert sum(int(made) for made, _ in outputs) >= 40
    assert own_files(place) == {key_of(k) for k in range(40)} | {"written"}


def test_processes_clean_while_others_read_and_write(tmp_path: Path) -> None:
    program = """
cache = KernelCache(Path(sys.argv[1]), limit=256 << 10)
for k in range(300):
    cache.put(key_of(k % 50), data_of(k % 50))
    assert cache.get(key_of(k * 7 % 50)) in (None, data_of(k * 7 % 50))
    if k == 150 and sys.argv[2] == "0":
        cache.clear()
"""
    processes = [started(program, tmp_path / "kernels", n) for n in range(3)]
    outputs = [process.communicate(timeout=100) for process in processes]
    assert outputs == [("", "")] * 3
    assert KernelCache(tmp_path / "kernels").info().bytes <= 320 << 10


# Disks


def in_memory_after_one_warning(cache: KernelCache, text: str) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in ALL:
            cache.put(key_of(k), data_of(k))
    (warning,) = seen
    assert warning.category is JitpkgWarning
    assert re.search(text, str(warning.message))
    assert all(cache.get(key_of(k)) == data_of(k) for k in ALL)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    filled(tmp_path).put(key_of("there"), b"before")
    before = own_files(tmp_path)
    monkeypatch.setattr(os, "open", failing(code, lambda name, flags: bool(flags & os.O_CREAT)))
    cache = KernelCache(tmp_path)
    in_memory_after_one_warning(cache, os.strerror(code))
    assert cache.get(key_of("there")) == b"before"
    assert own_files(tmp_path) == before


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE, errno.EMFILE])
def test_a_disk_that_gives_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    cache = filled(tmp_path)
    monkeypatch.setattr(os, "open", failing(code, lambda name, flags: len(name) == 64))
    assert [cache.get(key_of(k)) for k in ALL] == [None] * len(ALL)


PUTS_AND_GETS = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for k in range(20):
        cache.put(key_of(k), data_of(k))
    assert all(cache.get(key_of(k)) == data_of(k) for k in range(20))
on_disk = KernelCache(cache.directory)
found = [on_disk.get(key_of(k)) for k in range(20)]
assert all(f in (None, data_of(k)) for k, f in enumerate(found))
left = [name for name in os.listdir(cache.directory) if name.endswith(".tmp")]
print(len(seen), sum(f is not None for f in found), left)
print(*[w.message for w in seen], sep="\\n")
"""


def test_files_that_may_grow_no_larger(tmp_path: Path) -> None:
    program = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
    first, *warned = output_of(program + PUTS_AND_GETS, tmp_path).splitlines()
    assert first == "1 4 []"  # the fifth has 4768 bytes
    assert "File too large" in warned[0]


@pytest.mark.parametrize("options", ["size=64k", "ro"])
def test_a_full_and_a_read_only_file_system(tmp_path: Path, options: str) -> None:
    """A real one, in a namespace of the process's own."""
    mount = f'mount -t tmpfs -o mode=700,{options} tmpfs "$0" && exec "$@"'
    under = ("unshare", "--mount", "--map-root-user", "sh", "-c", mount, str(tmp_path))
    try:
        subprocess.run([*under, "true"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no mounts here: {error}")
    first, *warned = output_of(PUTS_AND_GETS, tmp_path, under=under).splitlines()
    if options == "ro":
        assert first == "1 0 []"
        assert "Read-only file system" in warned[0]
    else:
        count, found, left = first.split(maxsplit=2)
        assert (count, left) == ("1", "[]")
        assert 0 < int(found) < 20
        assert "No space left on device" in warned[0]
