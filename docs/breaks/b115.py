import torch

import jitpkg


@jitpkg.disable(reason="it writes a file")
def logged(x):
    return x


def program(x):
    return logged(x + 1) * 2


def rewritten(x):
    return (x + 1) * 2


def arguments():
    return (torch.ones(3),)
