import torch


def program(x):
    total = 0
    for number in range(200_000):
        total += number % 3
    return x + total


def rewritten(x):
    return x + (torch.arange(200_000) % 3).sum()


def arguments():
    return (torch.ones(3),)
