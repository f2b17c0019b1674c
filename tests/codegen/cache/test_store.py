"""What is put is got, by all processes, within the bound; and what may be trusted."""

import os
import stat
import threading
import time
import warnings
from pathlib import Path

import pytest

from jitpkg.codegen import cache as package
from jitpkg.codegen.cache import KernelCache, folder, kernel_key
from jitpkg.errors import InvalidArgument, JitpkgWarning
from tests.codegen.cache.support import data_of, key_of, output_of, own_files


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "below" / "kernels"


@pytest.fixture
def cache(place: Path) -> KernelCache:
    return KernelCache(place)


def test_what_is_put_is_got(cache: KernelCache, place: Path) -> None:
    assert cache.get(key_of(1)) is None
    for data in (data_of(1), b"", bytes(1 << 20)):
        cache.put(key_of(1), data)
        assert cache.get(key_of(1)) == data
        assert KernelCache(place).get(key_of(1)) == data
    assert cache.get(key_of(2)) is None


def test_another_process_finds_it(cache: KernelCache, place: Path) -> None:
    for k in range(5):
        cache.put(key_of(k), data_of(k))
    program = "print([cache.get(key_of(k)) == data_of(k) for k in range(6)])"
    assert output_of(program, place) == "[True, True, True, True, True, False]\n"


def test_reading_makes_no_directory(cache: KernelCache, place: Path) -> None:
    cache.get(key_of(1))
    assert cache.info().files == 0
    assert cache.clear() == 0
    assert not place.parent.exists()


def test_only_the_user_may_read_and_write(cache: KernelCache, place: Path) -> None:
    before = os.umask(0)
    try:
        cache.put(key_of(1), b"data")
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o600}


@pytest.mark.parametrize("key", ["", "../../x", "A" * 64, "0" * 63, "0" * 64 + "\n", "written"])
def test_a_key_is_a_hash(cache: KernelCache, key: str) -> None:
    with pytest.raises(InvalidArgument, match="A key is a sha256 in hexadecimal, not "):
        cache.get(key)
    with pytest.raises(InvalidArgument):
        cache.put(key, b"data")


def test_a_key_depends_on_text_target_version_and_format(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [kernel_key("text", "target"), kernel_key("text", "targe"), kernel_key("texttarget", "")]
    monkeypatch.setattr(package, "_version", lambda: "another")
    keys.append(kernel_key("text", "target"))
    monkeypatch.setattr(package, "FORMAT", "another")
    keys.append(kernel_key("text", "target"))
    assert len(set(keys)) == 5
    assert all(folder.KEY.fullmatch(key) for key in keys)
    assert kernel_key("text", "target") == keys[-1]


def test_a_key_depends_on_the_source_of_what_is_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "native").mkdir()
    source = tmp_path / "native" / "llvm.py"
    monkeypatch.setattr(package, "__file__", str(tmp_path / "codegen" / "cache" / "__init__.py"))
    found: list[str] = []
    for release, text in [("0.1", ""), ("0.1", "x"), ("0.2.dev0", ""), ("0.2.dev0", "x")]:
        monkeypatch.setattr(package, "version", lambda name, now=release: now)
        source.write_text(text)
        found.append(package._version.__wrapped__())
    assert found[:2] == ["0.1", "0.1"]
    assert len(set(found[2:])) == 2


def test_a_cache_may_be_deleted_while_it_is_used(cache: KernelCache, place: Path) -> None:
    cache.put(key_of(1), b"data")
    for file in place.iterdir():
        file.unlink()
    place.rmdir()
    assert cache.get(key_of(1)) is None
    cache.put(key_of(1), b"again")
    assert KernelCache(place).get(key_of(1)) == b"again"


