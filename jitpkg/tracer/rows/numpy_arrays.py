"""What NumPy's functions mean on arrays that are the memory of tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from jitpkg.tracer import array_ops, numpy_arrays, numpy_scalars, reasons
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import FALSE, NONE, TRUE, Array, Call, Constant, Known, Tensor, Value
from jitpkg.tracer.vm import VM, Args, Kwargs

TABLE = CallTable()

ZERO = Constant(0)


@TABLE.row(torch.Tensor.numpy)
def numpy_of(vm: VM, tensor: Value, /, *, force: Value = FALSE) -> Value:
    known, forced = vm.look(tensor), vm.look(force)
    if not isinstance(known, Tensor) or not isinstance(forced, Constant):
        vm.stop(reasons.DATA_VALUE, "Tensor.numpy")
    return numpy_arrays.of_tensor(vm, known, force=bool(forced.value))


@TABLE.row(torch.from_numpy)
def from_numpy(vm: VM, array: Value, /) -> Value:
    known = vm.look(array)
    if not isinstance(known, Array):
        vm.stop(reasons.FOREIGN_CALL, "torch.from_numpy")
    return numpy_arrays.tensor_of(vm, known)


@TABLE.row(torch.asarray)
def asarray(vm: VM, obj: Value, /, **kwargs: Value) -> Value:
    known = vm.look(obj)
    if not isinstance(known, Array):
        return vm.op(torch.asarray, (obj,), kwargs)
    if kwargs.keys() - {"dtype", "device"}:
        vm.stop(reasons.FOREIGN_CALL, "torch.asarray of an array")
    return made(vm, torch.as_tensor, known, kwargs)


def made(vm: VM, real: Callable[..., Any], array: Array, options: Kwargs) -> Value:
    """`torch.tensor(array, …)`, `torch.as_tensor(array, …)`"""
    others = options.keys() - {"dtype", "device"}
    if any(not vm.same(options[name], FALSE) for name in others):
        vm.stop(reasons.FOREIGN_CALL, f"torch.{real.__name__} of an array")
    dtype, device = options.get("dtype", NONE), options.get("device", NONE)
    return numpy_arrays.converted(vm, array, dtype, device, copy=real is torch.tensor)


# NumPy's own


def row(function: object) -> Callable[[VM, Args, Kwargs], Value] | None:
    """What calling a function of NumPy's means."""
    module: Any = numpy_scalars.module()
    return None if module is None else _table(module).get(function)


@lru_cache(maxsize=1)
def _table(module: Any) -> CallTable:
    table = CallTable()
    for name, function in _FUNCTIONS.items():
        table.add(getattr(module, name), _fitting(f"numpy.{name}", function))
    for name, method in _METHODS.items():
        table.add(getattr(module.ndarray, name), _fitting(f"ndarray.{name}", method))
    for names, op in _ELEMENTWISE.items():
        for name in names.split():
            table.add(getattr(module, name), _elementwise(op))
    return table


def _fitting(name: str, handler: Callable[..., Value]) -> Callable[..., Value]:
    """A row; calls with other arguments than it takes are left to NumPy."""
    signature = inspect.signature(handler)

    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        try:
            signature.bind(vm, *args, **kwargs)
        except TypeError:
            vm.stop(reasons.FOREIGN_CALL, f"{name} with arguments that tracing does not know")
        return handler(vm, *args, **kwargs)

    return row


def _elementwise(op: str) -> Callable[..., Value]:
    def row(vm: VM, *operands: Value, **kwargs: Value) -> Value:
        if kwargs or len(operands) != (1 if op in array_ops.SINGLE else 2):
            vm.stop(reasons.FOREIGN_CALL, f"numpy's {op} with arguments that tracing does not know")
        return array_ops.apply(vm, op, operands)

    return row


_ELEMENTWISE = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "negative": "neg",
    "absolute": "abs",
    "sqrt": "sqrt",
    "maximum": "maximum",
    "minimum": "minimum",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "invert": "invert",
}
"""NumPy's functions of elements, and the operator that does the same."""


def _array(vm: VM, value: Value) -> Array:
    known = vm.look(value)
    if not isinstance(known, Array):
        vm.stop(reasons.FOREIGN_CALL, f"a function of NumPy's of a {vm.class_of(known).__name__}")
    return known


def _dtype(vm: VM, value: Value) -> torch.dtype:
    """The dtype that a value stands for."""
    module: Any = numpy_scalars.module()
    known = vm.look(value)
    named = known.obj if isinstance(known, Known) else getattr(known, "value", None)
    if isinstance(named, str | type) or numpy_scalars.is_dtype(named):
        try:
            found = numpy_scalars.torch_dtype(module.dtype(named))
        except TypeError:
            found = None
        if found is not None:
            return found
    vm.stop(reasons.FOREIGN_CALL, "an array of a dtype that torch does not have")


