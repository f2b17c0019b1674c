"""Graphs with tensors on GPUs that need not be there: nothing of it can be run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from jitpkg.codegen.autograd.halves import with_facts
from jitpkg.facts.corrected import corrected_mode

CUDA = torch.device("cuda", 0)


def graph_of(function: Callable[..., Any], *made: Callable[[], torch.Tensor]) -> fx.Graph:
    """The ATen graph of a function of tensors without data, with facts.

    Args:
        made: make its arguments.
    """
    with corrected_mode(allow_non_fake_inputs=True), torch.no_grad():
        inputs = [make() for make in made]
        traced = make_fx(lambda *args: tuple(function(*args)))(*inputs)
    return with_facts(traced)
