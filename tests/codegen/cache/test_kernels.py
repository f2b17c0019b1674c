"""Object code that one process has compiled runs in another."""

import os
import subprocess
import sys
from pathlib import Path

from tests.codegen.cache.support import ROOT
from tests.native.support import needs_llvm

PROGRAM = """
import torch
from jitpkg import native
from jitpkg.codegen.cache import kernel_key, kernels
from tests.native.support import summing, vector

signature = native.Signature(2, 1, (vector("i0"),))
text = native.joined(summing(2), native.entry_point("tested", signature))
key = kernel_key(text, native.target())
code = kernels().get(key)
print("absent" if code is None else "there", key)
if code is None:
    code = native.compile_ir(text)
    kernels().put(key, code)
function = native.builtin(native.load(code), "tested", "tested", "tested(a, b, n)")
print(function(torch.arange(3.0), torch.ones(3), 3).tolist())
"""


@needs_llvm
def test_a_kernel_is_compiled_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}" + os.pathsep.join(sys.path)}
    environment["JITPKG_CACHE_DIR"] = str(tmp_path)
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout.split()
        for _ in range(2)
    ]
    (key,) = {name for file in tmp_path.iterdir() if (name := file.name) != "written"}
    assert runs == [[found, key, "[1.0,", "2.0,", "3.0]"] for found in ("absent", "there")]
