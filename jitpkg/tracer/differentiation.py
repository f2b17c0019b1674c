"""`backward()` in a compiled function: one op of the graph, which returns the gradients.

Which leaves get one is known before the graph runs: those that what is differentiated was computed
from, as far as autograd records. The gradients are then assigned to the leaves' `.grad`, as any
attribute is, or added to what is there. A leaf that has a hook, or is itself the result of an op
that ran before, is left to torch: Python calls the real `backward()`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import getitem
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import get_gradient_edge

from jitpkg.facts.layout import gradient_of
from jitpkg.facts.outcome import Outcome
from jitpkg.facts.tensor import TensorFacts
from jitpkg.guards.kinds import Is, LengthIs
from jitpkg.guards.metadata import LeafIs, is_bare_leaf
from jitpkg.guards.sources import Attr, Source
from jitpkg.internals import tensors as private
from jitpkg.internals.ops import is_of_another_library
from jitpkg.marks import (
    ASKED,
    BODY,
    GRADIENTS,
    LEAF,
    MEMORY,
    RECOMPUTED,
    RECORDED,
    TRAINS,
    WRITES,
)
from jitpkg.tracer import asked_gradients, reasons
from jitpkg.tracer.effects import SetAttribute
from jitpkg.tracer.proxied import Proxied
from jitpkg.tracer.tensor_attributes import guard_leaf
from jitpkg.tracer.values import Constant, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM


def gradients(
    roots: Sequence[torch.Tensor],
    tangents: Sequence[torch.Tensor],
    leaves: Sequence[torch.Tensor],
    retain_graph: bool,
) -> tuple[torch.Tensor, ...]:
    """What `backward` would leave in the leaves' `.grad` if nothing was there: memory of their own,
    laid out like the leaves.

    Raises:
        RuntimeError: as `torch.autograd.backward` does, or a leaf gets no gradient.
    """
    before = [leaf.grad for leaf in leaves]
    try:
        for leaf in leaves:
            leaf.grad = None
        if len(roots) == 1:  # what most programs call, and see in a traceback
            root: Any = roots[0]
            root.backward(tangents[0], retain_graph, inputs=list(leaves))
        else:
            torch.autograd.backward(
                list(roots), list(tangents), retain_graph=retain_graph, inputs=list(leaves)
            )
    except BaseException as error:
        pairs = [(leaf, leaf.grad) for leaf in leaves]
        setattr(error, _REACHED, [(leaf, grad) for leaf, grad in pairs if grad is not None])
        raise
    finally:
        found = [leaf.grad for leaf in leaves]
        for leaf, grad in zip(leaves, before, strict=True):
            leaf.grad = grad
    made = tuple(each for each in found if each is not None)
    if len(made) < len(leaves):
        raise RuntimeError(
            "backward() gives no gradient to a leaf that the graph takes for one that gets one:"
            " please report it."
        )
    return made


_REACHED = "_jitpkg_reached"
"""The attribute of an exception: the leaves that the pass had reached, and their gradients."""


def accumulate_reached(error: BaseException) -> None:
    """Do what a pass has done before it failed, as the engine does it."""
    for leaf, grad in error.__dict__.pop(_REACHED, ()):
        if leaf.grad is None:
            leaf.grad = grad
        else:
            with torch.no_grad():
                leaf.grad += grad


def leaves_of(vm: VM, roots: Value, inputs: Value) -> Value:
    """The leaves that get a gradient, in the order in which the graph has them."""
    asked_gradients.check_state(vm)
    given = asked_gradients.tensors_of(vm, roots)
    nodes = [vm.node(root) for root in given]
    reached = _reached(vm, nodes)
    if any(ASKED in node.meta for node in vm.graph.graph.nodes):
        reached = asked_gradients.reached(vm, nodes, reached)
    if not reached:
        vm.stop(reasons.BACKWARD, "it goes to tensors that the graph does not have")
    looked = vm.look(inputs)
    given_leaves = [node for node in reached if node not in vm.made_leaves]
    for example in map(vm.graph.example, given_leaves):
        if not private.is_leaf(example):  # what is asked for may lie there
            vm.stop(reasons.BACKWARD, "it goes on in what was computed before the graph")
        base = private.BASE.get()(example)
        if base is not None and base.requires_grad:
            vm.stop(reasons.BACKWARD, "it ends at a view that was taken with grad mode off")
    leaves = [_leaf(vm, node) for node in reached]
    _guard_leaves(vm, leaves)
    if not (isinstance(looked, Constant) and looked.value is None):
        asked = asked_gradients.tensors_of(vm, looked)
        if len(set(asked)) < len(asked) or not all(_is_given_leaf(vm, each) for each in asked):
            vm.stop(reasons.BACKWARD, "inputs= names what is no leaf of the graph's")
        _guard_leaves(vm, asked)  # others would retain their gradients from then on
        leaves = [each for each in asked if each in leaves]
    for leaf in leaves:
        if leaf.source is not None:
            _check_leaf(vm, vm.graph.example(leaf.node), leaf.source)
    return Tuple(tuple(leaves))


def derivatives(vm: VM, roots: Value, tangents: Value, leaves: Value, keep: Value) -> Value:
    """An op of the graph, whose results are the gradients of the leaves."""
    args = roots, tangents, leaves, keep
    proxied = Proxied(vm, {}, opaque=True)
    for arg in args:
        proxied.facts(arg)
    made = tuple([gradient_of(vm.facts(leaf)) for leaf in asked_gradients.tensors_of(vm, leaves)])
    if any(each is None for each in made):
        vm.stop(reasons.BACKWARD, "how the gradient of a leaf lies in memory is not known before")
    facts = tuple(vm.facts(tensor) for tensor in proxied.tensors)
    outcome = Outcome(made, (None,) * len(made), facts, frozenset(), random=False)
    result, node = asked_gradients.known_op(vm, gradients, args, outcome)
    node.meta[GRADIENTS] = True
    return result


def set_grad(vm: VM, tensor: Tensor, new: Value) -> bool:
    """`tensor.grad = new` of an existing leaf; says whether that is what it is."""
    value = vm.look(new)
    made = vm.node(tensor) in vm.made_leaves
    if not vm.facts(tensor).is_leaf or (tensor.source is None and not made):
        return False
    _guard_leaves(vm, [tensor])  # to ask others for it warns
    match value:
        case Constant(None):
            pass
        case Tensor() if _fits(vm.facts(tensor), vm.facts(value)):
            pass
        case _:
            return False
    vm.heap.write(tensor, "grad", value)
    if not made:  # whoever sees that one is given it with its gradient
        vm.effect(SetAttribute(tensor, "grad", value))
    return True


def _fits(facts: TensorFacts, grad: TensorFacts) -> bool:
    """Whether torch takes it for a gradient."""
    same = (facts.size, facts.dtype, facts.device) == (grad.size, grad.dtype, grad.device)
    return same and facts.is_inference == grad.is_inference


# Which leaves


def _reached(vm: VM, roots: Sequence[fx.Node]) -> list[fx.Node]:
    """The inputs of the graph that get a gradient."""
    writes = _recorded(vm.graph.graph)
    if any(node.meta.get(MEMORY) in writes for node in vm.made_leaves):
        vm.stop(reasons.BACKWARD, "a leaf lies in memory of what has a history")
    seen: set[fx.Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op == "placeholder":
            continue
        if node in vm.made_leaves:
            continue
        _check_known(vm, node)
        goes_on = _differentiated(vm, node)
        for used in node.all_input_nodes:
            written = writes.get(used.meta.get(MEMORY, used.name), ())
            goes_on += [write for write in written if write < node]
        if LEAF in node.meta or (TRAINS in node.meta and not goes_on):
            vm.stop(reasons.BACKWARD, f"it ends at what the function has made: {node.name}")
        stack += goes_on
    given = [i.node for i in vm.graph.inputs if i.node in seen]
    return given + [node for node in vm.made_leaves if node in seen]


def _recorded(graph: fx.Graph) -> Mapping[str, Sequence[fx.Node]]:
    """The ops that have written to memory in a way that autograd records, by what has made it."""
    found: defaultdict[str, list[fx.Node]] = defaultdict(list)
    for node in graph.nodes:
        for name in node.meta[WRITES] if RECORDED in node.meta else ():
            found[name].append(node)
    return found


def _check_known(vm: VM, node: fx.Node) -> None:
    """Of what only the program knows nobody can say which arguments get a gradient. If the graph
    finds that out, Python goes backward, as long as nothing has been written."""
    target = node.target
    if isinstance(target, str) or not _KNOWN.isdisjoint(node.meta):
        return
    module = getattr(target, "__module__", None) or ""
    if module.startswith(_OF_TORCH) and not is_of_another_library(target):
        return
    if vm.has_written:
        vm.stop(reasons.BACKWARD, f"what {target} does to gradients is not known")


_KNOWN = frozenset({BODY, RECOMPUTED, ASKED})
_OF_TORCH = ("torch", "_operator", "builtins")


def _differentiated(vm: VM, node: fx.Node) -> list[fx.Node]:
    """The arguments of an op that its gradient goes on to."""
    used = node.all_input_nodes
    if WRITES in node.meta and RECORDED not in node.meta:  # what it writes to keeps its history
        used = [x for x in used if x.meta.get(MEMORY, x.name) in node.meta[WRITES]]
    if node.target is getitem:  # of several results, or of a tensor
        return [x for x in used if x.op != "placeholder" or _is_differentiated(vm, node, x)]
    return [x for x in used if _is_differentiated(vm, node, x)]


def _is_differentiated(vm: VM, node: fx.Node, used: fx.Node) -> bool:
    """Whether the gradient of an op goes on to one of its arguments."""
    if used.op == "placeholder":
        given = vm.graph.input(used)
        example = None if given is None else given.example
        if not isinstance(example, torch.Tensor) or not example.requires_grad:
            return False
    elif TRAINS not in used.meta:
        return False
    if not _is_counted(node, used):
        return False
    body = node.meta.get(BODY)
    return body is None or _has_gradient(body, node, used)


def _is_counted(node: fx.Node, used: fx.Node) -> bool:
    """Whether an op's formula is not known to leave an argument out. The op database tells which
    do (`tests/tracer/test_backward_of_ops.py`)."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name in _ORDERS:
        return bool(_argument(node, *_ORDERS[name]) != 0)
    return name not in _TARGETS or _argument(node, *_TARGETS[name]) is not used


