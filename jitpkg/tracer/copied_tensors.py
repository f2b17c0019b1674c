"""What `copy.deepcopy` does to a tensor: it copies its storage, once for all that lie there."""

from __future__ import annotations

import math
from typing import NoReturn

import torch

from jitpkg.facts.layout import is_dense
from jitpkg.facts.tensor import TensorFacts, contiguous_stride, size_of, stride_of
from jitpkg.guards.kinds import KeysAre
from jitpkg.guards.metadata import OwnMemory, fill_their_storages
from jitpkg.guards.sources import Attr, Item
from jitpkg.tracer import dictionaries, reasons
from jitpkg.tracer.values import Constant, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM


def storage(vm: VM, value: Value, others: Value) -> Value:
    """See `polyfills.copying.copied_storage`."""
    tensor = vm.look(value)
    assert isinstance(tensor, Tensor)
    facts = vm.facts(tensor)
    if facts.device.type != "cpu" or facts.is_inference or not _is_dense(facts):
        _refuse(vm, "which does not fill its storage, or is of an unusual kind")
    owner = vm.roots.get(tensor, tensor)
    if not _fills(facts, vm.facts(owner)):
        _refuse(vm, "which is a view")
    known = [vm.look(each) for each in vm.unpack(others)]
    before = [
        vm.roots.get(each, each)
        for each in known
        if isinstance(each, Tensor) and vm.facts(each).cls is torch.Tensor
    ]
    if owner in before:
        _refuse(vm, "which shares its storage with another one")
    if owner.source is not None:
        given = [each for each in (owner, *before) if each.source is not None]
        examples = [vm.graph.example(each.node) for each in given]
        if owner in vm.reshaped or not fill_their_storages(*examples):
            _refuse(vm, "which does not fill its storage, or shares it")
        vm.guard(OwnMemory(tuple(each.source for each in given if each.source is not None)))
    data = vm.op("detach", (tensor,))
    return vm.op("copy_", (vm.op(torch.empty_like, (data,)), data))  # it counts as written to


def attributes(vm: VM, value: Value) -> Value:
    """See `polyfills.copying.own_attributes`."""
    tensor = vm.look(value)
    assert isinstance(tensor, Tensor)
    items = dict(vm.heap.read(tensor, "attributes") or {})
    if tensor.source is not None:
        if items:
            _refuse(vm, "of which an attribute was set")
        own, dictionary = dictionaries.own_dictionary(vm, tensor), Attr(tensor.source, "__dict__")
        vm.guard(KeysAre(dictionary, tuple(own)))
        items = {name: vm.wrap(held, Item(dictionary, name)) for name, held in own.items()}
    return vm.new_list([Tuple((Constant(name), held)) for name, held in items.items()])


def _refuse(vm: VM, why: str) -> NoReturn:
    vm.stop(reasons.FOREIGN_CALL, f"copy.deepcopy() of a Tensor {why}")


def _is_dense(facts: TensorFacts) -> bool:
    if facts.is_symbolic:
        return facts.stride == contiguous_stride(facts.size)
    return is_dense(size_of(facts), stride_of(facts))


def _fills(facts: TensorFacts, owner: TensorFacts) -> bool:
    """Whether a dense tensor has all elements of the one that it may be a view of."""
    if not _is_dense(owner):
        return False
    if facts.is_symbolic or owner.is_symbolic:
        return facts.size == owner.size
    return math.prod(size_of(facts)) == math.prod(size_of(owner))
