"""Kernels compiled in another process, for one that interprets them, or has no threads to spare."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jitpkg.codegen.triton.jobs import Job, Outcome, job_text, outcome_of
from jitpkg.errors import BackendError

ROOT = Path(__file__).parents[3]


def compiled_elsewhere(jobs: Sequence[Job]) -> list[Outcome]:
    """Compile kernels in one other process, which takes a second or two to start.

    Raises:
        BackendError: it died, by one of the kernels or for want of memory.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    paths = [str(ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [sys.executable, "-m", "jitpkg.codegen.triton.ahead"],
        input="".join(job_text(job) + "\n" for job in jobs),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(jobs):
        said = done.stderr.strip()[-2000:]
        raise BackendError(f"The process that compiles kernels ended early: {said}")
    return [outcome_of(line) for line in lines]
