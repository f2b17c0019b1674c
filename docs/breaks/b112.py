import torch


def program(x):
    y = x + 1
    yield y
    yield y * 2


def rewritten(x):
    y = x + 1
    return [y, y * 2]


def arguments():
    return (torch.ones(3),)
