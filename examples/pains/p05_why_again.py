"""Why was it compiled again? Each entry that did not fit says so, in one sentence."""

import torch

import jitpkg

jitpkg.set_logs("recompiles")


class Config:
    def __init__(self):
        self.depth = 2


@jitpkg.jit
def layers(x, config):
    for _ in range(config.depth):
        x = torch.tanh(x)
    return x


config = Config()
layers(torch.ones(3), config)
layers(torch.ones(3, dtype=torch.float64), config)
config.depth = 3
layers(torch.ones(3), config)
