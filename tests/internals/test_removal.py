"""As if PyTorch lacked one private name after the other: programs do what they do in eager code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jitpkg.internals.table import ROWS
from tests.internals.needs import NEEDS

ROOT = Path(__file__).parents[2]
PARTS = 4


def test_every_row_has_a_program() -> None:
    assert {row.name for row in ROWS} - {row.name for row in NEEDS} == set()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_without_a_row_only_what_needs_it_is_lost(part: int) -> None:
    """No exception, the same results, and somebody is told."""
    names = sorted({row.name for row in NEEDS})[part::PARTS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.internals.removing", *names],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JITPKG_STRICT": "1",
            "JITPKG_BACKEND": "jitpkg",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["row"] for each in told} == set(names)
    assert [each for each in told if each["wrong"]] == []
