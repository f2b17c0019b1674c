"""Whatever may stand where the cache keeps something: every kind of corruption, of file, owner and
mode. Nothing waits, nothing of it is used, the results are right, and the next entry is kept again.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

import jitpkg
from jitpkg.codegen import cache
from jitpkg.codegen.cache import KernelCache
from jitpkg.errors import JitpkgWarning
from tests.codegen.cache.support import data_of, key_of
from tests.faults.table import Row

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
NOBODY = 65534

DATA = data_of(3)
KEY, OTHER = key_of("entry"), key_of("another")


# In the place of an entry

Change = Callable[[Path], None]


def bytes_changed(change: Callable[[bytes], bytes]) -> Change:
    return lambda file: void(file.write_bytes(change(file.read_bytes())))


def void(_: object) -> None:
    return None


def flipped(at: int) -> Change:
    """One bit is another one."""
    return bytes_changed(
        lambda b: b[: at % len(b)] + bytes([b[at % len(b)] ^ 4]) + b[at % len(b) + 1 :]
    )


def replaced(make: Change) -> Change:
    def change(file: Path) -> None:
        file.unlink()
        make(file)

    return change


def elsewhere(file: Path) -> Path:
    """A whole entry, outside of the cache."""
    found = file.parent.parent / "elsewhere"
    shutil.copy(file, found)
    return found


def linked(file: Path) -> None:
    target = elsewhere(file)
    file.unlink()
    file.symlink_to(target)


def bound(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(file.parent)  # a path may have 108 bytes
        try:
            made.bind("short")
            Path("short").rename(file.name)
        finally:
            os.chdir(here)


def folder_with_content(file: Path) -> None:
    (file / "below").mkdir(parents=True)


def enormous(file: Path) -> None:
    """A file of a terabyte that takes no room, of which the head says so."""
    whole = file.read_bytes()
    size = 1 << 40
    head = whole[: len(whole) - len(DATA)]
    with file.open("wb") as out:
        out.write(head[:8] + size.to_bytes(8, "little") + head[16:])
        try:
            out.truncate(len(head) + size)
        except OSError:  # not on every file system
            out.truncate(len(head) + (1 << 33))


CHANGES: dict[str, Change] = {
    "empty": bytes_changed(lambda b: b""),
    "cut off in the head": bytes_changed(lambda b: b[:20]),
    "cut off in the data": bytes_changed(lambda b: b[:-1]),
    "half": bytes_changed(lambda b: b[: len(b) // 2]),
    "longer": bytes_changed(lambda b: b + b"\0"),
    "zeros": bytes_changed(lambda b: bytes(len(b))),
    "garbage": bytes_changed(lambda b: os.urandom(len(b))),
    "another's": lambda file: void(shutil.copy(file.parent / OTHER, file)),
    "of an older version": bytes_changed(lambda b: b"jitpkg\n1" + b[8:]),
    "of no version": bytes_changed(lambda b: b[16:]),
    **{f"bit of byte {at}": flipped(at) for at in (0, 7, 9, 15, 16, 40, 60, -1)},
    "enormous": enormous,
    "a pipe": replaced(lambda file: os.mkfifo(file)),
    "a socket": replaced(bound),
    "an empty folder": replaced(lambda file: file.mkdir()),
    "a folder": replaced(folder_with_content),
    "a link to a whole entry": linked,
    "a link to nothing": replaced(lambda file: file.symlink_to("nothing")),
    "a link to itself": replaced(lambda file: file.symlink_to(file.name)),
    "a link to a folder": replaced(lambda file: file.symlink_to(file.parent)),
    "that a group may write": lambda file: file.chmod(0o660),
    "that all may write": lambda file: file.chmod(0o606),
}
OF_ROOT: dict[str, Change] = {
    "a device": replaced(lambda file: os.mknod(file, stat.S_IFCHR | 0o600, os.makedev(1, 5))),
    "of another user": lambda file: os.chown(file, NOBODY, NOBODY),
    "of another user, a pipe": replaced(
        lambda file: (os.mkfifo(file), os.chown(file, NOBODY, NOBODY))[1]
    ),
}
if IS_ROOT:
    CHANGES |= OF_ROOT


def in_place_of_an_entry(place: Path, change: Change) -> str | None:
    """What is wrong when an entry is changed so."""
    kept = KernelCache(place)
    for key in (KEY, OTHER):
        kept.put(key, DATA)
    change(place / KEY)
    with quiet():
        found = KernelCache(place).get(KEY)
        if found is not None:
            return "it was used"
        again = KernelCache(place)
        again.put(KEY, DATA)
        if again.get(KEY) != DATA:
            return "what is put is not there"
        again.put(key_of("third"), DATA)
        other = KernelCache(place)
        if other.get(OTHER) != DATA or other.get(key_of("third")) != DATA:
            return "other entries are not kept"
        if not (place / KEY).is_dir() and other.get(KEY) != DATA:
            return "it is not kept again"
    return None


@contextmanager
def quiet() -> Iterator[None]:
    """No warning of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", JitpkgWarning)
        yield


# The folder, and those above


