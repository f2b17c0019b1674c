import torch

import jitpkg


@jitpkg.jit
def smoothed(x):
    for _ in range(20):
        x = (x * 1.1).tanh().sigmoid() + x * 0.5
    if x.sum() > 0:
        return x.exp().mean()
    return x.mean()


for _ in range(50):
    smoothed(torch.ones(1_000))
