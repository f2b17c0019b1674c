"""Attributes of tensors, and methods that only ask for metadata."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from jitpkg.code.names import stored_by
from jitpkg.facts import sizes
from jitpkg.facts.sizes import Length
from jitpkg.facts.tensor import TensorFacts, size_of, stride_of, why_no_history
from jitpkg.guards.kinds import Answers
from jitpkg.guards.metadata import LeafIs, is_plain_leaf
from jitpkg.guards.sources import Attr, Source
from jitpkg.internals.tensors import BASE, is_leaf
from jitpkg.tracer import dictionaries, numbers, reasons
from jitpkg.tracer.values import Constant, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs


def attribute(vm: VM, tensor: Tensor, name: str) -> Value | None:
    """A tensor's attribute, where it has a rule of its own; None where the general rules apply."""
    if name in _OF_HISTORIES:
        vm.stop_inside_a_level(f".{name}")
    row = ATTRIBUTES.get(name)
    return None if row is None else row(vm, tensor)


_OF_HISTORIES = frozenset({"requires_grad", "is_leaf", "grad", "grad_fn", "_version", "data"})
"""What is another thing of a tensor at a level of `torch.func` than of what it is made of."""


def _fact(read: Callable[[TensorFacts], object]) -> Callable[[VM, Tensor], Value]:
    return lambda vm, tensor: Constant(read(vm.facts(tensor)))


def _derived(name: str) -> Callable[[VM, Tensor], Value]:
    """An attribute that is an op."""
    return lambda vm, tensor: vm.op(getattr, (tensor, Constant(name)))


def _shape(vm: VM, tensor: Tensor) -> Value:
    return Tuple(tuple(numbers.length(vm, n) for n in vm.facts(tensor).size), torch.Size)


def _count(vm: VM, tensor: Tensor) -> Value:
    """How many elements it has."""
    count = math.prod(map(sizes.of, vm.facts(tensor).size), start=sizes.of(1))
    return numbers.length(vm, count)


def _bytes(vm: VM, tensor: Tensor) -> Value:
    return vm.binary("*", _count(vm, tensor), Constant(vm.facts(tensor).dtype.itemsize))


def _is_leaf(vm: VM, tensor: Tensor) -> Value:
    """The tensor guard does not tell; in-place ops on what must be a leaf raise by themselves."""
    if tensor.source is not None and tensor not in vm.mutations:
        real = vm.graph.example(tensor.node)
        if vm.mutations and real.requires_grad and BASE.get()(real) is not None:
            vm.stop(reasons.TENSOR_USE, ".is_leaf of a view, after a write")
        return vm.wrap(real.is_leaf, Attr(tensor.source, "is_leaf"))  # a history is made by that
    return Constant(vm.facts(tensor).is_leaf)


def _grad_fn(vm: VM, tensor: Tensor) -> Value:
    """Nothing, of a tensor without a history."""
    if not vm.truth(_is_leaf(vm, tensor)):
        vm.stop(reasons.TENSOR_USE, "the history of a tensor")
    return Constant(None)


def _grad(vm: VM, tensor: Tensor) -> Value:
    known = vm.heap.read(tensor, "grad")
    if known is not None:
        return known
    if tensor.source is None:
        if vm.facts(tensor).is_leaf:
            return Constant(None)
        vm.stop(reasons.TENSOR_USE, "the .grad of a tensor that the function computed")
    source = Attr(tensor.source, "grad")
    real = vm.graph.example(tensor.node)
    if is_leaf(real):
        guard_leaf(vm, real, tensor.source)  # to ask for the `.grad` of another one would warn
    elif not real.retains_grad:
        vm.stop(reasons.TENSOR_USE, "the .grad of a tensor that is no leaf")
    return vm.wrap(real.grad, source)


def guard_leaf(vm: VM, leaf: torch.Tensor, source: Source) -> None:
    """Guard that a tensor is a leaf: the tensor guard does not tell."""
    if is_plain_leaf(leaf):
        vm.guard(LeafIs(source, type(leaf), is_bare=False))
    else:
        vm.guard(Answers(source, _is_known_leaf, (), answer=True, what="whether a view is a leaf"))


