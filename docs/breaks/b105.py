import torch


def program(x):
    return x[x > 0].sum()


def rewritten(x):
    return torch.where(x > 0, x, 0).sum()


def arguments():
    return (torch.ones(3),)