@dataclass(frozen=True)
class Case:
    """A folder in some state, and what a warning has to say of it; None where it is used."""

    prepare: Change
    says: str | None


def prepared(*, above: int = 0o700, own: int = 0o700) -> Change:
    def prepare(place: Path) -> None:
        place.mkdir(parents=True)
        place.chmod(own)
        place.parent.chmod(above)

    return prepare


def behind_a_link(place: Path) -> None:
    real = place.parent.parent / "real"
    real.mkdir(0o700)
    place.parent.mkdir()
    place.symlink_to(real)


def given_away(which: Callable[[Path], Path]) -> Change:
    def prepare(place: Path) -> None:
        place.mkdir(0o700, parents=True)
        os.chown(which(place), NOBODY, NOBODY)

    return prepare


def of_a_group(place: Path, group: int) -> None:
    prepared()(place)
    os.chown(place.parent, -1, group)
    place.parent.chmod(0o775)


def in_the_way(place: Path) -> None:
    place.parent.mkdir()
    place.touch()


FOLDERS = {
    "missing": Case(void, None),
    "there": Case(prepared(), None),
    "that others may read": Case(prepared(above=0o755, own=0o755), None),
    "a link to a folder": Case(behind_a_link, None),
    "below one with a sticky bit": Case(prepared(above=0o1777), None),
    "that all may write": Case(prepared(own=0o777), "others may write into"),
    "that a group may write": Case(prepared(own=0o770), "others may write into"),
    "below one that all may write": Case(prepared(above=0o777), "others may write into"),
    "a file": Case(in_the_way, "File exists|Not a directory"),
    "below a file": Case(lambda place: place.parent.touch(), "File exists|Not a directory"),
}
if IS_ROOT:
    FOLDERS |= {
        "of another user": Case(given_away(lambda place: place), "belongs to another user"),
        "below another user's": Case(given_away(lambda place: place.parent), "another user"),
        "below one of the user's group": Case(lambda p: of_a_group(p, os.getegid()), None),
        "below one of another group": Case(lambda p: of_a_group(p, NOBODY), "others may write"),
    }


def in_such_a_folder(place: Path, case: Case) -> str | None:
    """What is wrong with a cache in a folder in such a state."""
    case.prepare(place)
    kept = KernelCache(place)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in range(3):
            kept.put(key_of(k), data_of(k))
            if kept.get(key_of(k)) != data_of(k):
                return "what is put is not there"
    said = [str(w.message) for w in seen if w.category is JitpkgWarning]
    if case.says is None:
        if said:
            return f"a warning: {said[0]}"
        if KernelCache(place).get(key_of(1)) != data_of(1):
            return "nothing is kept"
        return None if kept.info().trouble is None else f"info says {kept.info().trouble}"
    if len(said) != 1 or not any(part in said[0] for part in case.says.split("|")):
        return f"warnings: {said}"
    if kept.info().trouble is None:
        return "info says nothing"
    return None


# The whole way


def scaled(x: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x * 2 + 1, -1)
    return y * x.sum(0).sigmoid()


def run() -> None:
    """Compile in a process that is new, as far as the cache knows."""
    cache.kernels.cache_clear()
    x = torch.linspace(-3, 3, 60).reshape(6, 10)
    compiled = jitpkg.compile(scaled, backend="jitpkg")
    torch.testing.assert_close(compiled(x), scaled(x))


def every_entry_so(place: Path, change: Change) -> str | None:
    """What is wrong when all that the backend has kept is changed so."""
    before = os.environ.get("JITPKG_CACHE_DIR")
    os.environ["JITPKG_CACHE_DIR"] = str(place)
    try:
        with quiet():
            run()
            files = [file for file in place.iterdir() if len(file.name) == 64]
            shutil.copy(files[0], place / OTHER)
            for file in files:
                change(file)
            run()
            run()
    except (AssertionError, Warning) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        cache.kernels.cache_clear()
        if before is None:
            del os.environ["JITPKG_CACHE_DIR"]
        else:
            os.environ["JITPKG_CACHE_DIR"] = before
    return None


def hunt(above: Path, *, whole: bool) -> list[Row]:
    """All kinds; also by the backend, if that is asked for."""
    rows = [Row("an entry is changed, or something else"), Row("the cache's folder")]
    for k, (name, change) in enumerate(CHANGES.items()):
        add(rows[0], name, in_place_of_an_entry(above / f"entry{k}" / "cache", change))
    for k, (name, case) in enumerate(FOLDERS.items()):
        (above / f"folder{k}").mkdir(parents=True)
        add(rows[1], name, in_such_a_folder(above / f"folder{k}" / "above" / "cache", case))
    if whole:
        rows.append(Row("all entries of the backend so"))
        for k, (name, change) in enumerate(CHANGES.items()):
            add(rows[2], name, every_entry_so(above / f"whole{k}" / "cache", change))
    return [row.ended() for row in rows]


def add(row: Row, name: str, wrong: str | None) -> None:
    row.tried += 1
    row.expect(f"{name}: {wrong}", wrong is None)
    row.note("right" if wrong is None else "wrong")
