"""`torch.utils.checkpoint.checkpoint`: a part of the graph that is computed again going backward.

The function is traced like any other; then what it has added to the graph becomes a graph of its
own, and one op calls that. Run as it is, the op calls torch's own `checkpoint`; a backend that
differentiates the graph sees to it that nothing of the part is saved.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import fx
from torch.utils import checkpoint as library

from jitpkg.facts.thread_state import setters
from jitpkg.marks import DIMS, READING, RECOMPUTED, TRAINS
from jitpkg.tracer import lookahead, parameters, reasons, tensors
from jitpkg.tracer.reached import reachable
from jitpkg.tracer.values import Array, Constant, Known, Tensor, Value
from jitpkg.tracer.vm import RANDOM_STREAM, VM, Args, Kwargs, Mark


def call(vm: VM, args: Args, kwargs: Kwargs) -> Value:
    """`checkpoint(function, *args, **kwargs)`"""
    vm.stop_inside_a_level("a checkpoint")
    kwargs = dict(kwargs)
    reentrant = _options(vm, kwargs)
    if not args:
        vm.stop(reasons.RAISES, "checkpoint() of no function")
    function, *given = args
    if reentrant:
        _check_given(vm, given, kwargs)
    if not torch.is_grad_enabled():
        return vm.call(function, tuple(given), kwargs)
    if any(_is_inference(vm, value) for value in (*given, *kwargs.values())):
        vm.stop(reasons.CHECKPOINT, "a tensor of inference mode is given, which it refuses")
    failure = tensors.failure_of(vm, library.checkpoint.__name__, half=False, by_program=True)
    before, numbers = vm.mark(), vm.number_nodes.copy()
    result = vm.call(function, tuple(given), kwargs)
    if vm.graph.mark()[1] == before.graph[1]:
        return result
    _check(vm, before)
    own = set(vm.graph.nodes_since(before.graph))
    found = (each for each in reachable(vm.heap, [result]) if isinstance(each, Tensor))
    made = {each: node for each in found if (node := vm.node(each)) in own}
    nodes = list(dict.fromkeys(made.values()))
    if reentrant and not all(_requires_grad(vm, each) for each in made):
        vm.stop(reasons.CHECKPOINT, "it returns what requires no grad, and is reentrant")
    part, inputs = vm.graph.outlined(before.graph, nodes)
    vm.number_nodes = numbers
    run = recomputed_by_reentrance if reentrant else recomputed
    target = MethodType(run, fx.GraphModule(torch.nn.Module(), part, "Part"))
    began = vm.graph.mark()
    node = vm.graph.call_function(target, tuple(inputs), {})
    node.meta[RECOMPUTED] = part
    items = {old: vm.graph.item(node, k) for k, old in enumerate(nodes)}
    vm.failures.update(dict.fromkeys(vm.graph.names_since(began), failure))
    for each, old in made.items():
        each.node = item = items[old]
        vm.heap.write(each, "node", item)
        if DIMS in old.meta:
            item.meta[DIMS] = old.meta[DIMS]
        if TRAINS in old.meta:
            item.meta[TRAINS] = vm.roots.get(each, each).node.name
    return result


def recomputed(part: fx.GraphModule, /, *inputs: Any) -> Any:
    """The results of a part of a graph, of which nothing is saved for a backward pass."""
    return library.checkpoint(part.forward, *inputs, use_reentrant=False)


def recomputed_by_reentrance(part: fx.GraphModule, /, *inputs: Any) -> Any:
    """The same, where the program has asked for torch's older way."""
    return library.checkpoint(part.forward, *inputs, use_reentrant=True)


def _options(vm: VM, kwargs: dict[str, Value]) -> bool:
    """Take the options of torch's out of the keywords of a call; whether it is reentrant."""
    reentrant = _plain(vm, kwargs.pop("use_reentrant", Constant(None)))
    if reentrant is None:
        vm.stop(reasons.CHECKPOINT, "it warns without use_reentrant")
    for name, usual in _USUAL.items():
        if name in kwargs and _plain(vm, kwargs.pop(name)) not in usual:
            vm.stop(reasons.CHECKPOINT, f"the option {name}")
    return bool(reentrant)


_USUAL: dict[str, tuple[object, ...]] = {
    "preserve_rng_state": (True,),
    "context_fn": (library.noop_context_fn,),
    "determinism_check": ("default", "none"),
    "debug": (False,),
    "early_stop": (True, False),
    "respect_saved_tensors_hooks": (None,),
}
"""What options may be."""


def _plain(vm: VM, value: Value) -> object:
    value = vm.look(value)
    match value:
        case Constant():
            return value.value
        case Known():
            return vm.identify(value) and value.obj
    vm.stop(reasons.CHECKPOINT, "an option that is no constant")


def _check_given(vm: VM, given: list[Value], kwargs: Kwargs) -> None:
    """What a reentrant checkpoint refuses, or warns of."""
    if kwargs or not any(_requires_grad(vm, vm.peek(value)) for value in given):
        vm.stop(reasons.CHECKPOINT, "no argument requires grad, and it is reentrant")


def _requires_grad(vm: VM, value: Value) -> bool:
    return isinstance(value, Tensor) and vm.facts(value).requires_grad


def _is_inference(vm: VM, value: Value) -> bool:
    value = vm.peek(value)
    return isinstance(value, Tensor) and vm.facts(value).is_inference


def _check(vm: VM, before: Mark) -> None:
    """Running the function twice has to be the same as running it once."""
    if len(vm.effects) != before.effects or lookahead.changed(vm, before):
        vm.stop(reasons.CHECKPOINT, "it changes an object, and would do so twice")
    if any(each is not RANDOM_STREAM for each in vm.mutations[before.mutations :]):
        vm.stop(reasons.CHECKPOINT, "it writes to a tensor, and would do so twice")
    if parameters.among(vm.graph.nodes_since(before.graph)):
        vm.stop(reasons.CHECKPOINT, "it makes a parameter, and would make another one")
    if any(isinstance(value, Array) for value, _ in vm.heap.since(before.heap)):
        vm.stop(reasons.CHECKPOINT, "it makes a tensor of the memory of a NumPy array")
    if len(vm.guesses) != before.guesses:
        vm.stop(reasons.CHECKPOINT, "a branch depends on data, which is to be looked at outside")
    if any(READING in node.meta for node in vm.graph.nodes_since(before.graph)):
        vm.stop(reasons.CHECKPOINT, "a number is made of a tensor's data, which is known outside")
    if vm.graph.targets_since(before.graph) & setters():
        vm.stop(reasons.CHECKPOINT, "it changes grad mode or autocast")
