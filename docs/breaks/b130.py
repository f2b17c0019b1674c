import torch

LOG = []


class Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        LOG.append("backward")
        return grad * 2


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def program(x):
    return torch.relu(Counted.apply(x)) + 1


def rewritten(x):
    return torch.relu(Doubled.apply(x)) + 1


def arguments():
    return (torch.ones(3, requires_grad=True),)
