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
    """Peak memory of the process, all that it has imported included."""


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
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime + _reaped(process.pid)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(_last_line(errors.read().decode()) or f"status {status}")
        found = json.loads(output.read().splitlines()[-1])
    return FirstCall(seconds - found["before"], found["megabytes"])


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
