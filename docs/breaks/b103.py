import torch


def program(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def rewritten(x):
    return torch.where(x.sum() > 0, x + 1, x - 1)


def arguments():
    return (torch.ones(3),)
