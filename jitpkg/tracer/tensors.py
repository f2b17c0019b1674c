"""Tensors: inputs of the graph, ops on them, their attributes."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts.decomposed import is_recurrent
from jitpkg.facts.outcome import (
    DataDependent,
    NeedsNumbers,
    NoFacts,
    Outcome,
    Shape,
    TheArgument,
    WouldRaise,
    with_numbers,
)
from jitpkg.facts.questions import same_question
from jitpkg.facts.random_streams import can_be_set_back
from jitpkg.facts.sizes import Length, Size
from jitpkg.facts.tensor import TensorFacts, facts_of, why_not_plain
from jitpkg.guards.kinds import Answers, TypeIs
from jitpkg.guards.metadata import SizesAre, TensorIs
from jitpkg.guards.sources import Source
from jitpkg.internals import modes, trees
from jitpkg.internals.ops import is_of_another_library
from jitpkg.internals.tensors import BASE
from jitpkg.marks import (
    DIMS,
    DYNAMIC_DIMS,
    LEAF,
    MEMORY,
    OUTCOME,
    RANDOM,
    RECORDED,
    SCALAR,
    TRAINS,
    WRITES,
    Dims,
)
from jitpkg.tracer import (
    array_memory,
    constant_tensors,
    containers,
    default_device,
    guesses,
    numbers,
    operands,
    reasons,
    resizing,
    switches,
    warnings,
)
from jitpkg.tracer.counters import may_be_small
from jitpkg.tracer.proxied import Proxied
from jitpkg.tracer.torch_calls import is_graph_function
from jitpkg.tracer.values import (
    Constant,
    Opaque,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import RANDOM_STREAM, SHOWN, VM, Args, Escape, Failure, Kwargs

__all__ = ["existing", "is_graph_function", "op"]


def existing(vm: VM, obj: torch.Tensor, source: Source) -> Value:
    """An existing tensor: an input of the graph, guarded by its metadata."""
    why = why_not_plain(obj)
    if why is not None:
        vm.guard(TypeIs(source, type(obj)))
        return Opaque(source, obj, why)
    facts = facts_of(obj)
    dims = vm.history.dims(source, obj, facts)
    if dims:
        facts = numbers.symbolic_facts(vm, facts, source, dims, getattr(obj, DYNAMIC_DIMS, {}))
    vm.guard(TensorIs(source, facts))
    related = SizesAre(source, facts)
    if not related.is_idle:
        vm.guard(related)
    tensor = Tensor(vm.graph.placeholder(source, obj), source)
    vm.heap.write(tensor, "facts", facts)
    array_memory.check_apart(vm)
    return tensor


# Ops


def op(
    vm: VM,
    target: Callable[..., Any] | str,
    args: Args,
    kwargs: Kwargs | None = None,
    *,
    opaque: bool = False,
    outcome: Outcome | None = None,
) -> Value:
    """Add an op to the graph; `opaque` for a function of the program's, of which perhaps the
    outcome is known."""
    kwargs = kwargs or {}
    if vm.devices:
        kwargs = default_device.told_by_us(vm, target, kwargs)
    name = _name_of(target)
    args, kwargs = constant_tensors.as_numbers(vm, name, args, kwargs)
    if not opaque:
        resizing.check_factors(vm, name, args, kwargs)
    by_type = not opaque and operands.of_any_number(name)
    if target is operator.setitem:
        vm.peek(args[1])  # of an index more than the class counts
    stores = target is operator.setitem or (not opaque and operands.in_lists(name))
    looks = opaque or name in _TAKING_DATA
    proxied = Proxied(vm, {}, by_type=by_type, stores=stores, opaque=opaque, looks_at_classes=looks)
    began = vm.graph.mark()
    node_args = tuple(proxied.node(value) for value in args)
    node_kwargs = {name: proxied.node(value) for name, value in kwargs.items()}
    fact_args = tuple(proxied.facts(value) for value in args)
    fact_kwargs = {name: proxied.facts(value) for name, value in kwargs.items()}
    tensors = list(proxied.tensors)

    if isinstance(target, types.BuiltinFunctionType) and target.__module__ == "_operator":
        operands.check_operator(vm, target.__name__.strip("_"), args)
    call = _method_caller(target) if isinstance(target, str) else target
    known = outcome
    by_program = opaque or is_of_another_library(call)
    if outcome is None:
        _check_attributes(vm, name, tensors, by_program=by_program)
        outcome = _known_outcome(vm, target, call, fact_args, fact_kwargs, proxied)
    if not opaque:
        operands.check_fits(vm, name, args, kwargs, outcome)
        switches.guard_all(vm, name)
    _check_written(vm, name, tensors, outcome)
    guesses.check_op(vm, name, tensors, outcome)
    _check_grad_of_views(vm, tensors, outcome)
    if not torch.is_grad_enabled():
        _check_bases(vm, tensors, outcome)
    if outcome.mutated and not torch.is_inference_mode_enabled():
        _check_frozen(vm, name, outcome)
    if "out" in fact_kwargs:
        _check_resized(vm, name, tensors, outcome)
    if not opaque and is_recurrent(call) and not vm.whole:
        _check_recurrence(vm, name, outcome)

    if not outcome.shares and not outcome.mutated and outcome.result is not None:
        if opaque:
            vm.stop(reasons.NO_FACTS, f"{name} returns no tensor")
        return _metadata(vm, outcome.result)
    if outcome.warns:
        shown = fact_args[1] if call is getattr else name
        target = warnings.in_its_place(vm, target, shown)
    half = operands.may_leave_half(vm, name, fact_args, tensors, outcome)
    may_fail = by_program or not _only_views(name, outcome)
    failure = failure_of(vm, name, half=half, by_program=by_program, may_fail=may_fail)
    if isinstance(target, str):
        node = vm.graph.call_method(target, node_args, node_kwargs)
    else:
        node = vm.graph.call_function(target, node_args, node_kwargs)
    if by_type and proxied.has_floats:
        scalar = operands.scalar(vm, name, args, kwargs)
        if scalar is not operands.NOT_A_SCALAR:
            node.meta[SCALAR] = scalar
    _describe(vm, node, tensors, outcome)
    if known is not None:
        node.meta[OUTCOME] = known
    vm.failures.update(dict.fromkeys(vm.graph.names_since(began), failure))
    _note_mutations(vm, tensors, outcome)
    if outcome.warns:
        vm.mutations.append(SHOWN)
    renames = outcome.mutated if not name.endswith("_") else range(len(tensors))
    result = _Results(vm, node, tensors, iter(outcome.shares), renames).value(outcome.result)
    if known is None and not opaque and all(each in vm.constant_tensors for each in tensors):
        constant_tensors.note(vm, call, args, kwargs, outcome, result)
    return result


_TAKING_DATA = frozenset({"tensor", "as_tensor", "asarray", "setitem", "__setitem__"})
"""What makes data of a number, of which the class may count."""


def _describe(vm: VM, node: fx.Node, tensors: list[Tensor], outcome: Outcome) -> None:
    """Note on an op's node what it does besides returning something."""
    if outcome.random:
        node.meta[RANDOM] = True
    if outcome.mutated:
        if torch.is_grad_enabled() and any(vm.facts(each).requires_grad for each in tensors):
            node.meta[RECORDED] = True
        written = (tensors[k] for k in outcome.mutated)
        names = tuple(vm.roots.get(each, each).node.name for each in written)
        vm.graph.note_writes(node, names)


