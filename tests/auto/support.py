"""Programs in processes of their own, with and without jitpkg."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

HOOKED = ("-m", "jitpkg", "run")

_ALWAYS = {"JITPKG_STRICT": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Ended:
    """How a program ended, and what it printed."""

    status: int
    out: str
    err: str


def run(folder: Path, *arguments: str, **variables: str) -> Ended:
    """Run Python with these arguments."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **_ALWAYS, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def same(folder: Path, *arguments: str, options: tuple[str, ...] = ()) -> Ended:
    """How a program ends, which must be the same with and without jitpkg."""
    plain = run(folder, *options, *arguments)
    compiled = run(folder, *options, *HOOKED, *arguments)
    assert (compiled.status, compiled.out) == (plain.status, plain.out)
    assert compiled.err == plain.err
    return plain
