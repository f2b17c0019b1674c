import torch


def program(x):
    largest = x.max().item()
    return x / largest


def rewritten(x):
    largest = x.max()
    return x / largest


def arguments():
    return (torch.ones(3),)
