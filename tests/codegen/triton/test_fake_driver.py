"""Launching with Triton's own objects and real binaries, up to the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": str(ROOT), "JITPKG_DEBUG": ""}
    done = subprocess.run(
        [sys.executable, "-m", "tests.codegen.triton.fake_driver"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_arguments_are_what_triton_s_launcher_takes(said: dict[str, Any]) -> None:
    first, second, third = said["launched"]
    pointers = ["*fp32", "*fp32"]
    assert first == {
        "grid": [4, 1, 1],
        "warps": 4,
        "signature": [*pointers, "constexpr"],
        "numbers": [256],
        "aligned": ["0", "1"],
    }
    assert second == {**first, "aligned": []}
    assert third["signature"] == ["*fp16", "*fp16", "i32", "i32", "constexpr", "constexpr"]
    assert third["numbers"] == [5, 48, 2, 64]
    assert third["aligned"] == ["0", "1", "3"]


def test_a_graph_of_tensors_on_a_gpu_is_compiled(said: dict[str, Any]) -> None:
    """Of a long sum come two kernels."""
    assert said["calls"] == ["t", "mm"]
    assert len(said["kernels"]) >= 2
    assert len(said["loaded"]) >= len(said["kernels"]) + 1
