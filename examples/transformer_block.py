"""A transformer block, eagerly and compiled in each mode: the first call, and those after it.

python examples/transformer_block.py
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

import jitpkg

MODES = ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


class Block(nn.Module):
    """Attention and a feed-forward network, each after a layer norm and beside a short cut."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(gelu(self.up(self.norm2(x))))

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def seconds(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small block, and few calls")
    parser.add_argument("--backend", default="jitpkg", help="default: %(default)s")
    arguments = parser.parse_args()
    d_model, heads, batch, length = (32, 4, 2, 16) if arguments.quick else (512, 8, 16, 128)
    print(f"A transformer block: d_model {d_model}, {heads} heads, batch {batch} x {length}")

    torch.manual_seed(0)
    block = Block(d_model, heads).eval()
    x = torch.randn(batch, length, d_model)
    ways = {"eager": block}
    for mode in MODES:
        ways[mode] = jitpkg.compile(block, backend=arguments.backend, mode=mode)

    with torch.no_grad():
        expected = block(x)
        first = {name: seconds(lambda f=way: f(x)) for name, way in ways.items()}
        for way in ways.values():
            torch.testing.assert_close(way(x), expected)
        times = {name: [] for name in ways}
        for _ in range(3 if arguments.quick else 15):
            for name, way in ways.items():  # in turns: what slows the machine slows all of them
                times[name].append(seconds(lambda f=way: f(x)))
    steady = {name: statistics.median(each) for name, each in times.items()}

    print(f"{'mode':28}{'first call':>14}{'median':>14}{'speed':>10}")
    for name in ways:
        speed = steady["eager"] / steady[name]
        milliseconds = f"{1e3 * first[name]:11.2f} ms{1e3 * steady[name]:11.2f} ms"
        print(f"{name:28}{milliseconds}{speed:9.2f}x")
    print("All results are as eager code's.")


if __name__ == "__main__":
    main()
