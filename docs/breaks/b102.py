import torch

SETTINGS = {"disturb": "break"}


def program(x):
    y = x + 1
    return y * 2


def rewritten(x):  # without the setting
    y = x + 1
    return y * 2


def arguments():
    return (torch.ones(3),)
