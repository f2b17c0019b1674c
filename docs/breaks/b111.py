import torch


def program(weight, x):
    loss = (weight * x).sum()
    loss.retain_grad()
    return loss * 2


def rewritten(weight, x):
    loss = (weight * x).sum()
    return loss * 2


def arguments():
    return torch.ones(3, requires_grad=True), torch.ones(3)
