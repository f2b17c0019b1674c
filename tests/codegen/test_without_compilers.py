"""Kernels need no C or C++ compiler: a program runs where none can be found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import torch, jitpkg
from torch._inductor.cpp_builder import get_cpp_compiler

try:
    print("found", get_cpp_compiler())
except Exception as error:
    print(type(error).__name__)

def f(x, w):
    return torch.nn.functional.gelu(x @ w).softmax(-1)

x, w = torch.randn(8, 16), torch.randn(16, 16, requires_grad=True)
explained = jitpkg.explain(f, backend="jitpkg")(x, w)
torch.testing.assert_close(explained.result, f(x, w))
explained.result.square().sum().backward()
ours, w.grad = w.grad, None
f(x, w).square().sum().backward()
torch.testing.assert_close(ours, w.grad)
print(len(explained.kernels) > 0, explained.declined)
"""


@pytest.mark.parametrize("hidden", [True, False])
def test_a_program(hidden: bool, tmp_path: Path) -> None:
    names = ("CC", "CXX", "CUDA_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"PYTHONPATH": str(ROOT), "JITPKG_STRICT": "1"}
    environment["JITPKG_CACHE_DIR"] = str(tmp_path / "cache")
    if hidden:
        environment["PATH"] = str(tmp_path)
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    compiler, kernels = run.stdout.splitlines()
    assert kernels == "True []"
    if hidden:
        assert compiler == "InvalidCxxCompiler"
