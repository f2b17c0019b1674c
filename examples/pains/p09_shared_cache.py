"""Four processes fill one cache at the same time: each is right, and one of them compiles."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import torch, jitpkg
x = torch.linspace(-2, 2, 1000)
f = lambda x: torch.sigmoid(x) * x + torch.exp(-x)
assert torch.allclose(jitpkg.compile(f)(x), f(x), atol=1e-6)
print("right")
"""

with tempfile.TemporaryDirectory() as cache:
    environment = {**os.environ, "JITPKG_CACHE_DIR": cache}
    command = [sys.executable, "-c", PROGRAM]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    print("four processes:", ", ".join(each.communicate()[0].strip() for each in started))
    command = [sys.executable, "-m", "jitpkg", "cache"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    others = Path(cache).stat().st_mode & 0o022
    print("the cache can be read:", bool(told.stdout))
    print("others may write to it:", bool(others))