def _is_known_leaf(x: torch.Tensor) -> bool:
    return why_no_history(x) is None and is_leaf(x)


def _class(vm: VM, tensor: Tensor) -> Value:
    return vm.trusted(vm.facts(tensor).cls)


def _real(vm: VM, tensor: Tensor) -> Value:
    vm.stop(reasons.TENSOR_USE, "an attribute of the real tensor")


ATTRIBUTES: Mapping[str, Callable[[VM, Tensor], Value]] = MappingProxyType(
    {
        "shape": _shape,
        "dtype": _fact(lambda f: f.dtype),
        "device": _fact(lambda f: f.device),
        "ndim": _fact(lambda f: len(f.size)),
        "requires_grad": _fact(lambda f: f.requires_grad),
        "is_leaf": _is_leaf,
        "layout": _fact(lambda f: torch.strided),
        "__class__": _class,
        "grad": _grad,
        "grad_fn": _grad_fn,
        **dict.fromkeys(
            ("is_sparse", "is_quantized", "is_nested", "is_mkldnn"), _fact(lambda f: False)
        ),
        "itemsize": _fact(lambda f: f.dtype.itemsize),
        "nbytes": _bytes,
        "is_cpu": _fact(lambda f: f.device.type == "cpu"),
        "is_cuda": _fact(lambda f: f.device.type == "cuda"),
        "is_meta": _fact(lambda f: f.device.type == "meta"),
        **{name: _derived(name) for name in ("T", "mT", "H", "mH", "real", "imag", "data")},
        **dict.fromkeys(
            (
                "_version",
                "_base",
                "_grad",
                "_grad_fn",
                "_cdata",
                "__dict__",
                "output_nr",
            ),
            _real,
        ),
    }
)
"""Attributes of tensors with rules of their own."""


def metadata_method(vm: VM, name: str, args: Args, kwargs: Kwargs) -> Value | None:
    """A method whose result is plain from the facts; None where it has to be asked for."""
    tensor = vm.look(args[0])
    assert isinstance(tensor, Tensor)
    facts = vm.facts(tensor)
    if name in _OF_LAYOUTS:
        vm.stop_inside_a_level(f"{name}()")
    if kwargs:
        return None
    match name, args[1:]:
        case "size", ():
            return _shape(vm, tensor)
        case "size", (dim,):
            return _one_of(vm, facts.size, dim)
        case "stride", ():
            return Tuple(tuple(numbers.length(vm, step) for step in facts.stride))
        case "stride", (dim,):
            return _one_of(vm, facts.stride, dim)
        case (("dim" | "ndimension"), ()):
            return Constant(len(facts.size))
        case (("numel" | "nelement"), ()):
            return _count(vm, tensor)
        case "is_contiguous", () if not facts.is_symbolic:
            like = torch.empty_strided(size_of(facts), stride_of(facts), device="meta")
            return Constant(like.is_contiguous())
        case "is_floating_point", ():
            return Constant(facts.dtype.is_floating_point)
        case "is_complex", ():
            return Constant(facts.dtype.is_complex)
        case _:
            return None


_OF_LAYOUTS = frozenset(
    """
    stride is_contiguous storage_offset dim_order is_non_overlapping_and_dense is_leaf
    is_inference
    """.split()
)


def _one_of(vm: VM, lengths: tuple[Length, ...], dim: Value) -> Value | None:
    dim = vm.look(dim)
    if not isinstance(dim, Constant) or type(dim.value) is not int:
        return None
    if not -len(lengths) <= dim.value < len(lengths):
        return None
    return numbers.length(vm, lengths[dim.value])


def may_hide(vm: VM, tensor: Tensor, name: str) -> bool:
    """Whether a tensor has, or an existing one may get, something of its own that hides a method.

    To ask at each call would cost more than all else that is asked of a tensor: only what the code
    at hand may store is guarded.
    """
    if tensor.source is None:
        return dictionaries.written(vm, tensor, name) is not None
    return name in vars(vm.graph.example(tensor.node)) or any(
        name in stored_by(frame.program.code) for frame in vm.frames
    )
