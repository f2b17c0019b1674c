"""`torch.autograd.grad` in a compiled function: one op of the graph, which returns the gradients.

They go to any tensors, may have a history of their own, and lie in memory as a formula has left
them: what they are is known from the graph so far, which runs on tensors without data, with
autograd on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import getitem
from typing import Any

import torch
from torch import fx

from jitpkg.facts.outcome import NoFacts, Outcome, TheArgument
from jitpkg.facts.replayed import Replayed
from jitpkg.facts.rows.common import META
from jitpkg.facts.single import facts_of_stand_in
from jitpkg.facts.tensor import TensorFacts, contiguous_stride, facts_of
from jitpkg.facts.thread_state import changes_autocast
from jitpkg.guards import state
from jitpkg.guards.metadata import LeafIs, is_bare_leaf
from jitpkg.internals.tensors import is_leaf, memory
from jitpkg.marks import ASKED, GRADIENTS, LEAF, OUTCOME, RECORDED, TRAINS, WRITES
from jitpkg.tracer import reasons, tensors
from jitpkg.tracer.proxied import Proxied
from jitpkg.tracer.tensor_attributes import guard_leaf
from jitpkg.tracer.values import Constant, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args

Strides = tuple[int, ...]


def grad(
    roots: Sequence[torch.Tensor],
    tangents: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    picks: Sequence[tuple[int, Strides | None]],
    create_graph: bool,
    retain_graph: bool,
) -> tuple[torch.Tensor, ...]:
    """Those gradients of inputs that are wanted.

    Args:
        picks: which, and the strides that each is to have; None where its sizes vary.

    Raises:
        RuntimeError: as `torch.autograd.grad` does.
    """
    found: Any = torch.autograd.grad(
        list(roots),
        list(inputs),
        list(tangents),
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )
    return tuple([_laid(found[k], strides, create_graph) for k, strides in picks])


def _laid(found: torch.Tensor, strides: Strides | None, create_graph: bool) -> torch.Tensor:
    """Kernels may leave a gradient in memory in another way than is known before."""
    if strides is None or found.stride() == strides:
        return found
    with torch.set_grad_enabled(create_graph):
        return torch.empty_strided(
            found.shape, strides, dtype=found.dtype, device=found.device
        ).copy_(found)


def asked(
    vm: VM, roots: Value, tangents: Value, inputs: Value, create_graph: Value, retain_graph: Value
) -> Value:
    """What `torch.autograd.grad` returns: a tensor, or None, for each input."""
    check_state(vm)
    proxied = Proxied(vm, {}, opaque=True)
    args = roots, tangents, inputs, create_graph, retain_graph
    create = proxied.facts(create_graph)
    given = [tensors_of(vm, values) for values in args[:3]]
    for tensor in (tensor for several in given for tensor in several):
        proxied.facts(tensor)
    _check_way(vm, [vm.node(root) for root in given[0]])
    for tensor in given[2]:
        _check_input(vm, tensor)
    found, stand_ins = _gradients(vm, given, list(proxied.tensors), create=create)
    distinct = {id(x): k for k, x in reversed(list(enumerate(found))) if x is not None}
    picks = sorted(distinct.values())
    made = [found[k] for k in picks]
    _check_apart(vm, made, stand_ins)
    if not made:
        return Tuple((Constant(None),) * len(found))
    by_identity = {id(x): k for k, x in enumerate(stand_ins)}
    by_memory = {memory(x): k for k, x in reversed(list(enumerate(stand_ins)))}
    results: list[Any] = [
        TheArgument(by_identity[id(x)])
        if id(x) in by_identity
        else _facts(vm, x, vm.facts(given[2][k]))
        for k, x in zip(picks, made, strict=True)
    ]
    outcome = Outcome(
        tuple(results),
        tuple(by_memory.get(memory(x)) for x in made),
        tuple(proxied.tensors.values()),
        frozenset(),
        random=False,
    )
    strides = (
        None if vm.facts(given[2][k]).is_symbolic else tuple(x.stride())
        for k, x in zip(picks, made, strict=True)
    )
    laid = Constant(tuple(zip(picks, strides, strict=True)))
    every = roots, tangents, inputs, laid, create_graph, retain_graph
    values, node = known_op(vm, grad, every, outcome)
    node.meta[GRADIENTS], node.meta[ASKED] = True, outcome
    wanted = dict(zip(picks, vm.unpack(values), strict=True))
    return Tuple(tuple(Constant(None) if x is None else wanted[distinct[id(x)]] for x in found))


def check_state(vm: VM) -> None:
    """Nothing looks at what each formula returns."""
    vm.stop_inside_a_level("a backward pass")
    vm.guard(state.anomaly_mode())
    if torch.is_anomaly_enabled():
        vm.stop(reasons.BACKWARD, "anomaly mode, which looks at what each formula returns")


def known_op(vm: VM, target: Any, args: Args, outcome: Outcome) -> tuple[Value, fx.Node]:
    """What an op returns of which all is known, and its node."""
    began = vm.graph.mark()
    made = tensors.op(vm, target, args, opaque=not isinstance(target, str), outcome=outcome)
    node = vm.graph.nodes_since(began)[0]
    del node.meta[OUTCOME]  # it is no autograd function
    return made, node


def _facts(vm: VM, gradient: torch.Tensor, of: TensorFacts) -> TensorFacts:
    """What is known of a gradient, from a stand-in, by a tensor whose sizes may vary."""
    facts = replace(facts_of_stand_in(gradient), device=of.device)
    if not of.is_symbolic:
        return facts
    if facts.stride != contiguous_stride(facts.size):
        vm.stop(reasons.BACKWARD, "a gradient that does not lie in order, by a size that varies")
    return replace(facts, size=of.size, stride=contiguous_stride(of.size))


def tensors_of(vm: VM, values: Value) -> list[Tensor]:
    """The tensors in a tuple of such."""
    found = [vm.look(each) for each in vm.unpack(values)]
    if not all(isinstance(each, Tensor) for each in found):
        vm.stop(reasons.BACKWARD, "it is not given tensors")
    return [each for each in found if isinstance(each, Tensor)]


def _check_way(vm: VM, roots: Sequence[fx.Node]) -> None:
    """What is computed from comes from leaves, as far as the graph knows."""
    seen: set[fx.Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack += node.all_input_nodes
        for writer in vm.graph.writers(node):
            stack += writer.all_input_nodes
        given = vm.graph.input(node)
        if given is not None and isinstance(given.example, torch.Tensor):
            _check_end(vm, given.example, given.source)


def _check_end(vm: VM, example: torch.Tensor, source: Any) -> None:
    if not example.requires_grad:
        return
    if not is_leaf(example):
        vm.stop(reasons.BACKWARD, "it may go on in what was computed before the graph")
    guard_leaf(vm, example, source)


def _check_input(vm: VM, tensor: Tensor) -> None:
    facts, node = vm.facts(tensor), vm.node(tensor)
    if not facts.requires_grad:
        vm.stop(reasons.BACKWARD, "a gradient by what requires no grad, which raises")
    if vm.graph.writers(vm.roots.get(tensor, tensor).node):
        vm.stop(reasons.BACKWARD, "a gradient by what was written to")
    if tensor.source is None:
        return
    example = vm.graph.example(node)
    if not is_bare_leaf(example):
        vm.stop(reasons.BACKWARD, "a gradient by what is no leaf, or has a hook")
    vm.guard(LeafIs(tensor.source, type(example), is_bare=True))


def _check_apart(vm: VM, made: Sequence[torch.Tensor], stand_ins: Sequence[torch.Tensor]) -> None:
    """Views of one another can be told of as views of an argument only."""
    known = {memory(x) for x in stand_ins}
    new = [memory(x) for x in made if memory(x) not in known]
    if len(set(new)) < len(new):
        vm.stop(reasons.BACKWARD, "two gradients are views of one")


def _gradients(
    vm: VM, given: Sequence[Sequence[Tensor]], args: Sequence[Tensor], *, create: bool
) -> tuple[tuple[Any, ...], list[torch.Tensor]]:
    """The gradients of inputs as stand-ins, and stand-ins for these tensors."""
    nodes = [[vm.node(each) for each in several] for several in given]  # inputs of the graph now
    try:
        replayed = replay(vm)
        roots, tangents, inputs = ([replayed.made[node] for node in several] for several in nodes)
        found = replayed.gradients(roots, tangents, inputs, create=create)
    except NoFacts as error:
        vm.stop(reasons.BACKWARD, f"what it returns is not known before: {error}")
    return found, [replayed.made[vm.node(each)] for each in args]


def reached(vm: VM, roots: Sequence[fx.Node], leaves: Sequence[fx.Node]) -> list[fx.Node]:
    """Those leaves that get a gradient from `backward()`, where gradients with a history are among
    what is differentiated: what these depend on, formulas decide."""
    try:
        replayed = replay(vm)
        of = [replayed.made[root] for root in roots]
        tangents = [torch.ones_like(root, device=META) for root in of]
        by = [replayed.made[leaf] for leaf in leaves]
        found = replayed.gradients(of, tangents, by, create=False)
    except NoFacts as error:
        vm.stop(reasons.BACKWARD, f"which leaves get a gradient is not known before: {error}")
    return [leaf for leaf, each in zip(leaves, found, strict=True) if each is not None]


def replay(vm: VM) -> Replayed:
    """The graph so far, on stand-ins.

    Raises:
        NoFacts: it cannot run there.
    """
    given: dict[fx.Node, Any] = {}
    for known in vm.graph.inputs:
        example = known.example
        given[known.node] = facts_of(example) if isinstance(example, torch.Tensor) else example
    if any(changes_autocast(node.target) for node in vm.graph.graph.nodes):
        raise NoFacts("autocast")
    return Replayed(vm.graph.graph, given, records)


def records(node: fx.Node) -> bool:
    """Whether autograd has recorded what a node does."""
    if RECORDED in node.meta:
        return True
    if WRITES in node.meta or LEAF in node.meta:
        return False
    items = (user for user in node.users if user.target is getitem)
    return TRAINS in node.meta or any(TRAINS in item.meta for item in items)


def made_leaf(vm: VM, tensor: Tensor) -> Value:
    """`tensor.requires_grad_()` of what the function has made, and nobody else has a view of."""
    vm.stop_inside_a_level("requires_grad_()")
    facts = vm.facts(tensor)
    can_train = facts.dtype.is_floating_point or facts.dtype.is_complex
    if tensor.source is not None or tensor in vm.sharing or facts.is_inference or not can_train:
        vm.stop(reasons.TENSOR_USE, "Tensor.requires_grad_")
    leaf = replace(facts, requires_grad=True, is_leaf=True)
    outcome = Outcome(TheArgument(0), (0,), (leaf,), frozenset(), random=False)
    made, node = known_op(vm, "requires_grad_", (tensor,), outcome)
    vm.made_leaves[node] = tensor
    return made
