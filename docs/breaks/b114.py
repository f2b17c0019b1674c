import torch


def program(x):
    y = x + 1
    if y.ndim != 2:
        raise ValueError(f"a matrix is needed, not {y.ndim} dims")
    return y


def rewritten(x):
    y = x + 1
    if y.ndim != 2:
        return ValueError(f"a matrix is needed, not {y.ndim} dims")  # for the caller to raise
    return y


def arguments():
    return (torch.ones(3),)