def _argument(node: fx.Node, place: int, name: str) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name)


_ORDERS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "norm": (1, "p"),
        "linalg_norm": (1, "ord"),
        "linalg_vector_norm": (1, "ord"),
        "_foreach_norm": (1, "ord"),
        "dist": (2, "p"),
        "pairwise_distance": (2, "p"),
    }
)
"""Where norms have their order: one of order 0 counts, and has a history without gradients."""
_TARGETS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {"cosine_embedding_loss": (2, "target"), "hinge_embedding_loss": (1, "target")}
)
"""Where losses have what they only compare."""


def _has_gradient(body: fx.Graph, node: fx.Node, used: fx.Node) -> bool:
    """Whether the `backward` of an autograd function returns one for an argument."""
    returned: Any = body.output_node().args[0]
    _, found = returned
    return any(
        arg is used and gradient is not None
        for arg, gradient in zip(node.args, found, strict=False)
    )


def _leaf(vm: VM, node: fx.Node) -> Tensor:
    if node in vm.made_leaves:
        return vm.made_leaves[node]
    found = vm.seen.get(id(vm.graph.example(node)))
    if not isinstance(found, Tensor):
        vm.stop(reasons.BACKWARD, f"the leaf {node.name} is not known by a name")
    return found


def _guard_leaves(vm: VM, leaves: Sequence[Tensor]) -> None:
    for leaf in leaves:
        if leaf.source is None:
            continue
        guard_leaf(vm, vm.graph.example(leaf.node), leaf.source)


