"""What a call costs beside its graph: all guards are tested, in some tenths of a microsecond."""

import time

import torch

import jitpkg


def add(x):
    return x + 1


def seconds(call, x):
    began = time.thread_time()
    for _ in range(1000):
        call(x)
    return (time.thread_time() - began) / 1000


x = torch.ones(8)
compiled = jitpkg.compile(add, backend="eager")
for _ in range(100):
    compiled(x)
rounds = [(seconds(add, x), seconds(compiled, x)) for _ in range(50)]
added = min(after for _, after in rounds) - min(before for before, _ in rounds)
print("guards and dispatch cost less than 2 microseconds:", added < 2e-6)
