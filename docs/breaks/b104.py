import torch


def program(x):
    largest = min(x.max().item(), 10.0)
    return x / largest


def rewritten(x):
    largest = x.max().clamp(max=10.0)
    return x / largest


def arguments():
    return (torch.ones(3),)