def _only_views(name: str, outcome: Outcome) -> bool:
    """Whether an op gives other views of its arguments, and reads and allocates no data: it fails
    for metadata alone, and would have failed now."""
    is_view = bool(outcome.shares) and all(of is not None for of in outcome.shares)
    return is_view and not outcome.mutated and not outcome.warns and name != "as_strided"


def failure_of(
    vm: VM, name: str, *, half: bool, by_program: bool = False, may_fail: bool = True
) -> Failure:
    """What to do where an op fails that is added now.

    Args:
        half: whether it may have written a part of an input then.
        by_program: whether it runs code of the program's own.
        may_fail: whether it can at all.
    """
    rewindable = not vm.has_written
    escape = Escape()
    if may_fail and (vm.mutations or half):
        may_rewind = rewindable and not half and all(map(can_be_set_back, vm.drawn))
        escape = vm.escape(name, is_last=not may_rewind, by_program=by_program)
    where, heap = vm.break_here(reasons.RAISES), vm.heap.mark()
    return Failure(len(vm.effects), heap, not vm.mutations, rewindable, half, where, escape)


def _check_attributes(vm: VM, name: str, tensors: list[Tensor], *, by_program: bool) -> None:
    """A program's own op may look at attributes, which are set when the graph has run."""
    if by_program and any(vm.heap.read(tensor, "attributes") for tensor in tensors):
        vm.stop(reasons.TENSOR_USE, f"{name} of a tensor that has got an attribute")


