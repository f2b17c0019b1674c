"""The benchmarks run, and print a row for each program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ROWS = [
    *["x + 1", "3 tensors", "20 scalars", "40 attributes", "8 entries in turn"],
    *["MLP of 10 modules", "MLP of 100 modules", "20 module classes", "transformer block"],
    *["10 modules with grad", "100 parameters"],
    *["one break", "print in a loop of 100"],
]


@pytest.mark.timeout(300)
def test_benchmarks_run() -> None:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--quick"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    calls, rest = run.stdout.split("Compiling and the first call")
    first_calls, starts = rest.split("From the start of a new process")
    assert [row for row in ROWS if f"\n{row} " not in calls] == []
    assert [row for row in ROWS if f"\n{row} " not in first_calls] == []
    starts, tracing = starts.split("Tracing a model")
    assert "\nx + 1 " in starts
    assert "\nResNet-like " in tracing
    assert "\nimport jitpkg: " in starts
