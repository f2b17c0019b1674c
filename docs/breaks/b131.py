import torch
from torch.utils.checkpoint import checkpoint

NORM = torch.nn.BatchNorm1d(3)


def program(x):
    return checkpoint(NORM, x * 2, use_reentrant=False) + 1


def normed(x):
    mean, variance = x.mean(0), x.var(0, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt()


def rewritten(x):
    return checkpoint(normed, x * 2, use_reentrant=False) + 1


def arguments():
    torch.manual_seed(0)
    return (torch.randn(4, 3).requires_grad_(),)
