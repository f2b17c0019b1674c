import torch

import jitpkg


@jitpkg.jit
def normalised(x):
    mean = x.mean()
    print("mean", mean.item())
    return (x - mean) / x.std()


normalised(torch.arange(4.0))
