"""A deep model of equal layers: compile the layer once, in place of the whole model.

`jitpkg.jit(model, each=Block)` compiles the modules of the class Block, which share their compiled
code. The first call then takes as long as that of one layer, however many there are. Compiled as a
whole, the model is one graph of all layers: the first call takes longer with each, and later calls
save the time of 47 calls of a layer.

    python examples/equal_layers.py            48 layers
    python examples/equal_layers.py --quick    4 layers
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import jitpkg

WIDTH = 64
X = torch.randn(2, 16, WIDTH, generator=torch.Generator().manual_seed(1))


class Block(nn.Module):
    """Attention, then a perceptron, each after a normalisation and added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm_1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm_2(x))


class Deep(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def step(model: nn.Module) -> Tensor:
    model.zero_grad()
    loss: Tensor = model(X)
    loss.backward()
    return loss.detach()


WAYS: dict[str, Callable[[Deep], nn.Module]] = {
    "eager": lambda model: model,
    "as a whole": jitpkg.compile,
    "each block": lambda model: jitpkg.jit(model, each=Block),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Equal layers, compiled once.")
    parser.add_argument("--quick", action="store_true", help="4 layers")
    layers = 4 if parser.parse_args().quick else 48
    torch.set_num_threads(1)
    print(f"A training step of {layers} layers, one thread\n")
    print("              graphs   first step, s   later steps, ms")
    models, losses, graphs, firsts = [], [], [], []
    for way in WAYS.values():
        before = jitpkg.stats().graph_count
        model = way(Deep(layers))
        began = time.perf_counter()
        losses.append(step(model))
        firsts.append(time.perf_counter() - began)
        graphs.append(jitpkg.stats().graph_count - before)
        models.append(model)
    seconds: list[list[float]] = [[] for _ in models]
    for _ in range(10):
        for model, taken in zip(models, seconds, strict=True):
            began = time.perf_counter()
            step(model)
            taken.append(time.perf_counter() - began)
    for name, count, first, taken in zip(WAYS, graphs, firsts, seconds, strict=True):
        print(f"{name:12}{count:8}{first:16.2f}{1000 * statistics.median(taken):18.1f}")
    same = all(torch.allclose(loss, losses[0], rtol=1e-4) for loss in losses)
    print("\nAll losses are as eager code's." if same else "\nThe losses differ.")
    return 0 if same else 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["JITPKG_CACHE_DIR"] = cache
        sys.exit(main())
