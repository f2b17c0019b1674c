"""A training step of a model, eagerly and compiled, from one state; and what compiling did."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from jitpkg import events

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
MODELS = {model.title: model for model in importlib.import_module("models").MODELS}
"""By title: what the benchmarks measure."""

Step = Callable[..., Any]


@dataclass
class Heard:
    """What compiling did."""

    graphs: int = 0
    breaks: list[str] = field(default_factory=list)

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.GraphCompiled():
                self.graphs += 1
            case events.Broke(graph_break=found):
                self.breaks.append(found.title())


def tensors_of(output: Any) -> list[Tensor]:
    """Of an output of `transformers`, or of any other structure."""
    if isinstance(output, Mapping):
        output = dict(output)
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]


def trained(
    step: Step, module: nn.Module, inputs: Mapping[str, Any], state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Results, gradients and buffers after a forward and a backward pass, by name."""
    module.load_state_dict(state)
    module.zero_grad()
    torch.manual_seed(7)
    results = tensors_of(step(**inputs))
    loss = sum(t.float().square().mean() for t in results if t.requires_grad)
    assert isinstance(loss, Tensor)
    loss.backward()  # type: ignore[no-untyped-call]
    found = {f"result {k}": t.detach() for k, t in enumerate(results)}
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            found[f"gradient of {name}"] = parameter.grad
    found.update({name: buffer.clone() for name, buffer in module.named_buffers()})
    found["random stream"] = torch.rand(2)
    return found


def copied(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}
