"""An exception in compiled code has the traceback that Python would give."""

import traceback

import torch

import jitpkg


def inner(x, k):
    return x[k] * 2  # line 11


def outer(x, k):
    x = torch.sin(x)
    return inner(x, k) + 1  # line 16


def lines(function):
    try:
        function(torch.ones(3), 7)
    except IndexError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [(frame.name, frame.lineno) for frame in frames], str(error)


eager = lines(outer)
compiled = jitpkg.compile(outer)
compiled(torch.ones(3), 1)
own = [frame for frame in lines(compiled)[0] if frame in eager[0]]
print("the frames of the program, in order:", own == eager[0])
print(*(f"{name}: line {line}" for name, line in own[1:]), sep="\n")
print("the same message:", lines(compiled)[1] == eager[1])
