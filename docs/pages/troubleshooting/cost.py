import torch

import jitpkg


@jitpkg.jit
def smoothed(x):
    y = x
    for _ in range(20):
        y = (y * 1.1).tanh().sigmoid() + y * 0.5
    if x.sum() > 0:
        return y.exp().mean()
    return y.mean()


for k in range(50):
    smoothed(torch.full((1_000,), (-1.0) ** k))
