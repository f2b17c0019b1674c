"""The devices of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.facts.elsewhere import device_named

ON_META = "a tensor on meta, which has no data"


def devices_of(gm: fx.GraphModule, inputs: Sequence[Any]) -> list[torch.device]:
    """The devices of inputs, and those that calls name."""
    given = [x.device for x in inputs if isinstance(x, torch.Tensor)]
    return [*given, *(device for node in gm.graph.nodes for device in _named(node))]


def _named(node: fx.Node) -> list[torch.device]:
    """The devices that a call names."""
    if node.op == "call_method" and node.target == "cuda":
        return [torch.device("cuda")]
    given: list[Any] = [*node.args, *node.kwargs.values()]
    named = (device_named(each) if isinstance(each, str) else each for each in given)
    return [each for each in named if isinstance(each, torch.device)]


def on_meta(devices: Sequence[torch.device]) -> bool:
    """Whether a tensor of a graph is on meta: stand-ins of what has data are there."""
    return any(device.type == "meta" for device in devices)


def device_of(devices: Sequence[torch.device]) -> torch.device:
    """The GPU that a graph works on, if there is one; the first of several."""
    for device in devices:
        if device.type == "cuda":
            here = torch.cuda.is_available() and device.index is None
            return torch.device("cuda", torch.cuda.current_device() if here else device.index or 0)
    return torch.device("cpu")
