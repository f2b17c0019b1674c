"""Who sees the memory of NumPy's arrays.

A tensor that shares an array's memory has a storage of its own: backends, which compare storages,
do not see that two arrays, or an array and a tensor, overlap. Where the trace has made the tensor,
it is made real as the program makes it, of the real array.
"""

from __future__ import annotations

import torch

from jitpkg.guards.metadata import ApartInMemory, are_apart
from jitpkg.guards.sources import MemoryOf, Source
from jitpkg.tracer import reasons
from jitpkg.tracer.values import Array, Tensor
from jitpkg.tracer.vm import VM

Given = list[tuple[Source, torch.Tensor]]


def check_apart(vm: VM) -> None:
    """End the trace if it does, now that the graph writes to a tensor, or is given another one."""
    arrays, others = _given(vm)
    if not arrays or not vm.has_written:
        return
    if not are_apart([example for _, example in arrays], [example for _, example in others]):
        vm.stop(reasons.UNSUPPORTED, "a write where an array shares memory with another argument")


def guard_apart(vm: VM) -> None:
    """Guard that it does not."""
    arrays, others = _given(vm)
    if arrays and len(arrays) + len(others) > 1 and vm.has_written:
        paths = (tuple(source for source, _ in each) for each in (arrays, others))
        vm.guard(ApartInMemory(*paths))


def _given(vm: VM) -> tuple[Given, Given]:
    """The tensors that the graph is given: the memory of arrays, and others."""
    arrays: Given = []
    others: Given = []
    for each in vm.graph.inputs:
        if isinstance(each.example, torch.Tensor) and isinstance(each.source, Source):
            of_array = isinstance(each.source, MemoryOf)
            (arrays if of_array else others).append((each.source, each.example))
    return arrays, others


def link(vm: VM, tensor: Tensor, array: Array) -> None:
    """Note that a tensor was made of an array, by `torch.from_numpy`."""
    vm.heap.write(tensor, "of_array", array)


def unlink(vm: VM, tensor: Tensor) -> None:
    """Others see the tensor's own storage, as its views do: it stays what the graph makes it."""
    array = vm.heap.read(tensor, "of_array")
    if array is not None:
        vm.heap.write(tensor, "of_array", None)
        share(vm, array)


def share(vm: VM, array: Array) -> None:
    """Others see the memory in which the graph has put an array."""
    vm.heap.write(array.of or array, "shared", True)


def note_write(vm: VM, tensor: Tensor) -> None:
    """Count how often a tensor is written to that was made of an array: its versions begin anew."""
    if vm.heap.read(tensor, "of_array") is not None:
        vm.heap.write(tensor, "writes", (vm.heap.read(tensor, "writes") or 0) + 1)
