import torch


def program(x, cache):
    y = x + 1
    cache[id(y)] = 1
    return y * len(cache)


def rewritten(x, cache):
    y = x + 1
    cache["y"] = 1
    return y * len(cache)


def arguments():
    return torch.ones(3), {}