def np_asarray(vm: VM, obj: Value, dtype: Value = NONE, /) -> Value:
    known = vm.look(obj)
    if not vm.same(dtype, NONE):
        vm.stop(reasons.FOREIGN_CALL, "np.asarray of a dtype")
    match known:
        case Array():
            return known
        case Tensor():
            return numpy_arrays.of_tensor(vm, known)
    vm.stop(reasons.FOREIGN_CALL, "np.asarray")


def np_array(vm: VM, obj: Value, dtype: Value = NONE) -> Value:
    array = _array(vm, obj)
    if not vm.same(dtype, NONE):
        return array_ops.converted(vm, array, _dtype(vm, dtype))
    return array_ops.converted(vm, array, numpy_arrays.torch_dtype(vm, array))


def np_copy(vm: VM, array: Value) -> Value:
    return np_array(vm, array)


def copy(vm: VM, array: Value, /) -> Value:
    """In C's order, whatever the array's is."""
    elements = numpy_arrays.read(vm, _array(vm, array))
    in_order = {"memory_format": Constant(torch.contiguous_format)}
    made = vm.op("clone", (elements,), in_order)
    assert isinstance(made, Tensor)
    return Array(made, owns=True)


def astype(vm: VM, array: Value, dtype: Value, /, *, copy: Value = TRUE) -> Value:
    known, wanted = _array(vm, array), _dtype(vm, dtype)
    if wanted is numpy_arrays.torch_dtype(vm, known) and not vm.truth(copy):
        return known
    return array_ops.converted(vm, known, wanted)


def reshape(vm: VM, array: Value, /, *shape: Value) -> Value:
    known = _array(vm, array)
    made = vm.op("view", (_own(vm, known), *shape))
    return numpy_arrays.view(vm, made, _method("reshape", known, *shape))


def ravel(vm: VM, array: Value, /) -> Value:
    known = _array(vm, array)
    made = vm.op("view", (_own(vm, known), Constant(-1)))
    return numpy_arrays.view(vm, made, _method("ravel", known))


def np_reshape(vm: VM, array: Value, shape: Value, /) -> Value:
    return reshape(vm, array, shape)


def _own(vm: VM, array: Array) -> Tensor:
    """The tensor that an array stands for, which lies in order."""
    array_ops.in_order(vm, array)
    return numpy_arrays.own(vm, array)


def _method(name: str, array: Array, *args: Value) -> Call:
    return Call(getattr(numpy_scalars.array_class(), name), (array, *args))


def flatten(vm: VM, array: Value, /) -> Value:
    elements = array_ops.in_order(vm, _array(vm, array))
    made = vm.op("view", (vm.op("clone", (elements,)), Constant(-1)))
    assert isinstance(made, Tensor)
    return Array(made, owns=True)


def transpose(vm: VM, array: Value, /, *axes: Value) -> Value:
    known = _array(vm, array)
    if not axes or (len(axes) == 1 and vm.same(axes[0], NONE)):
        return numpy_arrays.transposed(vm, known)
    made = vm.op("permute", (numpy_arrays.own(vm, known), *axes))
    return numpy_arrays.view(vm, made, _method("transpose", known, *axes))


def swapaxes(vm: VM, array: Value, first: Value, second: Value, /) -> Value:
    known = _array(vm, array)
    made = vm.op("transpose", (numpy_arrays.own(vm, known), first, second))
    return numpy_arrays.view(vm, made, _method("swapaxes", known, first, second))


def fill(vm: VM, array: Value, number: Value, /) -> Value:
    array_ops.set_item(vm, _array(vm, array), Constant(...), number)
    return NONE


def concatenate(vm: VM, arrays: Value, /, axis: Value = ZERO) -> Value:
    return array_ops.joined(vm, torch.cat, vm.unpack(arrays), axis)


def stack(vm: VM, arrays: Value, axis: Value = ZERO) -> Value:
    return array_ops.joined(vm, torch.stack, vm.unpack(arrays), axis)


def _like(make: Callable[..., Any]) -> Callable[..., Value]:
    def row(vm: VM, array: Value) -> Value:
        return array_ops.new(vm, vm.op(make, (array_ops.in_order(vm, _array(vm, array)),)))

    return row


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "asarray": np_asarray,
    "array": np_array,
    "copy": np_copy,
    "reshape": np_reshape,
    "transpose": transpose,
    "swapaxes": swapaxes,
    "concatenate": concatenate,
    "stack": stack,
    "zeros_like": _like(torch.zeros_like),
    "ones_like": _like(torch.ones_like),
}
_METHODS: dict[str, Callable[..., Value]] = {
    "copy": copy,
    "astype": astype,
    "reshape": reshape,
    "ravel": ravel,
    "flatten": flatten,
    "transpose": transpose,
    "swapaxes": swapaxes,
    "fill": fill,
}
"""By name."""
