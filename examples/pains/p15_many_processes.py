"""Compiled before a fork, called in its children, and compiled in them."""

import multiprocessing

import torch

import jitpkg


@jitpkg.jit
def before(x):
    return torch.tanh(x) + 1


def work(k):
    x = torch.full((3,), float(k))
    after = jitpkg.compile(lambda x: torch.exp(-x) * 2)
    close = torch.allclose
    return close(before(x), x.tanh() + 1) and close(after(x), torch.exp(-x) * 2, atol=1e-6)


if __name__ == "__main__":
    before(torch.zeros(3))
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print("16 tasks in 4 children are right:", all(pool.map(work, range(16), chunksize=1)))
