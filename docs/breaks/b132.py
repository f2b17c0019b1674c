import torch


def program(weight, hidden):
    loss = (weight * hidden).sum()
    loss.backward()
    return loss.detach()


def rewritten(weight, x):
    loss = (weight * x.exp()).sum()
    loss.backward()
    return loss.detach()


def arguments():
    return torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True).exp()


def rewritten_arguments():
    return torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
