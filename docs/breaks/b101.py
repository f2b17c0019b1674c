import torch

import jitpkg


def program(x):
    y = x + 1
    jitpkg.graph_break()
    return y * 2


def rewritten(x):
    y = x + 1
    return y * 2


def arguments():
    return (torch.ones(3),)
