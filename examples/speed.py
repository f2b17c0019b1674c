"""How long first and later calls take: eager, torch.compile and jitpkg.

Each program is compiled with empty caches, as on a machine that has never run it, by jitpkg first
and by torch.compile then; all three then take turns, and the median of their times is shown. All
results are compared with eager's, and the script exits with 1 if one differs.

    python examples/speed.py            two minutes, most of which torch.compile takes to compile
    python examples/speed.py --quick    a few seconds: smaller, and without torch.compile

torch.compile needs a C++ compiler; without one its columns stay empty.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import jitpkg

Program = Callable[[Tensor], Tensor]

WIDTH = 512


# The programs


def activation(x: Tensor) -> Tensor:
    """Gelu as BERT's authors wrote it, and a gate."""
    gelu = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))
    return gelu * torch.sigmoid(x) + x


def normalisation(x: Tensor) -> Tensor:
    return functional.softmax(functional.layer_norm(x, x.shape[-1:]) * 4, -1)


def loss(x: Tensor) -> Tensor:
    """Cross entropy with smooth labels."""
    labels = torch.arange(x.shape[0]) % x.shape[1]
    return functional.cross_entropy(x, labels, label_smoothing=0.1)


class Block(nn.Module):
    """Attention, then a perceptron, each after a normalisation and added to what came in."""

    def __init__(self, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))

    def attend(self, x: Tensor) -> Tensor:
        x = x.view(-1, 64, WIDTH)
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.project(mixed.transpose(1, 2).reshape(batch * tokens, width))


def trained(block: nn.Module) -> Program:
    """A step: loss and gradients."""

    def step(x: Tensor) -> Tensor:
        value: Tensor = block(x).square().mean()
        value.backward()
        return value.detach()

    return step


# Measuring


@dataclass
class Contestant:
    name: str
    compile: Callable[[Any], Any]
    first: float = float("nan")
    """Seconds of the first call, compiling included."""
    steady: float = float("nan")
    """Median of the seconds of later calls."""


def contestants(with_torch: bool) -> list[Contestant]:
    made = [Contestant("eager", lambda program: program), Contestant("jitpkg", jitpkg.compile)]
    if with_torch:
        made.append(Contestant("torch.compile", torch.compile))
    return made


def measure(make: Callable[[Contestant], Program], x: Tensor, all_: list[Contestant]) -> bool:
    """Fill in the times of all contestants; whether their results agree."""
    results, programs = [], []
    for contestant in all_:
        program = make(contestant)
        began = time.perf_counter()
        results.append(program(x))
        contestant.first = time.perf_counter() - began
        programs.append(program)
    seconds: list[list[float]] = [[] for _ in all_]
    ends = time.perf_counter() + 2
    while len(seconds[0]) < 5 or (time.perf_counter() < ends and len(seconds[0]) < 200):
        for k, program in enumerate(programs):
            began = time.perf_counter()
            program(x)
            seconds[k].append(time.perf_counter() - began)
    for contestant, taken in zip(all_, seconds, strict=True):
        contestant.steady = statistics.median(taken)
    return all(torch.allclose(results[0], other, rtol=1e-4, atol=1e-5) for other in results)


def functions() -> dict[str, Callable[[Contestant], Program]]:
    """For each title what makes a contestant's program."""
    torch.manual_seed(0)
    state = Block().state_dict()

    def block() -> Block:
        made = Block()
        made.load_state_dict(state)
        return made

    def inference(contestant: Contestant) -> Program:
        return torch.no_grad()(contestant.compile(block().eval()))

    return {
        "gelu and gate": lambda c: c.compile(activation),
        "layer norm, softmax": lambda c: c.compile(normalisation),
        "smooth cross entropy": lambda c: c.compile(loss),
        "transformer block": inference,
        "… with gradients": lambda c: trained(c.compile(block())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="First and later calls, compiled and not.")
    parser.add_argument("--quick", action="store_true", help="small, without torch.compile")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    with_torch = not quick and any(map(shutil.which, ("c++", "g++", "clang++")))
    x = torch.randn(64 if quick else 512, WIDTH)
    print(f"\nTensors of {x.shape[0]} x {WIDTH}, float32; torch {torch.__version__}, one thread")
    if not with_torch:
        print("Without torch.compile" + ("" if quick else ", which needs a C++ compiler"))
    print("\n                         first call, s                 later calls, ms")
    print("                         eager   jitpkg torch.compile  eager   jitpkg torch.compile")
    right = True
    for title, make in functions().items():
        all_ = contestants(with_torch)
        agree = measure(make, x, all_)
        right = right and agree
        firsts = "".join(f"{c.first:9.2f}" for c in all_) + " " * 9 * (3 - len(all_))
        steady = "".join(f"{1000 * c.steady:9.2f}" for c in all_)
        print(f"{title:21}{firsts}    {steady}{'' if agree else '   DIFFERS'}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as caches:
        os.environ["JITPKG_CACHE_DIR"] = f"{caches}/jitpkg"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{caches}/torch"
        sys.exit(main())
