"""Who waits for whom, how long, and who does not."""

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jitpkg import interrupts
from jitpkg.codegen.cache import KernelCache, claims
from tests.codegen.cache.support import data_of, key_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

KEY = key_of(1)


@contextmanager
def a_holder(place: Path) -> Iterator[int]:
    """Another process that has a claim on the key, until it is killed."""
    told, tells = os.pipe()
    child = os.fork()
    if not child:
        with KernelCache(place).claims.claimed(KEY, lambda: None):
            os.write(tells, b"h")
            time.sleep(60)
        os._exit(1)
    os.read(told, 1)
    os.close(told)
    os.close(tells)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


class Looking:
    """What is to be found after so many looks."""

    def __init__(self, cache: KernelCache) -> None:
        self.cache = cache
        self.count = 0

    def __call__(self) -> bytes | None:
        self.count += 1
        return self.cache.get(KEY)


def waits(cache: KernelCache) -> bool:
    """Whether somebody who wants the key waits for it; what is there is looked for after that."""
    naps: list[float] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(claims.time, "sleep", naps.append)
        with cache.claims.claimed(KEY, Looking(cache)) as found:
            assert found is None
    return bool(naps)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PATIENCE", 0.05)


def test_the_first_does_not_wait_and_looks_again(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "cache")
    KernelCache(tmp_path / "cache").put(KEY, data_of(1))
    with cache.claims.claimed(KEY, Looking(cache)) as found:
        assert found == data_of(1)
    assert not waits(KernelCache(tmp_path / "other"))


def test_what_another_process_makes_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = KernelCache(tmp_path)
    with a_holder(tmp_path) as holder:

        def sleep(seconds: float) -> None:
            KernelCache(tmp_path).put(KEY, data_of(1))
            os.kill(holder, signal.SIGKILL)  # frees what it holds

        monkeypatch.setattr(claims.time, "sleep", sleep)
        with cache.claims.claimed(KEY, Looking(cache)) as found:
            assert found == data_of(1)


def test_what_waits_in_vain_waits_no_more(tmp_path: Path, impatient: None) -> None:
    cache = KernelCache(tmp_path)
    with a_holder(tmp_path):
        assert waits(cache)
        assert not waits(cache)
        assert waits(KernelCache(tmp_path))


def test_another_key_is_not_waited_for(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    with a_holder(tmp_path), cache.claims.claimed(key_of(2), Looking(cache)) as found:
        assert found is None


def test_a_claim_ends_with_the_block(tmp_path: Path) -> None:
    """Also where that raises; and nothing stays open."""
    ours = KernelCache(tmp_path)
    before = open_files()
    with pytest.raises(StopIteration), ours.claims.claimed(KEY, lambda: None):
        raise StopIteration
    with pytest.raises(ZeroDivisionError), ours.claims.claimed(KEY, lambda: 1 // 0):
        pass
    assert not waits_in_a_child(tmp_path)
    assert open_files() == before


def open_files() -> int:
    """None are told of where the system does not."""
    return len(list(Path("/proc/self/fd").glob("*")))


def waits_in_a_child(place: Path) -> bool:
    child = os.fork()
    if not child:
        claims.PATIENCE = 0.05
        os._exit(2 + waits(KernelCache(place)))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (2, 3)
    return status == 3


def test_what_has_a_claim_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do other threads, and they free nothing."""
    cache = KernelCache(tmp_path)
    found: list[bool] = []
    with a_holder(tmp_path), cache.claims.claimed(key_of(2), lambda: None):
        assert not waits(cache)
        thread = threading.Thread(target=lambda: found.append(waits(cache)))
        thread.start()
        thread.join()
    assert found == [False]
    with cache.claims.claimed(KEY, lambda: None):
        assert not waits(cache)
        assert waits_in_a_child(tmp_path)
    assert not waits_in_a_child(tmp_path)


def test_a_child_that_is_forked_meanwhile_has_no_claim(tmp_path: Path) -> None:
    cache, began, ends = KernelCache(tmp_path), threading.Event(), threading.Event()

    def holds() -> None:
        with cache.claims.claimed(key_of(2), lambda: None):
            began.set()
            ends.wait(60)

    thread = threading.Thread(target=holds)
    thread.start()
    began.wait(60)
    with a_holder(tmp_path):
        child = os.fork()
        if not child:
            cache.claims._patience = 0.05
            os._exit(2 + waits(cache))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ends.set()
    thread.join()
    assert status == 3


def test_handlers_of_signals_end_the_wait(tmp_path: Path) -> None:
    """One that waits for the compilation to end, and a KeyboardInterrupt, which does not."""
    cache, called = KernelCache(tmp_path), []
    before = signal.signal(signal.SIGALRM, lambda *_: called.append(1))
    try:
        with a_holder(tmp_path):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            began = time.monotonic()
            with interrupts_held(), cache.claims.claimed(KEY, lambda: None):
                assert time.monotonic() - began < claims.PATIENCE / 2
                assert not called
            assert called

            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt), cache.claims.claimed(KEY, lambda: None):
                pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not waits_in_a_child(tmp_path)


@contextmanager
def interrupts_held() -> Iterator[None]:
    interrupts._HELD.enter()
    try:
        yield
    finally:
        interrupts._HELD.leave()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EIO])
def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def lockf(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with a_holder(tmp_path):
        monkeypatch.setattr(claims.fcntl, "lockf", lockf)
        assert not waits(KernelCache(tmp_path))


def test_without_a_directory_nobody_waits() -> None:
    assert not waits(KernelCache(None))


def test_a_directory_of_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert not waits(KernelCache(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "open"])
def test_what_is_no_file_of_ours(tmp_path: Path, kind: str, impatient: None) -> None:
    place, target = tmp_path / "cache" / "claims", tmp_path / "target"
    place.parent.mkdir(0o700)
    match kind:
        case "link":
            place.symlink_to(target)
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case _:
            place.touch()
            place.chmod(0o666)
    with a_holder(place.parent):
        assert waits(KernelCache(place.parent))
    assert not target.exists()
    assert place.is_file()
    KernelCache(place.parent).clear()
    assert not place.exists()
