"""Two processes run one program: what the first one has compiled, the second one finds."""

import os
import subprocess
import sys
import tempfile

PROGRAM = """
import sys, torch, jitpkg
from jitpkg import events

def gelu_and_norm(x):
    x = torch.nn.functional.gelu(x)
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)

seen = []
with events.STREAM.listening(seen.append):
    jitpkg.compile(gelu_and_norm)(torch.randn(64, 256))
kernels = [event for event in seen if isinstance(event, events.KernelCompiled)]
made = sum(event.seconds > 0 for event in kernels)
theirs = "torch._dynamo" in sys.modules or "torch._inductor" in sys.modules
print(f"{len(kernels)} kernel, {made} compiled; torch's compiler is imported: {theirs}")
"""

with tempfile.TemporaryDirectory() as cache:
    for process in ("first", "second"):
        told = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "JITPKG_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
        print(f"{process} process: {told.stdout.strip()}")
