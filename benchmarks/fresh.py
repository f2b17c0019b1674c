"""New processes: what one uses until its first result, with all that it starts."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
SECONDS_TO_END = 10.0
"""How long what a process has started may take to end after it."""


@dataclass(frozen=True)
class FirstCall:
    """From the call to the first result."""

    cpu_seconds: float
    """Of the process and of all below it."""
    megabytes: float
    """Peak memory of the process and of all below it, all that they have imported included; what
    several share counts once. It is looked at 50 times a second."""


def adopt_orphans() -> None:
    """Processes whose parent has ended become children of this one, so their time can be read."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def first_call(title: str, compiler: str, caches: Path) -> FirstCall:
    """Let a new process compile a program of first_call.py and call it, with caches in a folder.

    Raises:
        RuntimeError: it fails.
    """
    command = [sys.executable, str(Path(__file__).with_name("first_call.py")), title, compiler]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=errors,
            env=_environment(caches),
            start_new_session=True,
        )
        with peak_memory(process.pid) as peak:
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime + _reaped(process.pid)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(_last_line(errors.read().decode()) or f"status {status}")
        found = json.loads(output.read().splitlines()[-1])
    return FirstCall(seconds - found["before"], peak.megabytes)


class Peak:
    """The most memory that a process and all below it have had."""

    def __init__(self, pid: int) -> None:
        self.megabytes = 0.0
        self._pid = pid
        self._ended = threading.Event()

    def watch(self) -> None:
        while not self._ended.wait(0.02):
            self.megabytes = max(self.megabytes, sum(map(_megabytes, _tree(self._pid))))

    def end(self) -> None:
        self._ended.set()


@contextlib.contextmanager
def peak_memory(pid: int) -> Iterator[Peak]:
    """Watch a process inside of the `with` block."""
    peak = Peak(pid)
    thread = threading.Thread(target=peak.watch)
    thread.start()
    try:
        yield peak
    finally:
        peak.end()
        thread.join()


def _tree(root: int) -> list[int]:
    """A process, and all that it and they have started."""
    below: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            below.setdefault(int(parent), []).append(int(folder.name))
    found = [root]
    for pid in found:
        found.extend(below.get(pid, ()))
    return found


def _megabytes(pid: int) -> float:
    """Of a process; of pages that it shares with others its part."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith("Pss:"))
        return int(kilobytes) / 1000
    return 0.0


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else ""


def _environment(caches: Path) -> dict[str, str]:
    """Modules are compiled once, as users have it; the caches lie in one folder."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    folders = {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "JITPKG_CACHE_DIR": "jitpkg",
    }
    places = {name: str(caches / folder) for name, folder in folders.items()}
    return kept | places | {"JITPKG_STRICT": "1"}


def _reaped(session: int) -> float:
    """CPU seconds of what a process has left behind, which is ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    seconds, latest = 0.0, time.monotonic() + SECONDS_TO_END
    while time.monotonic() < latest:
        try:
            pid, _, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            seconds += used.ru_utime + used.ru_stime
        else:
            time.sleep(0.01)
    return seconds


@contextlib.contextmanager
def caches() -> Iterator[Path]:
    """An empty folder for a while."""
    folder = Path(tempfile.mkdtemp(prefix="caches-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
