"""Why a graph is not handed to AOTAutograd: what it would get wrong, or takes too long for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.graph import writing
from jitpkg.codegen.graph.devices import ON_META, devices_of, on_meta
from jitpkg.codegen.graph.grad_modes import makes_leaf
from jitpkg.facts.decomposed import is_recurrent
from jitpkg.internals import modes
from jitpkg.marks import BODIES, LEAVES, TRANSFORMED, VIEW_LEAVES, WARNS

Test = Callable[[fx.GraphModule, Sequence[Any]], object]


def _any(test: Callable[[fx.Node], object]) -> Test:
    return lambda gm, inputs: any(map(test, gm.graph.nodes))


def _trains_sgn(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    trains = any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
    return trains and any(writing.name_of(node).rstrip("_") == "sgn" for node in gm.graph.nodes)


NO_LEVEL = -1

OBSTACLES: tuple[tuple[Test, str], ...] = (
    (
        _any(writing.of_expanded),
        "a write to what may overlap with itself: eager code may refuse it",
    ),
    (
        _any(lambda node: hasattr(node.target, WARNS)),
        "an op that warns: it would warn while it is compiled, and not when it runs",
    ),
    (_any(lambda node: TRANSFORMED in node.meta), "a function transform"),
    (_any(lambda node: BODIES in node.meta), "control flow (cond, while_loop, scan)"),
    (
        _any(lambda node: is_recurrent(node.target)),
        "a recurrent layer: it would be unrolled into the ops of each step",
    ),
    (_any(lambda node: LEAVES in node.meta), VIEW_LEAVES),
    (_any(makes_leaf), "a leaf that is made to require grad: its gradient would get lost"),
    (_trains_sgn, "sgn, trained: AOTAutograd takes its gradient of zeros for none"),
    (
        lambda gm, inputs: not all(isinstance(x, torch.Tensor | int) for x in inputs),
        "an input that is no tensor",
    ),
    (lambda gm, inputs: on_meta(devices_of(gm, inputs)), ON_META),
    (
        lambda gm, inputs: modes.SAVED_TENSOR_HOOKS.get()(True) is not None,
        "hooks for saved tensors",
    ),
    (
        lambda gm, inputs: modes.FORWARD_LEVEL.get()() != NO_LEVEL,
        "forward-mode differentiation",
    ),
)
"""What holds for a graph and its inputs, and what that means; the first is told."""


def obstacle(gm: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    """Why a graph is not handed on; None where it is."""
    return next((why for holds, why in OBSTACLES if holds(gm, inputs)), None)
