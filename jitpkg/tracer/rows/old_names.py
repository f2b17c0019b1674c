"""What older programs call: `Variable`, and methods that are spelt in another way today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitpkg.facts.tensor import TensorFacts
from jitpkg.tracer import reasons
from jitpkg.tracer.polyfills import torch_functions
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import FALSE, NONE, Constant, Known, Tensor, Value
from jitpkg.tracer.vm import VM, Args, Kwargs

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


@TABLE.row(torch.Tensor)
def tensor(vm: VM, /, *args: Value, **kwargs: Value) -> Value:
    return _made(vm, torch.get_default_dtype(), args, kwargs)


def _of_dtype(dtype: torch.dtype) -> Callable[..., Value]:
    def row(vm: VM, /, *args: Value, **kwargs: Value) -> Value:
        return _made(vm, dtype, args, kwargs)

    return row


for _cls in (
    *(torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.BFloat16Tensor),
    *(torch.LongTensor, torch.IntTensor, torch.ShortTensor, torch.CharTensor),
    *(torch.ByteTensor, torch.BoolTensor),
):
    TABLE.add(_cls, _of_dtype(_cls.dtype))


def _made(vm: VM, dtype: torch.dtype, args: Args, kwargs: Kwargs) -> Value:
    """What `torch.Tensor(…)` and `torch.FloatTensor(…)` make: memory for a tensor of these sizes,
    the tensor that a list describes, or another view of a tensor."""
    asked = tuple(map(vm.peek, args))
    classes = [vm.class_of(each) for each in asked]
    if kwargs or torch.Tensor(0).device.type != "cpu":
        vm.stop(reasons.TENSOR_USE, "Tensor() with arguments by name, or of a device")
    given = {"dtype": Constant(dtype), "device": Constant(torch.device("cpu"))}
    if classes == [torch.Size] or all(cls is int for cls in classes):
        return vm.call(vm.trusted(torch.empty), asked or (Constant(0),), given)
    if classes in ([list], [tuple]):
        return vm.call(vm.trusted(torch.tensor), asked, given)
    match asked:
        case (Tensor() as other,) if _is_of(vm.facts(other), dtype, "cpu"):
            return vm.call(vm.trusted(torch.ops.aten.alias.default), asked)
    vm.stop(reasons.TENSOR_USE, "Tensor() of what are no sizes, nor a list")


@TABLE.row(torch.Tensor.new)
def new(vm: VM, tensor: Value, /, *args: Value, **kwargs: Value) -> Value:
    """Memory for a tensor of these sizes, the tensor that a list describes, or another view of a
    tensor; by storages and by name it does other things."""
    asked = tuple(map(vm.peek, args))
    classes = [vm.class_of(each) for each in asked]
    if kwargs:
        vm.stop(reasons.TENSOR_USE, "Tensor.new with arguments by name")
    if classes == [torch.Size] or all(cls is int for cls in classes):
        return vm.call(vm.trusted(torch.Tensor.new_empty), (tensor, *(asked or (Constant(0),))))
    if classes in ([list], [tuple]):
        return vm.call(vm.trusted(torch.Tensor.new_tensor), (tensor, *asked))
    match vm.look(tensor), asked:
        case Tensor() as like, (Tensor() as other,) if _are_alike(vm.facts(like), vm.facts(other)):
            return vm.call(vm.trusted(torch.ops.aten.alias.default), asked)
    vm.stop(reasons.TENSOR_USE, "Tensor.new of what are no sizes, nor a list")


def _is_of(facts: TensorFacts, dtype: torch.dtype, device: str) -> bool:
    return facts.dtype is dtype and facts.device.type == device


def _are_alike(facts: TensorFacts, other: TensorFacts) -> bool:
    return (facts.dtype, facts.device) == (other.dtype, other.device)
