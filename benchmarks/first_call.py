"""One first call, in this process, which does nothing else: see coldstart.py, which starts it.

    python benchmarks/first_call.py PROGRAM COMPILER

prints, as JSON, the CPU seconds this process had used when the call began, and its peak memory
when the result was there, in MB. It ends at once then, so that what follows is not counted.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import networks
import torch
from chains import chain, layers
from torch import Tensor, nn
from torch.nn import functional

Step = Callable[[Callable[..., Any]], Any]
"""The first call of what it is given."""


def pointwise(x: Tensor, y: Tensor) -> Tensor:
    z = torch.tanh(x * 2 + y)
    return functional.gelu(z) * torch.sigmoid(y) - torch.exp(-z)


def softmax_and_norm(x: Tensor) -> Tensor:
    return functional.layer_norm(torch.softmax(x, -1) + x, x.shape[-1:])


def tiny(x: Tensor) -> Tensor:
    """What is compiled before, where what all programs share shall be in the cache."""
    return x.cos() + 1


def _matrix() -> Tensor:
    return torch.randn(64, 64)


FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "tiny": (tiny, 1),
    "pointwise chain": (pointwise, 2),
    "softmax + layer norm": (softmax_and_norm, 1),
}
"""By title, with the number of their arguments."""

TRAINING = ", training"


def program(title: str) -> tuple[Callable[..., Any], Step]:
    """A function or module, and how it is called."""
    match title.split():
        case ["chain", "of", count, "ops"]:
            x, y = _matrix(), _matrix()
            return chain(int(count)), lambda function: function(x, y)
        case [count, "layers"]:
            network, inputs = layers(int(count)), {"input": torch.randn(2, 8, 16)}
            return network.eval(), partial(_inference, inputs)
    if title in FUNCTIONS:
        function, count = FUNCTIONS[title]
        arguments = [_matrix() for _ in range(count)]
        return function, lambda compiled: compiled(*arguments)
    name = title.removesuffix(TRAINING)
    found = next(each for each in networks.NETWORKS if each.title == name)
    network, inputs = found.tiny(), found.tiny_inputs()
    if title == name:
        return network.eval(), partial(_inference, inputs)
    return network.train(), partial(_training, inputs)


def _inference(inputs: networks.Inputs, function: Callable[..., Any]) -> None:
    networks.infer(function, inputs)


def _training(inputs: networks.Inputs, function: Callable[..., Any]) -> None:
    networks.loss(function(**inputs)).backward()


def compiled_by(compiler: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """By "eager", "torch.compile" or "jitpkg:" and a backend."""
    if compiler == "eager":
        return function
    if compiler == "torch.compile":
        return torch.compile(function)
    package, _, backend = compiler.partition(":")
    compiled: Callable[..., Any] = importlib.import_module(package).compile(
        function, backend=backend
    )
    return compiled


def cpu_seconds() -> float:
    """Of this process and of those it has waited for."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


def main() -> None:
    title, compiler = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    function, step = program(title)
    if isinstance(function, nn.Module):
        function.requires_grad_(title.endswith(TRAINING))
    before = cpu_seconds()
    step(compiled_by(compiler, function))
    print(json.dumps({"before": before}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
