"""Torch's control flow in a compiled function: `cond`, `while_loop`, `scan` and `map`.

What polyfills call inside of a level becomes a graph of its own, as for `torch.func`'s transforms.
One op runs such bodies when the graph runs. What it returns is known by running each body once, on
tensors without data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.outcome import Outcome
from jitpkg.facts.replayed import stand_in
from jitpkg.facts.tensor import TensorFacts, contiguous_stride
from jitpkg.internals.tensors import memory
from jitpkg.marks import BODIES, RANDOM
from jitpkg.tracer import tensors, transforms
from jitpkg.tracer.transforms import Part, Tensors, enter, facts_of, fixed, leave, leaves_of, refuse
from jitpkg.tracer.values import Tensor, Value
from jitpkg.tracer.vm import VM, Args

# What runs the bodies


def chosen_of(
    bodies: tuple[Part, Part], pred: torch.Tensor, /, *inputs: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    first, second = bodies
    made: tuple[torch.Tensor, ...]
    if pred.is_meta or pred:  # what is asked without data is what each of them returns
        made = first.module.forward(*inputs[: first.captured])
    else:
        made = second.module.forward(*inputs[first.captured :])
    if torch.is_grad_enabled():
        trained = [each for each in dict.fromkeys(inputs) if each.requires_grad]
        if trained:
            chosen: Any = _Chosen.apply
            made = chosen(len(made), *made, *trained)
    return made


class _Chosen(torch.autograd.Function):
    """The results of a branch as they are: gradients of what only the other branch takes are zeros,
    as those of torch's own `cond`."""

    @staticmethod
    def forward(ctx: Any, count: int, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made, trained = given[:count], given[count:]
        ctx.save_for_backward(*trained)
        shown = tuple(each.view_as(each) for each in made)
        ctx.mark_non_differentiable(*(x for x in shown if not _has_gradients(x.dtype)))
        return shown

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, *gradients, *map(torch.zeros_like, ctx.saved_tensors))


