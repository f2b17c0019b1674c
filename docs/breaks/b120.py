import torch


def program(x, y):
    try:
        x.add_(1)
        return x @ y
    except RuntimeError:
        return x


def rewritten(x, y):
    changed = x + 1
    try:
        result = changed @ y
    except RuntimeError:
        result = changed
    x.copy_(changed)
    return result


def arguments():
    return torch.ones(3), torch.ones(3)
