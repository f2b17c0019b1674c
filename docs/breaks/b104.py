import torch


def program(x):
    largest = round(x.max().item(), 1)
    return x / largest


def rewritten(x):
    largest = x.max().round(decimals=1)
    return x / largest


def arguments():
    return (torch.ones(3),)
