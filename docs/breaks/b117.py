import torch


def deeper(x, depth):
    return x if depth == 0 else deeper(x + 1, depth - 1)


def program(x):
    return deeper(x, 200)


def rewritten(x):
    for _ in range(200):
        x = x + 1
    return x


def arguments():
    return (torch.ones(3),)
