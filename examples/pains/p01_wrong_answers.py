"""A function reads a global, attributes and a list, writes to an argument; all of them change."""

import torch

import jitpkg

SCALE = 2.0


class Layer:
    def __init__(self):
        self.training = True
        self.calls = []

    def __call__(self, x):
        self.calls.append(len(self.calls))
        x[0] = SCALE
        if self.training and len(self.calls) % 2:
            return x * len(self.calls)
        return x.view(-1) - 1


def run(call):
    global SCALE
    layer, results = Layer(), []
    for k in range(6):
        SCALE, layer.training = float(k), k != 4
        x = torch.arange(6.0).view(2 + k % 2, -1)
        results += [call(layer, x), x]
    return [r.tolist() for r in results], layer.calls


compiled = jitpkg.compile(Layer.__call__)
print("the same results, writes and lists:", run(compiled) == run(Layer.__call__))
