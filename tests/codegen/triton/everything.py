"""Compiles every Triton kernel that tests and benchmarks print, for two GPUs; none may spill.

    python -m tests.codegen.triton.everything                 all of them: half an hour on two cores
    python -m tests.codegen.triton.everything --only tests    those of tests, or of benchmarks
    python -m tests.codegen.triton.everything --jobs FOLDER   those that are in a folder already

Prints what each takes of a GPU. Needs none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from jitpkg.codegen.triton.elsewhere import compiled_elsewhere
from jitpkg.codegen.triton.jobs import Job, Outcome, job_of

ROOT = Path(__file__).parents[3]

AT_ONCE = 100
"""Kernels that one process compiles, so that what has been done is seen."""


def collected(only: str | None, folder: Path) -> int:
    """Let tests and benchmarks print their kernels; how many of the programs failed."""
    plugin = ["-p", "tests.codegen.triton.collecting", f"--triton-jobs={folder}"]
    commands = {
        "tests": [sys.executable, "-m", "pytest", "-q", *plugin, "tests/codegen"],
        "benchmarks": [sys.executable, "benchmarks/run.py", "ahead", f"--jobs={folder}"],
    }
    failed = 0
    for name, command in commands.items():
        if only in (None, name):
            print(f"$ {' '.join(command)}", flush=True)
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            failed += bool(
                subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
            )
    return failed


def compiled(jobs: Sequence[Job]) -> list[tuple[Job, Outcome]]:
    done: list[tuple[Job, Outcome]] = []
    began = time.monotonic()
    for k in range(0, len(jobs), AT_ONCE):
        some = jobs[k : k + AT_ONCE]
        done += zip(some, compiled_elsewhere(some), strict=True)
        print(f"{len(done)} of {len(jobs)} in {time.monotonic() - began:.0f} s", flush=True)
    return done


def report(done: Sequence[tuple[Job, Outcome]]) -> list[str]:
    """A line for each kernel, those that take most registers last; returns what is wrong."""
    print(
        f"\n{'kernel':44}{'for':>6}{'warps':>6}{'registers':>10}{'shared':>8}{'spilled':>8}{'s':>7}"
    )
    wrong = []

    def order(each: tuple[Job, Outcome]) -> tuple[int, int]:
        found = each[1].resources
        return (found.spilled, found.registers) if found is not None else (1 << 30, 0)

    for job, outcome in sorted(done, key=order):
        title = f"{job.source.name[:43]:44}{f'sm_{job.target.architecture}':>6}"
        found = outcome.resources
        if found is None:
            wrong.append(f"{title}: {outcome.error}")
            print(f"{title}  cannot be compiled")
            continue
        print(
            f"{title}{job.config.warps:6}{found.registers:10}{found.shared:8}{found.spilled:8}"
            f"{outcome.seconds:7.2f}"
        )
        if found.spilled:
            wrong.append(f"{title}: {found}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="ahead", description="Compile all Triton kernels.")
    parser.add_argument("--only", choices=["tests", "benchmarks"])
    parser.add_argument("--jobs", type=Path, help="a folder of kernels, or for them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jitpkg-ahead-") as made:
        # Not the user's own cache, which so many kernels would fill.
        os.environ.setdefault("JITPKG_CACHE_DIR", f"{made}/cache")
        folder = arguments.jobs or Path(made, "jobs")
        has_some = folder.is_dir() and any(folder.glob("*.json"))
        failed = 0 if has_some else collected(arguments.only, folder)
        files = sorted(folder.glob("*.json"))
        done = compiled([job_of(file.read_text(encoding="utf-8")) for file in files])
    wrong = report(done)
    print(f"\n{len(done)} kernels; {len(wrong)} spill, or cannot be compiled")
    print("\n".join(wrong))
    if failed:
        print(f"{failed} of the programs that print kernels failed; see above")
    sys.exit(bool(wrong or failed or not done))


if __name__ == "__main__":
    main()
