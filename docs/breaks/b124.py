import torch


def program(x, names):
    return x * len(names.pop())


def rewritten(x, names):
    name = sorted(names)[0]
    names.remove(name)
    return x * len(name)


def arguments():
    return torch.ones(3), {"up", "to"}
