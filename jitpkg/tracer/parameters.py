"""Parameters that the function makes: `nn.Parameter(...)`, and so each module made in a trace.

One is an op of the graph, which makes the real parameter. So it has one node for as long as it
lives: what is written to it later, as by its initialisation, returns it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import fx

from jitpkg.facts.outcome import Outcome
from jitpkg.tracer import reasons
from jitpkg.tracer.asked_gradients import known_op
from jitpkg.tracer.values import NONE, TRUE, Constant, Tensor, Value
from jitpkg.tracer.vm import VM


def made(vm: VM, data: Value = NONE, requires_grad: Value = TRUE) -> Value:
    """`nn.Parameter(data, requires_grad)`"""
    vm.stop_inside_a_level("nn.Parameter()")
    of, asked = vm.look(data), vm.look(requires_grad)
    if isinstance(of, Constant) and of.value is None:
        of = vm.look(vm.call_object(torch.empty, Constant(0)))
    if not isinstance(of, Tensor) or not isinstance(asked, Constant):
        vm.stop(reasons.TENSOR_USE, "nn.Parameter() of what is no tensor")
    facts, trains = vm.facts(of), asked.value
    if type(trains) is not bool:
        vm.stop(reasons.RAISES, "nn.Parameter() with a requires_grad that is no bool")
    if facts.is_inference or torch.is_inference_mode_enabled():
        vm.stop(reasons.TENSOR_USE, "nn.Parameter() in inference mode")
    if trains and not (facts.dtype.is_floating_point or facts.dtype.is_complex):
        vm.stop(reasons.RAISES, f"nn.Parameter() of {facts.dtype}, which cannot require grad")
    leaf = replace(facts, cls=torch.nn.Parameter, requires_grad=trains, is_leaf=True)
    outcome = Outcome(leaf, (0,), (facts,), frozenset(), random=False)
    parameter, node = known_op(vm, torch.nn.Parameter, (of, Constant(trains)), outcome)
    assert isinstance(parameter, Tensor)
    if trains:
        vm.made_leaves[node] = parameter
    return parameter


def among(nodes: Iterable[fx.Node]) -> bool:
    """Whether some of these nodes make parameters."""
    return any(node.target is torch.nn.Parameter for node in nodes)
