"""NumPy's arrays, as the memory of tensors of the graph.

`tensor.numpy()` shares a tensor's memory, and `torch.from_numpy` an array's. Neither side hears of
what the other one writes: that is what `.data` means, too, so that an array stands for the `.data`
of its tensor, and a tensor that is made of an array is the `.data` of that. Arrays of constants
are computed by NumPy itself while tracing, as its numbers are; a copy of one comes into the graph
when somebody shares its memory, or writes to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts import sizes
from jitpkg.facts.tensor import TensorFacts, facts_of
from jitpkg.guards.kinds import Answers, TypeIs
from jitpkg.guards.metadata import TensorIs
from jitpkg.guards.sources import Held, MemoryOf, Source
from jitpkg.tracer import array_memory, constants, numbers, numpy_scalars, reasons, tensors
from jitpkg.tracer.values import Array, Call, Constant, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM


def existing(vm: VM, obj: Any, source: Source) -> Array | None:
    """An existing array: its memory is an input of the graph. None where torch cannot share it."""
    dtype = obj.dtype
    vm.stop_inside_a_level("an array")
    if numpy_scalars.torch_dtype(dtype) is None or not is_shareable(obj, dtype):
        return None
    try:
        shared = torch.from_numpy(obj)
    except ValueError:  # strides that are negative, or no multiple of the elements
        return None
    vm.guard(TypeIs(source, type(obj)))
    what = "the dtype or the flags of an array"
    vm.guard(Answers(source, is_shareable, (dtype,), answer=True, what=what))
    memory = tensors.existing(vm, shared, MemoryOf(source))
    assert isinstance(memory, Tensor)
    return Array(memory, source=source)


def is_shareable(array: Any, dtype: object) -> bool:
    """Whether an array is of this dtype, and torch shares its memory without a warning."""
    return array.dtype is dtype and array.flags.behaved and array.size > 0


# What an array stands for


def memory(vm: VM, array: Array) -> Tensor | None:
    """The tensor that an array stands for; None where it is of constants."""
    if constants.known_array(vm, array) is not None:
        return None
    found = constants.memory_of(vm, array)
    if isinstance(found, Tensor):
        return found
    assert isinstance(found, Constant) and array.of is not None
    view: Any = found.value
    whole = constants.memory_of(vm, array.of)
    made = _view_of(vm, whole, array.of.memory, view)
    vm.heap.write(array, "content", made)
    return made


def _view_of(vm: VM, whole: Value, root: Value, view: Any) -> Tensor:
    """The part of a tensor that a view shows of the array that the tensor was made of."""
    assert isinstance(root, Constant)
    real: Any = root.value
    begin, at = (each.__array_interface__["data"][0] for each in (real, view))
    steps = tuple(step // real.itemsize for step in view.strides)
    layout = tuple(view.shape), steps, (at - begin) // real.itemsize
    made = vm.op("as_strided", (whole, *map(vm.trusted, layout)))
    assert isinstance(made, Tensor)
    return made


def read(vm: VM, array: Array) -> Tensor:
    """A tensor of the same elements, to be read only."""
    vm.stop_inside_a_level("an array")
    return memory(vm, array) or _made(vm, constants.known_array(vm, array))


def own(vm: VM, array: Array) -> Tensor:
    """The tensor that an array stands for, to be written to, or to be seen by others."""
    vm.stop_inside_a_level("an array")
    root = array.of or array
    if constants.known_array(vm, root) is not None:
        vm.heap.write(root, "content", _made(vm, constants.known_array(vm, root)))
    found = memory(vm, array)
    assert found is not None
    return found


def _made(vm: VM, array: Any) -> Tensor:
    """A new tensor with the elements of an array of constants."""
    dtype = numpy_scalars.torch_dtype(array.dtype)
    if dtype is None or any(step < 0 for step in array.strides):
        vm.stop(reasons.FOREIGN_CALL, "an array that cannot be a tensor of the graph")
    elements = torch.from_numpy(array.copy("K"))
    raw, one = array.tobytes(), array.tobytes()[: array.itemsize]
    number = elements.flatten()[0].item()
    same = torch.full((), number, dtype=dtype).numpy().tobytes() == one
    if same and raw == one * array.size and elements.is_contiguous():
        size = vm.trusted(tuple(array.shape))
        made = vm.op(torch.full, (size, Constant(number)), {"dtype": Constant(dtype)})
    else:
        made = vm.op("clone", (_held(vm, elements),))
    assert isinstance(made, Tensor)
    return made


def _held(vm: VM, elements: torch.Tensor) -> Tensor:
    """A tensor that the entry holds, and that nobody writes to."""
    source, facts = Held(elements), facts_of(elements)
    vm.guard(TensorIs(source, facts))
    tensor = Tensor(vm.graph.placeholder(source, elements), source)
    vm.heap.write(tensor, "facts", facts)
    return tensor


def torch_dtype(vm: VM, array: Array) -> torch.dtype:
    """The dtype of the tensor that an array stands for, or would."""
    found = memory(vm, array)
    if found is not None:
        return vm.facts(found).dtype
    dtype = numpy_scalars.torch_dtype(constants.known_array(vm, array).dtype)
    if dtype is None:
        vm.stop(reasons.FOREIGN_CALL, "an array of a dtype that torch does not have")
    return dtype


# From tensors to arrays, and back


def of_tensor(vm: VM, tensor: Tensor, *, force: bool = False) -> Array:
    """`tensor.numpy()`"""
    vm.stop_inside_a_level("numpy()")
    facts = vm.facts(tensor)
    why = _why_none(facts, force=force)
    if why is not None:
        vm.stop(reasons.DATA_VALUE, f"Tensor.numpy of {why}")
    return Array(_data(vm, tensor))


def _why_none(facts: TensorFacts, *, force: bool) -> str | None:
    """Why a tensor has no array that shares its memory, or none that tracing knows."""
    if facts.device.type != "cpu" or numpy_scalars.dtype_of(facts.dtype) is None:
        return f"a tensor of {facts.dtype} on {facts.device}"
    if facts.requires_grad and torch.is_grad_enabled() and not force:
        return "a tensor that requires grad"
    if 0 in facts.size:
        return "a tensor without elements"  # NumPy gives it strides of its own
    return None


def _data(vm: VM, tensor: Tensor) -> Tensor:
    """`tensor.data`, which is no view."""
    made = vm.op(getattr, (tensor, Constant("data")))
    assert isinstance(made, Tensor)
    return made


def tensor_of(vm: VM, array: Array) -> Tensor:
    """`torch.from_numpy(array)`"""
    torch_dtype(vm, array)
    made = _data(vm, own(vm, array))
    if vm.facts(made).is_inference is not torch.is_inference_mode_enabled():
        vm.stop(
            reasons.TENSOR_USE, "from_numpy() of what a tensor of another inference mode shares"
        )
    array_memory.link(vm, made, array)
    return made


def converted(vm: VM, array: Array, dtype: Value, device: Value, *, copy: bool) -> Value:
    """`torch.tensor(array, …)`, or `torch.as_tensor(array, …)` where nothing need be copied."""
    own_dtype = torch_dtype(vm, array)
    dtype, device = vm.look(dtype), vm.look(device)
    if not isinstance(dtype, Constant) or not isinstance(device, Constant):
        vm.stop(reasons.FOREIGN_CALL, "a tensor of an array")
    wanted = own_dtype if dtype.value is None else dtype.value
    stays = device.value in (None, "cpu", torch.device("cpu"))
    if not stays and str(device.value).startswith("cpu"):
        vm.stop(reasons.FOREIGN_CALL, f"a tensor of an array on {device.value}")
    if stays and wanted is own_dtype and not copy:
        return tensor_of(vm, array)
    known = constants.known_array(vm, array) is not None
    elements = read(vm, array)
    if known and stays and wanted is own_dtype:
        return elements
    options = {"dtype": Constant(wanted), "copy": Constant(copy and not known)}
    return vm.op("to", (elements,), options if stays else {**options, "device": device})


# Attributes


def _shape(vm: VM, facts: TensorFacts) -> Value:
    return Tuple(tuple(numbers.length(vm, n) for n in facts.size))


def _size(vm: VM, facts: TensorFacts) -> Value:
    count = math.prod(map(sizes.of, facts.size), start=sizes.of(1))
    return numbers.length(vm, count)


def _strides(vm: VM, facts: TensorFacts) -> Value:
    bytes_ = Constant(facts.dtype.itemsize)
    return Tuple(tuple(vm.binary("*", numbers.length(vm, n), bytes_) for n in facts.stride))


def _bytes(vm: VM, facts: TensorFacts) -> Value:
    return vm.binary("*", _size(vm, facts), Constant(facts.dtype.itemsize))


_ATTRIBUTES: Mapping[str, Callable[[VM, TensorFacts], Value]] = MappingProxyType(
    {
        "shape": _shape,
        "size": _size,
        "strides": _strides,
        "nbytes": _bytes,
        "ndim": lambda vm, facts: Constant(len(facts.size)),
        "dtype": lambda vm, facts: Constant(numpy_scalars.dtype_of(facts.dtype)),
        "itemsize": lambda vm, facts: Constant(facts.dtype.itemsize),
    }
)


def attribute(vm: VM, array: Array, name: str) -> Value:
    """`array.name`, of what is no method."""
    row = _ATTRIBUTES.get(name)
    found = memory(vm, array)
    if name == "T" or row is None:
        if name != "T":
            vm.stop(reasons.FOREIGN_CALL, f"ndarray.{name}")
        return transposed(vm, array)
    if found is not None:
        return row(vm, vm.facts(found))
    return constants.wrapped(vm, getattr(constants.known_array(vm, array), name))


def transposed(vm: VM, array: Array) -> Value:
    """`array.T`"""
    if memory(vm, array) is None:
        return constants.fold(vm, numpy_scalars.transpose_of, (array,))
    rank = len(vm.facts(own(vm, array)).size)
    dims = tuple(map(Constant, reversed(range(rank))))
    return view(
        vm, vm.op("permute", (own(vm, array), *dims)), Call(numpy_scalars.transpose_of, (array,))
    )


def view(vm: VM, made: Value, call: Call) -> Array:
    """A view of an array, of which a view of its tensor is the memory."""
    assert isinstance(made, Tensor)
    if 0 in vm.facts(made).size:
        vm.stop(reasons.FOREIGN_CALL, "an array without elements")
    return Array(made, view=constants.lasting(vm, call))


def length(vm: VM, array: Array) -> Value:
    """`len(array)`"""
    shape = vm.look(attribute(vm, array, "shape"))
    assert isinstance(shape, Tuple)
    if not shape.items:
        vm.raise_new(TypeError, "len() of unsized object")
    return shape.items[0]
