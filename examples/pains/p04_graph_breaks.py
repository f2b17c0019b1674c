"""Where does a graph break, why, and what to do about it?"""

import torch

import jitpkg


def clipped(x, limit):
    norm = x.norm()
    if norm > limit:
        print("clipped")
        x = x * (limit / norm)
    return x + 1


explanation = jitpkg.explain(clipped)(torch.ones(4), 1.0)
for found in explanation.break_reasons:
    print(f"line {found.where.line}: {found.title()}")
    print(f"    what to do: {found.reason.fix}")
