"""Object code that one process has compiled runs in another."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from jitpkg import native
from jitpkg.codegen import cache
from jitpkg.codegen.cache.objects import object_code
from tests.codegen.cache.support import ROOT
from tests.native.support import needs_llvm, summing, vector

pytestmark = needs_llvm


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache directory of this process."""
    monkeypatch.setenv("JITPKG_CACHE_DIR", str(tmp_path))
    cache.kernels.cache_clear()
    yield tmp_path
    cache.kernels.cache_clear()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that LLVM has got."""
    texts: list[str] = []
    compile_ir = native.compile_ir
    monkeypatch.setattr(native, "compile_ir", lambda text: texts.append(text) or compile_ir(text))
    return texts


def total() -> list[float]:
    """What a kernel gives."""
    signature = native.Signature(2, 1, (vector("i0"),))
    text = native.joined(summing(2), native.entry_point("tested", signature))
    library = native.load(object_code(text))
    function = native.builtin(library, "tested", "tested", "tested(a, b, n)")
    found: list[float] = function(torch.arange(3.0), torch.ones(3), 3).tolist()
    return found


def test_a_kernel_is_compiled_once(place: Path, compiled: list[str]) -> None:
    assert total() == total() == [1, 2, 3]
    assert len(compiled) == 1
    program = """
from jitpkg import native
from tests.codegen.cache.test_kernels import total
native.compile_ir = None
print(total())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (ran.stdout, ran.returncode) == ("[1.0, 2.0, 3.0]\n", 0), ran.stderr


def test_a_kernel_that_was_cut_off_is_compiled_again(place: Path, compiled: list[str]) -> None:
    total()
    (entry,) = (file for file in place.iterdir() if file.name not in ("written", "claims"))
    entry.write_bytes(entry.read_bytes()[:-5])
    assert total() == total() == [1, 2, 3]
    assert len(compiled) == 2
