"""What older programs call: `Variable`, and methods that are spelt in another way today."""

from __future__ import annotations

from typing import Any

import torch

from jitpkg.tracer import reasons
from jitpkg.tracer.polyfills import torch_functions
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import FALSE, NONE, Constant, Known, Tensor, Value
from jitpkg.tracer.vm import VM

TABLE = CallTable()


@TABLE.row(torch.autograd.Variable)
def variable(vm: VM, data: Value, requires_grad: Value = FALSE, volatile: Value = FALSE) -> Value:
    if not isinstance(vm.look(data), Tensor):
        vm.stop(reasons.RAISES, "Variable() of what is no tensor")
    return vm.call(vm.trusted(torch_functions.variable), (data, requires_grad, volatile))


@TABLE.row(torch.Tensor.type)
def type_(vm: VM, tensor: Value, dtype: Value = NONE, /, *args: Value, **kwargs: Value) -> Value:
    """The name of a tensor's type, or the tensor as one of another type."""
    known, asked = vm.look(tensor), vm.look(kwargs.pop("dtype", dtype))
    assert isinstance(known, Tensor)
    facts = vm.facts(known)
    like = torch.empty(0, dtype=facts.dtype, device=facts.device)
    match asked:
        case Constant(None):
            return Constant(like.type())
        case Constant(torch.dtype() as wanted):
            pass
        case Constant(str()):
            wanted = _dtype_of(vm, like, asked.value)
        case Known(obj) if isinstance(getattr(obj, "dtype", None), torch.dtype):
            wanted = _dtype_of(vm, like, obj)  # torch.DoubleTensor
        case _:
            vm.stop(reasons.TENSOR_USE, "Tensor.type")
    return vm.call(vm.trusted(torch.Tensor.to), (tensor, Constant(wanted), *args), kwargs)


def _dtype_of(vm: VM, like: torch.Tensor, name: Any) -> torch.dtype:
    """What a type of tensors has for elements, if it is on the same device."""
    try:
        made: torch.Tensor = like.type(name)
    except (RuntimeError, TypeError, ValueError) as error:
        vm.stop(reasons.RAISES, f"Tensor.type raises {type(error).__name__}: {error}")
    if made.device != like.device or made.layout is not like.layout:
        vm.stop(reasons.TENSOR_USE, f"Tensor.type, to {made.device}")
    return made.dtype


@TABLE.row(torch.Tensor.new)
def new(vm: VM, tensor: Value, /, *sizes: Value, **kwargs: Value) -> Value:
    """Memory for a tensor of these sizes; by tensors, lists and storages it does other things."""
    asked = [vm.look(size) for size in sizes]
    of_ints = all(vm.class_of(size) is int for size in asked)
    if kwargs or not (of_ints or [vm.class_of(size) for size in asked] == [torch.Size]):
        vm.stop(reasons.TENSOR_USE, "Tensor.new of what are no sizes")
    given = tuple(asked) if asked else (Constant(0),)
    return vm.call(vm.trusted(torch.Tensor.new_empty), (tensor, *given))
