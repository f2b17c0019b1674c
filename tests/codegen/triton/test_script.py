"""The program that runs one kernel alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jitpkg.codegen.triton.script import script
from tests.codegen.triton.test_ahead import POINTWISE, SOFTMAX


@pytest.mark.parametrize(
    ("source", "counts", "numbers"),
    [(POINTWISE, [1000] * 3, [1000]), (SOFTMAX, [64 * 1000] * 2, [])],
    ids=["pointwise", "softmax"],
)
def test_it_runs(source: object, counts: list, numbers: list, tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text(script(source, source.configs[0], counts, numbers), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert [line.split()[0] for line in shown] == [f"p{k}" for k in range(len(counts))]


def test_it_says_how_the_kernel_is_launched() -> None:
    text = script(SOFTMAX, SOFTMAX.configs[0], [64000, 64000])
    assert SOFTMAX.text.strip() in text
    assert "'num_warps': 4" in text
    assert "(torch.float32, 64000)," in text
    assert "'COLUMNS': 1000" in text