def test_threads_share_one(cache: KernelCache) -> None:
    wrong: list[int] = []

    def work(first: int) -> None:
        for k in range(first, first + 30):
            cache.put(key_of(k % 40), data_of(k % 40))
            if cache.get(key_of(k % 40)) != data_of(k % 40):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(n * 7,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# The bound

KILOBYTES = 8 * 12  # twelve entries of two blocks


def bounded(place: Path) -> KernelCache:
    return KernelCache(place, limit=KILOBYTES << 10)


def age(place: Path, k: int, hours: float) -> None:
    then = time.time() - 3600 * hours
    os.utime(place / key_of(k), (then, then))


def test_it_stays_within_its_bound(place: Path) -> None:
    cache = bounded(place)
    for k in range(60):
        cache.put(key_of(k), bytes(5000))
        assert cache.info().bytes <= KILOBYTES << 10
    assert cache.info().files >= 8


def test_it_stays_within_its_bound_over_many_processes(place: Path) -> None:
    """Each has written less than would make it clean up; together they know."""
    for k in range(60):
        bounded(place).put(key_of(k), bytes(5000))
    assert bounded(place).info().bytes <= KILOBYTES << 10


def of_triton(place: Path, name: str, hours: float) -> Path:
    """A kernel's folder, as Triton makes it: 8 KiB on disk."""
    made = place / "triton" / name
    made.mkdir(0o700, parents=True)
    for file in ("add.cubin", "add.ptx"):
        (made / file).write_bytes(bytes(3000))
    then = time.time() - 3600 * hours
    os.utime(made, (then, then))
    return made


def test_what_triton_keeps_counts(place: Path) -> None:
    cache = bounded(place)
    cache.put(key_of(1), bytes(5000))
    assert (cache.info().files, cache.info().bytes) == (1, 8 << 10)
    of_triton(place, "A", hours=10)
    found = cache.info()
    assert (found.files, found.bytes) == (2, 16 << 10)
    assert found.oldest != found.newest
    assert cache.clear() == 2
    assert cache.info().files == 0
    assert list(place.iterdir()) == []


def test_what_triton_keeps_goes_as_all_else_does(place: Path) -> None:
    cache = bounded(place)
    cache.put(key_of(1), bytes(5000))
    age(place, 1, hours=20)
    made = [of_triton(place, f"K{k:02}", hours=19 - k / 2) for k in range(14)]
    cache.note(14 * (8 << 10))
    assert cache.get(key_of(1)) is None
    there = [folder.exists() for folder in made]
    assert there == sorted(there)
    assert 8 <= sum(there) < 12
    assert cache.info().bytes <= KILOBYTES << 10


def test_what_is_not_used_goes_first(place: Path) -> None:
    cache = bounded(place)
    for k in range(8):
        cache.put(key_of(k), bytes(5000))
        age(place, k, hours=20 - k)
    assert cache.get(key_of(0)) is not None  # which is a use
    for k in range(8, 14):
        cache.put(key_of(k), bytes(5000))
        age(place, k, hours=0.5)
    there = {k for k in range(14) if (place / key_of(k)).exists()}
    assert {0, 12, 13} <= there
    assert not {1, 2} & there


def test_a_use_is_noted_once_an_hour(cache: KernelCache, place: Path) -> None:
    cache.put(key_of(1), b"data")
    age(place, 1, hours=0.9)
    before = (place / key_of(1)).stat().st_mtime
    cache.get(key_of(1))
    assert (place / key_of(1)).stat().st_mtime == before
    age(place, 1, hours=1.1)
    cache.get(key_of(1))
    assert (place / key_of(1)).stat().st_mtime > time.time() - 60


def test_the_directory_is_not_read_at_each_put(
    cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[int] = []
    monkeypatch.setattr(folder, "_files", lambda at: scans.append(at) or iter(()))
    for k in range(50):
        cache.put(key_of(k), data_of(k))
    assert not scans


def test_what_is_too_large_stays_in_memory(place: Path) -> None:
    cache = bounded(place)
    cache.put(key_of(1), bytes(KILOBYTES << 10))
    assert cache.get(key_of(1)) == bytes(KILOBYTES << 10)
    assert not place.exists()


# Clearing


def test_clearing_removes_what_it_wrote_and_nothing_else(cache: KernelCache, place: Path) -> None:
    for k in range(3):
        cache.put(key_of(k), b"data")
    (place / ".0123456789abcdef.tmp").touch()
    mine = {"thesis.tex", "0" * 63, ".x.tmp", "A" * 64}
    for name in mine:
        (place / name).touch()
    assert cache.clear() == 3
    assert own_files(place) == mine
    assert cache.get(key_of(0)) is None


def test_another_process_clears_at_the_same_time(
    cache: KernelCache, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may remove what this one is about to remove, and what this one is writing."""
    cache.put(key_of(1), b"data")
    files, rename = folder._files, os.rename
    gone = folder.Entry(0.0, 4096, key_of(2))
    monkeypatch.setattr(folder, "_files", lambda at: iter([gone, *files(at)]))

    def clears_before(*names: str, **where: int) -> None:
        KernelCache(place).clear()
        rename(*names, **where)

    monkeypatch.setattr(os, "rename", clears_before)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(key_of(3), b"data")
    assert cache.get(key_of(3)) == b"data"
    assert own_files(place) == set()
    monkeypatch.setattr(os, "rename", rename)
    cache.put(key_of(4), b"data")
    assert KernelCache(place).get(key_of(4)) == b"data"


# Whom it trusts


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702], ids=oct)
def test_a_directory_that_others_may_write_is_refused(place: Path, mode: int) -> None:
    KernelCache(place).put(key_of(1), b"planted")
    place.chmod(mode)
    cache = KernelCache(place)
    with pytest.warns(JitpkgWarning, match="others may write into .* (its mode is|is) 0?") as seen:
        assert cache.get(key_of(1)) is None
    assert f"(its mode is {mode:04o})" in str(seen[0].message)
    assert "JITPKG_CACHE_DIR can name another directory" in str(seen[0].message)
    assert_quiet_in_memory(cache)
    assert own_files(place) == {key_of(1), "written"}


def test_another_user_s_directory_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KernelCache(place).put(key_of(1), b"planted")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    cache = KernelCache(place)
    with pytest.warns(JitpkgWarning, match=rf"belongs to another user \({me}\)"):
        cache.put(key_of(1), b"mine")
    assert cache.get(key_of(1)) == b"mine"
    assert_quiet_in_memory(cache)
    assert "belongs to another user" in (cache.info().trouble or "")
    with pytest.raises(OSError, match="belongs to another user"):
        cache.clear()


def assert_quiet_in_memory(cache: KernelCache) -> None:
    """Later use works, without a second warning: one would be an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get(key_of(7)) is None
        cache.put(key_of(7), b"data")
        assert cache.get(key_of(7)) == b"data"


# Where it is


def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder.place({"JITPKG_CACHE_DIR": "/somewhere"}) == Path("/somewhere")
    assert folder.place({"JITPKG_CACHE_DIR": "here"}) == tmp_path / "here"
    assert folder.place({"JITPKG_CACHE_DIR": "off"}) is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = folder.place({"JITPKG_CACHE_DIR": ""})
    assert found is not None
    assert (found.name, found.is_absolute()) == ("jitpkg", True)


def test_without_a_directory_all_is_in_memory() -> None:
    cache = KernelCache(None)
    assert_quiet_in_memory(cache)
    assert cache.info().directory is None
    assert "JITPKG_CACHE_DIR=off" in (cache.info().trouble or "")
    assert cache.clear() == 0
    assert cache.get(key_of(7)) is None
