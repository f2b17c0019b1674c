import torch


def program(x):
    if torch.isnan(x).any():
        raise ValueError("not a number")
    x.clamp_(0, 1)
    return x * 2


def rewritten(x):
    if torch.isnan(x).any():
        raise ValueError("not a number")
    return x.clamp(0, 1) * 2


def arguments():
    return (torch.ones(3),)