def _is_given_leaf(vm: VM, tensor: Tensor) -> bool:
    facts = vm.facts(tensor)
    known = tensor.source is not None or vm.node(tensor) in vm.made_leaves
    return known and facts.is_leaf and facts.requires_grad


def _check_leaf(vm: VM, leaf: torch.Tensor, source: Source) -> None:
    dtype = getattr(leaf, "grad_dtype", leaf.dtype)
    if dtype is not leaf.dtype:
        vm.stop(reasons.BACKWARD, "a gradient of another dtype than its leaf")
    if _is_hooked(leaf):
        vm.stop(reasons.BACKWARD, "a hook waits for the gradient of a leaf")
    if is_bare_leaf(leaf):
        vm.guard(LeafIs(source, type(leaf), is_bare=True))
        return
    if hasattr(leaf, "grad_dtype"):
        vm.guard(Is(Attr(source, "grad_dtype"), dtype))
    for name, row in (
        ("_backward_hooks", private.HOOKS),
        ("_post_accumulate_grad_hooks", private.HOOKS_BEHIND),
    ):
        hooks = row.get()(leaf)
        if hooks:
            vm.stop(reasons.BACKWARD, "a leaf has a hook")
        vm.guard(Is(Attr(source, name), None) if hooks is None else LengthIs(Attr(source, name), 0))


def _is_hooked(leaf: torch.Tensor) -> bool:
    """Whether the node that accumulates a leaf's gradients has a hook, of Python's or in C++.

    That node lives only as long as somebody holds it.
    """
    node: Any = get_gradient_edge(leaf).node
    for register in (node.register_hook, node.register_prehook):
        handle = register(_nothing)
        hooks = handle.hooks_dict_ref()
        handle.remove()
        if hooks:
            return True
    node.metadata[_MARK] = True
    del node, handle, register
    metadata: Any = get_gradient_edge(leaf).node.metadata
    in_use = metadata.pop(_MARK, False)
    return in_use and torch.distributed.is_available() and torch.distributed.is_initialized()


def _nothing(*gradients: object) -> None:
    """A hook that changes nothing."""


_MARK = "jitpkg"
