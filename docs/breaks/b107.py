import zlib

import torch


def program(x, name):
    return x + zlib.crc32(name) % 7


def rewritten(x, number):
    return x + number % 7


def arguments():
    return torch.ones(3), b"weights"


def rewritten_arguments():
    x, name = arguments()
    return x, zlib.crc32(name)
