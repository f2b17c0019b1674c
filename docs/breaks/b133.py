import torch


def program(x):
    shapes = []

    def doubled(x):
        shapes.append(x.shape)
        return x * 2

    return torch.func.jvp(doubled, (x,), (x,)), shapes


def rewritten(x):
    return torch.func.jvp(lambda x: x * 2, (x,), (x,)), [x.shape]


def arguments():
    return (torch.ones(3),)
