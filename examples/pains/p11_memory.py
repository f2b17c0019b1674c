"""What is compiled dies with the function, and holds no tensor of a call."""

import gc
import weakref

import torch

import jitpkg


def made():
    factor = torch.ones(1000)

    def scale(x):
        return torch.tanh(x * factor)

    return scale, weakref.ref(factor)


scale, factor = made()
compiled = jitpkg.compile(scale)
x = torch.randn(1000)
given, result = weakref.ref(x), weakref.ref(compiled(x))
del x
print("the call's tensors are gone:", given() is None and result() is None)
del scale, compiled
gc.collect()
print("what the function held is gone:", factor() is None)