def _method_caller(name: str) -> Callable[..., Any]:
    def call(receiver: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(receiver, name)(*args, **kwargs)

    call.__name__ = name  # which rules for single functions ask for
    return call


def _name_of(target: Callable[..., Any] | str) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _known_outcome(
    vm: VM,
    target: Callable[..., Any] | str,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    proxied: Proxied,
) -> Outcome:
    """The outcome of an op: what it was where the trace has asked before."""
    name = _name_of(target)
    if proxied.opaque or proxied.varies:
        return _outcome(vm, name, call, args, kwargs, proxied)
    question = same_question(target, args, kwargs)
    found = vm.outcomes.get(question)
    if found is None:
        found = _outcome(vm, name, call, args, kwargs, proxied)
        if question is not None:
            vm.outcomes[question] = found
    return found


def _outcome(
    vm: VM,
    name: str,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    proxied: Proxied,
) -> Outcome:
    unknown = proxied.opaque or is_of_another_library(call)
    asked = args[1] if call is getattr else "" if unknown else name
    try:
        if not proxied.varies:
            return vm.answers.of_call(asked, call, args, kwargs)
        try:
            outcome = vm.answers.of_call(asked, call, args, kwargs, vm.int_values())
        except (NeedsNumbers, WouldRaise, NoFacts, DataDependent):
            return _of_numbers(vm, asked, call, args, kwargs)
        for relation in outcome.relations:
            numbers.require(vm, relation)
        return outcome
    except DataDependent:
        reason = reasons.DATA_VALUE if name in _VALUES else reasons.DATA_SHAPE
        vm.stop(reason, name)
    except NoFacts as error:
        vm.stop(reasons.NO_FACTS, f"{name}: {error}")
    except WouldRaise as error:
        if proxied.opaque:
            raised = f"{type(error.error).__name__} on tensors without data: {error}"
            vm.stop(reasons.NO_FACTS, f"{name} raises {raised}")
        vm.stop(reasons.RAISES, f"{name} raises {type(error.error).__name__}: {error}")


def _of_numbers(
    vm: VM, name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Outcome:
    """The outcome where what varies is taken to be what it is now, with guards that say so."""

    def now(length: Length) -> int:
        return numbers.now(vm, length)

    known: dict[int, TensorFacts] = {}

    def leaf(value: Any) -> Any:
        match value:
            case TensorFacts():
                if id(value) not in known:
                    size, stride = tuple(map(now, value.size)), tuple(map(now, value.stride))
                    known[id(value)] = replace(value, size=size, stride=stride)
                return known[id(value)]
            case _:
                return with_numbers(value, now)

    args, kwargs = trees.mapped(leaf, (args, kwargs))
    return vm.answers.of_call(name, call, args, kwargs)


_VALUES = frozenset({"item", "bool", "float", "int", "equal", "allclose", "is_nonzero", "truth"})


def _check_grad_of_views(vm: VM, tensors: list[Tensor], outcome: Outcome) -> None:
    """Writing a value that requires grad into a view changes its base and other views, too."""
    for tensor, after in zip(tensors, outcome.arguments, strict=True):
        before = vm.facts(tensor)
        if after.requires_grad == before.requires_grad:
            continue
        if tensor.source is not None or tensor in vm.sharing:
            vm.stop(reasons.UNSUPPORTED, "an in-place op makes a shared tensor require grad")


def _check_bases(vm: VM, tensors: list[Tensor], outcome: Outcome) -> None:
    """A view that is taken without grad mode requires grad if what owns the memory does: that may
    be another tensor, of which the argument is a view itself, made to require grad."""
    for k in {k for k in outcome.shares if k is not None}:
        viewed = vm.roots.get(tensors[k], tensors[k])
        facts = vm.facts(viewed)
        if viewed.source is None or not facts.requires_grad or facts.cls is torch.nn.Parameter:
            continue
        if not requires_grad_as_its_base(vm.graph.example(viewed.node)):
            vm.stop(reasons.UNUSUAL_TENSOR, "a view that requires grad, of what does not")
        what = "whether a view and its base require grad"
        vm.guard(Answers(viewed.source, requires_grad_as_its_base, (), answer=True, what=what))


def requires_grad_as_its_base(x: torch.Tensor) -> bool:
    """Whether what a tensor is a view of, if it is one, requires grad like itself."""
    base = BASE.get()(x)
    with modes.unasked(base):
        return base is None or bool(base.requires_grad == x.requires_grad)


def _check_written(vm: VM, name: str, tensors: list[Tensor], outcome: Outcome) -> None:
    """Torch refuses to write to what is seen through a view that an autograd function has made."""
    if vm.frozen and any(
        vm.roots.get(tensors[k], tensors[k]) in vm.frozen for k in outcome.mutated
    ):
        vm.stop(reasons.UNSUPPORTED, f"{name} writes to a view that an autograd function has made")


def _check_recurrence(vm: VM, name: str, outcome: Outcome) -> None:
    """Where AOTAutograd would see it, it would be unrolled."""
    made = [each for each in trees.leaves_of(outcome.result) if isinstance(each, TensorFacts)]
    if any(facts.requires_grad for facts in made):
        vm.stop(reasons.RECURRENCE, f"{name} of tensors that require grad")
    if any(facts.device.type != "cpu" for facts in made):
        vm.stop(reasons.RECURRENCE, f"{name} on {made[0].device}")


def _check_frozen(vm: VM, name: str, outcome: Outcome) -> None:
    """A write to a tensor of inference mode raises outside of it, when half of it may be done."""
    if any(outcome.arguments[k].is_inference for k in outcome.mutated):
        vm.stop(reasons.RAISES, f"{name} writes to a tensor of inference mode")


def _check_resized(vm: VM, name: str, tensors: list[Tensor], outcome: Outcome) -> None:
    """AOTAutograd would leave an input as long as it was."""
    for k in outcome.mutated:
        tensor = tensors[k]
        owner = vm.roots.get(tensor, tensor)
        if owner.source is not None and vm.facts(tensor).size != outcome.arguments[k].size:
            vm.stop(reasons.NO_FACTS, f"{name} gives its out= another size")


def _note_mutations(vm: VM, tensors: list[Tensor], outcome: Outcome) -> None:
    for k, (tensor, after) in enumerate(zip(tensors, outcome.arguments, strict=True)):
        before = vm.facts(tensor)
        if before != after:
            vm.heap.write(tensor, "facts", after)
        if (before.size, before.stride) != (after.size, after.stride):
            _check_gradient(vm, tensor)
            array_memory.unlink(vm, tensor)
            vm.reshaped.add(tensor)
        owner = vm.roots.get(tensor, tensor)
        if k in outcome.mutated:
            array_memory.note_write(vm, tensor)
            constant_tensors.forget(vm, tensor)
        if k in outcome.mutated and owner.source is not None:
            vm.mutations.append(owner)
            array_memory.check_apart(vm)
            if may_be_small(vm.facts(owner)):
                vm.small[owner] = None
    if outcome.random:
        vm.mutations.append(RANDOM_STREAM)
        made = (leaf for leaf in trees.leaves_of(outcome.result))
        described = (*outcome.arguments, *(f for f in made if isinstance(f, TensorFacts)))
        vm.drawn.update(facts.device for facts in described)


def _check_gradient(vm: VM, tensor: Tensor) -> None:
    """A gradient is assigned to a tensor of its sizes, and the trace's when the graph has run."""
    if vm.heap.read(tensor, "grad") is not None:
        vm.stop(reasons.TENSOR_USE, "other sizes for a tensor whose .grad was assigned")


def _metadata(vm: VM, result: Any) -> Value:
    """A result without tensors: it follows from metadata, which is guarded."""
    if isinstance(result, tuple):
        cls = torch.Size if isinstance(result, Shape) else type(result)
        return Tuple(tuple(_metadata(vm, item) for item in result), cls)
    if isinstance(result, list):
        return containers.new_list(vm, tuple(_metadata(vm, item) for item in result))
    if isinstance(
        result, bool | int | float | complex | str | torch.dtype | torch.device | torch.layout
    ):
        return Constant(result)
    if isinstance(result, Size):
        return numbers.length(vm, result)
    if isinstance(result, torch.finfo | torch.iinfo):
        return vm.trusted(result)
    vm.stop(reasons.UNSUPPORTED, f"an op that returns a {type(result).__qualname__}")


@dataclass
class _Results:
    """Turns the description of a result into values."""

    vm: VM
    node: fx.Node
    arguments: list[Tensor]
    shares: Any
    renames: Container[int]
    """The arguments that the graph knows as the result from now on, where that is one of them. What
    only returns its argument, as `dropout` may, returns a copy when AOTAutograd traces it."""

    def value(self, result: Any, node: fx.Node | None = None) -> Value:
        node = node or self.node
        match result:
            case TensorFacts() | TheArgument():
                return self._tensor(result, node)
            case tuple() | list():
                items = tuple(
                    self.value(item, self._item(node, k)) if _has_tensor(item) else self.value(item)
                    for k, item in enumerate(result)
                )
                if isinstance(result, list):
                    return containers.new_list(self.vm, items)
                return Tuple(items, type(result))
            case None:
                return Constant(None)
            case _:
                return _metadata(self.vm, result)

    def _item(self, node: fx.Node, k: int) -> fx.Node:
        item = self.vm.graph.item(node, k)
        self.vm.failures[item.name] = self.vm.failures[self.node.name]
        return item

    def _tensor(self, result: TensorFacts | TheArgument, node: fx.Node) -> Tensor:
        shared = next(self.shares)
        if isinstance(result, TheArgument):
            tensor = self.arguments[result.index]
            if result.index in self.renames and tensor.node.target is not torch.nn.Parameter:
                self.vm.heap.write(tensor, "node", node)  # a parameter that is made stays its own
            return self._noted(tensor, node)
        tensor = Tensor(node)
        self.vm.heap.write(tensor, "facts", result)
        if shared is not None:
            base = self.arguments[shared]
            self.vm.sharing.update((tensor, base))
            array_memory.unlink(self.vm, base)
            self.vm.roots[tensor] = self.vm.roots.get(base, base)
        return self._noted(tensor, node)

    def _noted(self, tensor: Tensor, node: fx.Node) -> Tensor:
        facts = self.vm.facts(tensor)
        if facts.is_symbolic:
            dims = (dim for dim, length in enumerate(facts.size) if isinstance(length, Size))
            node.meta[DIMS] = Dims(frozenset(dims))
        root = self.vm.roots.get(tensor, tensor).node
        if root is not node:
            node.meta[MEMORY] = root.name
        if facts.requires_grad:
            node.meta[TRAINS] = root.name
            if facts.is_leaf and root is not node and WRITES not in node.meta:
                node.meta[LEAF] = True
        return tensor


def _has_tensor(result: Any) -> bool:
    if isinstance(result, tuple | list):
        return any(map(_has_tensor, result))
    return isinstance(result, TensorFacts | TheArgument)
