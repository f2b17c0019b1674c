"""Eight threads call a function that is not compiled yet: it is compiled once, all are right."""

from concurrent.futures import ThreadPoolExecutor

import torch

import jitpkg
from jitpkg import events


@jitpkg.jit
def layer(x):
    return torch.tanh(x) * 2 + 1


x = torch.randn(1000)
expected = torch.tanh(x) * 2 + 1
seen = []
with events.STREAM.listening(seen.append), ThreadPoolExecutor(8) as pool:
    results = list(pool.map(lambda _: layer(x), range(64)))
print("64 calls are right:", all(torch.allclose(r, expected, atol=1e-6) for r in results))
print("graphs compiled:", sum(isinstance(event, events.GraphCompiled) for event in seen))
