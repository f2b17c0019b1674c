"""What torch's control flow does: `torch.cond`, `while_loop`, `scan` and `map`.

What is given is called once. What the graph has got by that is a body, and one op runs the bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from jitpkg.internals import versions
from jitpkg.tracer.polyfills.transforms import called, flatten, refused, unflatten

Function = Callable[..., Any]
Tensors = tuple[Tensor, ...]


def cond(pred: Any, true_fn: Function, false_fn: Function, operands: Any = ()) -> Any:
    """`torch.cond`"""
    if not torch.is_tensor(pred):
        if type(pred) not in (bool, int, float):
            refused("a condition that is no number, which raises")
        return true_fn(*operands) if pred else false_fn(*operands)
    if pred.dtype is not torch.bool or pred.numel() != 1:
        refused("a condition that is no single bool")
    if type(operands) not in (tuple, list):
        refused("operands that are no tuple, which raises")
    _all_tensors(flatten(operands)[0], "operands")
    first, structure = _body(true_fn, operands)
    second, other = _body(false_fn, operands)
    if structure != other:
        refused("branches that return other structures, which raises")
    return unflatten(list(chosen(pred, first, second)), structure)


def _body(function: Function, operands: Sequence[Any]) -> tuple[Any, Any]:
    """What a function computes, and the structure of what it returns."""
    enter_body(())
    leaves, structure = flatten(called(function, operands, {}))
    _all_tensors(leaves, "results")
    return leave_body(tuple(leaves)), structure


def while_loop(cond_fn: Function, body_fn: Function, carried_inputs: Any) -> Any:
    """`torch._higher_order_ops.while_loop`"""
    if type(carried_inputs) not in (tuple, list) or not carried_inputs:
        refused("nothing that is carried")
    _all_tensors(carried_inputs, "what is carried")
    carried = tuple(carried_inputs)
    going = called(cond_fn, enter_body(carried), {})
    if not torch.is_tensor(going) or going.dtype is not torch.bool or going.dim():
        refused("a condition that is no bool without dims")
    test = leave_body((going,))
    made = called(body_fn, enter_body(carried), {})
    if type(made) not in (tuple, list) or len(made) != len(carried):
        refused("another number of results than is carried, which raises")
    _all_tensors(made, "what is carried")
    return repeated(test, leave_body(tuple(made)), carried)


_PUTS_DIM_BACK = versions.has("2.13", None)
"""Whether results of `scan` have the dim that it went along where it was, and not in front."""


def scan(
    combine_fn: Function,
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
    length: int | None = None,
) -> tuple[Any, Any]:
    """`torch._higher_order_ops.scan`"""
    if length is not None:
        refused("a scan of so many steps")
    first, carried = flatten(init)
    along, structure = flatten(xs)
    if not first or not along or type(dim) is not int or type(reverse) is not bool:
        refused("nothing to go along, or options that raise")
    _all_tensors((*first, *along), "what is scanned")
    rank = along[0].dim()
    if not -rank <= dim < rank:
        refused("a dim that is not there, which raises")
    dim %= rank
    if dim and not _PUTS_DIM_BACK:
        refused("another dim than the first one, in this version of PyTorch")
    length = along[0].size(dim)
    if any(each.dim() <= dim or each.size(dim) != length for each in along):
        refused("tensors of other lengths, which raises")
    if dim:
        along = [each.movedim(dim, 0) for each in along]
    if reverse:
        along = [each.flip([0]) for each in along]
    count = len(first)
    inner = enter_body((*first, *_slices(along)))
    given = unflatten(list(inner[:count]), carried), unflatten(list(inner[count:]), structure)
    made = called(combine_fn, given, {})
    if type(made) not in (tuple, list) or len(made) != 2:
        refused("what is no pair is returned, which raises")
    carry, again = flatten(made[0])
    out, results = flatten(made[1])
    if again != carried:
        refused("another structure than is carried, which raises")
    _all_tensors((*carry, *out), "results")
    body = leave_body((*carry, *out))
    found = scanned(body, tuple(first), tuple(along))
    stacked = list(found[count:])
    if reverse:
        stacked = [each.flip([0]) for each in stacked]
    if dim:
        stacked = [each.movedim(0, dim) if dim < each.dim() else each for each in stacked]
    return unflatten(list(found[:count]), carried), unflatten(stacked, results)


def map_(f: Function, xs: Any, *args: Any) -> Any:
    """`torch._higher_order_ops.map`"""
    along, structure = flatten(xs)
    if not along:
        refused("nothing to go along, which raises")
    _all_tensors(along, "what is mapped over")
    if any(each.dim() == 0 or each.size(0) != along[0].size(0) for each in along):
        refused("tensors of other lengths, which raises")
    inner = enter_body(tuple(_slices(along)))
    out, results = flatten(called(f, (unflatten(list(inner), structure), *args), {}))
    _all_tensors(out, "results")
    return unflatten(list(scanned(leave_body(tuple(out)), (), tuple(along))), results)


def _slices(along: Sequence[Tensor]) -> list[Tensor]:
    if along[0].size(0) == 0:
        refused("nothing to go along, which raises")
    return [each.select(0, 0) for each in along]


def _all_tensors(leaves: Sequence[Any], what: str) -> None:
    if not all(torch.is_tensor(each) for each in leaves):
        refused(what + " that are no tensors")


# What the tracer does


def enter_body(leaves: Tensors) -> Tensors:
    """Begin a body, and give what stands for these tensors inside."""
    raise NotImplementedError


def leave_body(tensors: Tensors) -> Any:
    """End it; it returns these tensors."""
    raise NotImplementedError


def chosen(pred: Tensor, first: Any, second: Any) -> Tensors:
    """What the first body returns if the condition holds, else what the second one does."""
    raise NotImplementedError


def repeated(test: Any, body: Any, carried: Tensors) -> Tensors:
    """What the body makes of the tensors, again and again while the test says so."""
    raise NotImplementedError


def scanned(body: Any, carried: Tensors, along: Tensors) -> Tensors:
    """What a body makes of what is carried and of each slice, from one to the next; and what else
    it returns, stacked."""
    raise NotImplementedError
