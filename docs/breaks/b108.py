import array

import torch


def program(x, numbers):
    return x + numbers[0]


def rewritten(x, number):
    return x + number


def arguments():
    return torch.ones(3), array.array("i", [2])


def rewritten_arguments():
    x, numbers = arguments()
    return x, numbers[0]