def _has_gradients(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def repeated_while(bodies: tuple[Part, Part], /, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    test, body = bodies
    carried: tuple[torch.Tensor, ...]
    of_test, inputs = inputs[: test.captured], inputs[test.captured :]
    of_body, carried = inputs[: body.captured], inputs[body.captured :]
    going, made = test.module.forward, body.module.forward
    if not carried[0].is_meta and not going(*of_test, *carried)[0]:
        return tuple(each.clone() for each in carried)
    while True:
        carried = made(*of_body, *carried)
        if carried[0].is_meta or not going(*of_test, *carried)[0]:
            return carried


def scanned_along(bodies: tuple[Part], /, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    (body,) = bodies
    (count,) = body.options
    captured, others = inputs[: body.captured], inputs[body.captured :]
    carried, along = others[:count], others[count:]
    found: list[Tensors] = []
    for k in range(along[0].size(0)):
        made = body.module.forward(*captured, *carried, *(each.select(0, k) for each in along))
        carried = made[:count]
        found.append(made[count:])
    return (*carried, *(torch.stack(list(each)) for each in zip(*found, strict=True)))


# Into a body, and out of it


@dataclass(frozen=True, eq=False, slots=True)
class Body:
    """What a function computes, and the tensors outside that it takes."""

    part: Part
    captured: tuple[Tensor, ...]


def enter_body(vm: VM, leaves: Value) -> Value:
    vm.stop_under_a_mode("control flow")
    values, given = leaves_of(vm, leaves)
    return enter(vm, values, lambda k, facts: facts, given, ())


def leave_body(vm: VM, returned: Value) -> Value:
    part, inputs = leave(vm, returned, lambda options: options)
    return vm.trusted(Body(part, inputs[: part.captured]))


def _body(vm: VM, value: Value) -> Body:
    body: Any = getattr(vm.look(value), "obj", None)
    assert isinstance(body, Body)
    return body


# The ops


def chosen(vm: VM, pred: Value, first: Value, second: Value) -> Value:
    bodies = _body(vm, first), _body(vm, second)
    results, others = (_returned(vm, each, each.captured) for each in bodies)
    if not all(map(_are_alike, results, others)):
        refuse(vm, "branches that return tensors of other sizes or dtypes")
    captured = (*bodies[0].captured, *bodies[1].captured)
    trained = _is_trained(vm, captured)
    results = tuple(
        replace(each, requires_grad=grad, is_leaf=not grad)
        for each in results
        for grad in [trained and _has_gradients(each.dtype)]
    )
    inputs = (vm.look(pred), *captured)
    return _run(vm, chosen_of, tuple(each.part for each in bodies), inputs, results)


def repeated(vm: VM, test: Value, body: Value, carried: Value) -> Value:
    condition, step = _body(vm, test), _body(vm, body)
    _, given = leaves_of(vm, carried)
    _returned(vm, condition, (*condition.captured, *given))
    results = _carried(vm, step, given)
    if _is_trained(vm, (*condition.captured, *step.captured, *given)):
        refuse(vm, "gradients of a loop")
    inputs = (*condition.captured, *step.captured, *given)
    return _run(vm, repeated_while, (condition.part, step.part), inputs, results)


def scanned(vm: VM, body: Value, carried: Value, along: Value) -> Value:
    step = _body(vm, body)
    _, given = leaves_of(vm, carried)
    _, every = leaves_of(vm, along)
    (length,) = {fixed(vm, vm.facts(each)).size[0] for each in every}
    slices = tuple(replace(f, size=f.size[1:], stride=f.stride[1:]) for f in _facts(vm, every))
    results = _carried(vm, step, given, slices)
    if _is_trained(vm, (*step.captured, *given, *every)):
        refuse(vm, "gradients of a loop")
    out = (_stacked(each, length) for each in results[len(given) :])
    part = replace(step.part, options=(len(given),))
    inputs = (*step.captured, *given, *every)
    return _run(vm, scanned_along, (part,), inputs, (*results[: len(given)], *out))


def _carried(
    vm: VM, step: Body, given: Sequence[Tensor], more: tuple[TensorFacts, ...] = ()
) -> tuple[TensorFacts, ...]:
    """What a body returns, of which the first are carried on, and so must be as they were."""
    results = _returned(vm, step, (*step.captured, *given), more)
    if not all(map(_are_alike, results, _facts(vm, given))):
        refuse(vm, "what is carried becomes a tensor of another size or dtype")
    return results


def _stacked(facts: TensorFacts, length: Any) -> TensorFacts:
    size = (length, *facts.size)
    return replace(facts, size=size, stride=contiguous_stride(size))


def _are_alike(one: TensorFacts, other: TensorFacts) -> bool:
    kinds = ((each.size, each.stride, each.dtype, each.device) for each in (one, other))
    return next(kinds) == next(kinds)


def _is_trained(vm: VM, inputs: Sequence[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(vm.facts(each).requires_grad for each in inputs)


def _facts(vm: VM, of: Sequence[Tensor]) -> tuple[TensorFacts, ...]:
    return tuple(fixed(vm, vm.facts(each)) for each in of)


def _returned(
    vm: VM, body: Body, inputs: Sequence[Tensor], more: tuple[TensorFacts, ...] = ()
) -> tuple[TensorFacts, ...]:
    """What a body returns, given tensors, and others of which this is known."""
    known = (*_facts(vm, inputs), *more)
    devices = {each.device for each in known}
    if len(devices) != 1 or any(each.type == "meta" for each in devices):
        refuse(vm, "tensors on several devices, or on none")
    given = [stand_in(each) for each in known]
    made = transforms.returned(vm, lambda: body.part.module.forward(*given))
    places = [memory(each) for each in (*given, *made)]
    if len(set(places)) < len(places):
        refuse(vm, "what is returned shares memory, which raises")
    (device,) = devices
    return tuple(replace(facts_of(vm, each), device=device) for each in made)


def _run(
    vm: VM,
    function: Callable[..., Any],
    bodies: tuple[Part, ...],
    inputs: Args,
    results: tuple[TensorFacts, ...],
) -> Value:
    """One op that runs bodies, and what it returns."""
    given = list(dict.fromkeys(each for each in inputs if isinstance(each, Tensor)))
    random = any(RANDOM in node.meta for each in bodies for node in each.module.graph.nodes)
    before = tuple(vm.facts(each) for each in given)
    shares = (None,) * len(results)
    outcome = Outcome(results, shares, before, frozenset(), random=random)
    began = vm.graph.mark()
    target = MethodType(function, bodies)
    made = tensors.op(vm, target, inputs, opaque=True, outcome=outcome)
    vm.graph.nodes_since(began)[0].meta[BODIES] = bodies
    return made
