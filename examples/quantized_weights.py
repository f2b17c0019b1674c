"""Quantized weights: a tensor subclass of one's own, in the graph.

`Int8` holds a matrix as integers of 8 bits with a scale for each row, as libraries for quantization
do. To torch it is a tensor of floats: its `__torch_dispatch__` says what becomes of each op. jitpkg
traces that method as it traces any function, so that a model with such weights is one graph, and
what turns integers into floats is part of its kernels.

    python examples/quantized_weights.py            weights of 1024 x 1024
    python examples/quantized_weights.py --quick    weights of 64 x 64
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import jitpkg

aten = torch.ops.aten


class Int8(torch.Tensor):
    """A matrix of floats, as integers of 8 bits and a scale for each row."""

    whole: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls: type[Int8], whole: Tensor, scale: Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)

    def __init__(self, whole: Tensor, scale: Tensor) -> None:
        self.whole, self.scale = whole, scale

    @classmethod
    def of(cls, weight: Tensor) -> Int8:
        """The nearest such matrix."""
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    def floats(self) -> Tensor:
        return self.whole.to(self.scale.dtype) * self.scale

    def __repr__(self) -> str:
        return f"Int8({tuple(self.shape)})"

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if op is aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        args, kwargs = pytree.tree_map_only(cls, cls.floats, (args, kwargs or {}))
        return op(*args, **kwargs)


def quantized(model: nn.Module) -> nn.Module:
    """The model with such weights in all linear layers."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight = nn.Parameter(Int8.of(layer.weight.detach()), requires_grad=False)
    return model.eval()


def model_of(width: int) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()]
    return quantized(nn.Sequential(*layers))


@torch.no_grad()
def main() -> int:
    parser = argparse.ArgumentParser(description="A model with quantized weights.")
    parser.add_argument("--quick", action="store_true", help="weights of 64 x 64")
    width = 64 if parser.parse_args().quick else 1024
    torch.set_num_threads(1)
    model = model_of(width)
    compiled = jitpkg.compile(model)
    x = torch.randn(8, width)
    print(model[1].weight, "in each of 4 linear layers; a batch of 8, one thread\n")
    began = time.perf_counter()
    result = compiled(x)
    print(f"first call: {time.perf_counter() - began:.2f} s")
    agree = torch.allclose(result, model(x), rtol=1e-4, atol=1e-5)
    found = jitpkg.explain(model)(x)
    print(f"{len(found.graphs)} graph, {len(found.break_reasons)} graph breaks")
    seconds: dict[str, list[float]] = {"eager": [], "jitpkg": []}
    for _ in range(30):
        for name, call in (("eager", model), ("jitpkg", compiled)):
            began = time.perf_counter()
            call(x)
            seconds[name].append(time.perf_counter() - began)
    for name, taken in seconds.items():
        print(f"{name:8}{1000 * statistics.median(taken):10.3f} ms a call")
    print("\nThe results agree." if agree else "\nThe results differ.")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
