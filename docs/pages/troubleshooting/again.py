import torch

import jitpkg


@jitpkg.jit
def scores(x, mask, how):
    x = x.masked_fill(~mask, float("-inf"))
    return x.softmax(-1) if how == "soft" else x.log_softmax(-1)


for length in (16, 17, 18):
    scores(torch.ones(length), torch.ones(length, dtype=torch.bool), "soft")
scores(torch.ones(18), torch.ones(18, dtype=torch.bool), "log")
scores(torch.ones(18, dtype=torch.float64), torch.ones(18, dtype=torch.bool), "log")
scores(torch.ones(2, 18), torch.ones(18, dtype=torch.bool), "log")
