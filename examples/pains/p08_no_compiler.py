"""Nothing is on the path, no C++ compiler either, and kernels are compiled all the same."""

import os
import subprocess
import sys
import tempfile

PROGRAM = """
import shutil, torch, jitpkg
from jitpkg import events

f = lambda x: torch.tanh(x * 2) + x
x, seen = torch.randn(100, 100), []
with events.STREAM.listening(seen.append):
    right = torch.allclose(jitpkg.compile(f)(x), f(x), atol=1e-6)
kernels = sum(isinstance(event, events.KernelCompiled) for event in seen)
print("compilers found:", list(filter(shutil.which, ("cc", "gcc", "g++", "clang", "cl"))))
print("kernels compiled:", kernels, "and right:", right)
"""

with tempfile.TemporaryDirectory() as cache:
    environment = {**os.environ, "PATH": "", "CC": "", "CXX": "", "JITPKG_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
