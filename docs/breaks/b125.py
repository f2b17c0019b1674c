import collections

import torch


class Recent(collections.deque):
    pass


def program(x):
    recent = Recent([1, 2, 3], maxlen=2)
    return x * recent[0]


def rewritten(x):
    recent = collections.deque([1, 2, 3], maxlen=2)
    return x * recent[0]


def arguments():
    return (torch.ones(3),)
