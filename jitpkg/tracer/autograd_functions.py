"""Calls of `torch.autograd.Function.apply`.

Where no gradient is asked for, `forward` is traced like any function. Else the call is one op of
the graph, whose derivative is the program's own code: whoever differentiates the graph calls that.
So both `forward` and `backward` are traced first, to see that they do nothing but compute with what
they are given, and to guard what they read.
"""

from __future__ import annotations

import enum
import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from torch import fx

from jitpkg.facts.outcome import Outcome
from jitpkg.facts.tensor import TensorFacts
from jitpkg.guards.kinds import (
    ABSENT,
    Answers,
    BasesAre,
    CodeIs,
    ConstantIs,
    Exists,
    Guard,
    Has,
    Is,
    KeysAre,
    LengthIs,
    LineageIs,
    TypeIs,
)
from jitpkg.guards.numbers import Holds
from jitpkg.guards.sources import Attr, Globals, Held, Item, Source
from jitpkg.marks import BODY, LEAVES, OUTCOME
from jitpkg.tracer import lookahead, marked, parameters, reasons, tensors
from jitpkg.tracer.heap import values_of
from jitpkg.tracer.look import KNOWN
from jitpkg.tracer.polyfills import autograd_functions as polyfills
from jitpkg.tracer.proxied import Proxied
from jitpkg.tracer.values import (
    Constant,
    Known,
    Lazy,
    Marker,
    Number,
    Object,
    String,
    Tensor,
    Tuple,
    Value,
    class_in,
)
from jitpkg.tracer.vm import RANDOM_STREAM, VM, Args, Kwargs, Mark, Raised, Stopped

Function = torch.autograd.Function


def applied(vm: VM, function: Value, receiver: Value, args: Args, kwargs: Kwargs) -> Value | None:
    """What `receiver.apply(...)` means where `receiver` is an autograd function; else None."""
    if not isinstance(function, Known | Lazy) or function.obj is not _APPLY:
        return None
    cls = class_in(vm.look(receiver))
    if cls is None or not issubclass(cls, Function):
        return None
    vm.identify(vm.look(function))
    return _applied(vm, cls, vm.look(receiver), args, kwargs)


def applied_by_builtin(vm: VM, function: Known, args: Args, kwargs: Kwargs) -> Value | None:
    """The same where `cls.apply` is a function written in C, as it is since PyTorch 2.14."""
    match function.obj:
        case types.BuiltinFunctionType(__name__="apply", __self__=type() as cls) if issubclass(
            cls, Function
        ):
            return _applied(vm, cls, vm.trusted(cls), args, kwargs)
    return None


def _function_in(descriptor: Any) -> Any:
    """The function that is called with the class: a descriptor written in C is its own."""
    return getattr(descriptor, "__func__", descriptor)


_APPLY = _function_in(inspect.getattr_static(Function, "apply"))


def apply(cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`cls.apply`; FX wants to know of a target what module it is from, of a builtin as well."""
    return cls.apply(*args, **kwargs)


def _applied(vm: VM, cls: type, known: Value, args: Args, kwargs: Kwargs) -> Value:
    if marked.is_allowed(cls):
        return tensors.op(vm, MethodType(apply, cls), args, kwargs, opaque=True)
    vm.stop_inside_a_level("an autograd.Function")
    if kwargs or _has_defaults(cls, len(args)):
        vm.stop(reasons.UNSUPPORTED, f"arguments of {_name(cls)} by name or by default")
    looked = tuple(map(vm.peek, args))
    needs = [isinstance(arg, Tensor) and vm.facts(arg).requires_grad for arg in looked]
    given = known, Tuple(tuple(map(Constant, needs))), Tuple(looked)
    if torch.is_grad_enabled() and any(needs):
        return _as_op(vm, cls, given, looked)
    outside = torch.is_grad_enabled()
    forward = polyfills.forward_without_grad if outside else polyfills.forward
    _, result = _forward(vm, cls, forward, given)
    made = tuple(_without_gradient(vm, cls, each, looked) for each in _items(result))
    return Tuple(made) if isinstance(result, Tuple) else made[0]


def _without_gradient(vm: VM, cls: type, value: Value, args: Args) -> Value:
    """What `apply` returns for one result of `forward`: another object for an argument."""
    value = vm.look(value)
    if not isinstance(value, Tensor):
        return value
    if vm.facts(value).requires_grad:
        vm.stop(reasons.AUTOGRAD_FUNCTION, f"{_name(cls)}: what requires grad is returned")
    return vm.op("view_as", (value, value)) if value in args else value


def _has_defaults(cls: Any, given: int) -> bool:
    """Whether `setup_context` is to get more than `apply` does."""
    if cls.setup_context is Function.setup_context:
        return False
    code = getattr(cls.forward, "__code__", None)
    return code is None or code.co_argcount + code.co_kwonlyargcount > given


def _forward(vm: VM, cls: type, forward: Callable[..., Any], given: Args) -> tuple[Value, Value]:
    """The context and the result of `forward`."""
    ctx, result = vm.unpack(vm.call_object(forward, *given))
    if _items(vm.attribute(ctx, "dirty_tensors")):
        vm.stop(reasons.UNSUPPORTED, f"{_name(cls)} writes to what it is given (mark_dirty)")
    if isinstance(result, Tuple) and result.cls is not tuple:
        vm.stop(reasons.UNSUPPORTED, f"{_name(cls)} returns a {result.cls.__name__}")
    return ctx, result


def _items(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, Tuple) else (value,)


# As one op


def _as_op(vm: VM, cls: type, given: Args, args: Args) -> Value:
    known, *_ = given
    proxied = Proxied(vm, {}, opaque=True)
    for arg in args:  # what the graph cannot take is refused before anything is traced
        proxied.node(arg)
        proxied.facts(arg)
    order = list(proxied.tensors)
    if any(vm.heap.read(tensor, "attributes") for tensor in order):
        vm.stop(reasons.AUTOGRAD_FUNCTION, f"{_name(cls)} may read attributes that are set later")
    inputs, _ = vm.graph.mark()
    try:
        with lookahead.lookahead(vm) as before, torch.no_grad():
            ctx, result = _forward(vm, cls, polyfills.forward, given)
            described = _Described(vm, ctx, order)
            returned, shares = described.result(result)
            gradients = _backward(vm, known, ctx, _items(result))
            if any(isinstance(new.example, torch.Tensor) for new in vm.graph.inputs[inputs:]):
                vm.stop(reasons.UNSUPPORTED, "a tensor is read that is no argument")
            random = _check(vm, before)
            ends = _nodes(vm, result), _nodes(vm, gradients)
            body, _ = vm.graph.part(before.graph, ends)
    except Stopped as stopped:
        why = stopped.graph_break
        said = why.detail if why.reason is reasons.UNSUPPORTED else str(stopped)
        vm.stop(reasons.AUTOGRAD_FUNCTION, f"{_name(cls)}: {said}")
    except Raised as raised:
        vm.stop(reasons.AUTOGRAD_FUNCTION, f"{_name(cls)}: {raised} is raised")
    facts = tuple(vm.facts(tensor) for tensor in order)
    outcome = Outcome(returned, shares, facts, frozenset(), random)
    began = vm.graph.mark()
    made = tensors.op(vm, MethodType(apply, cls), args, opaque=True, outcome=outcome)
    vm.graph.nodes_since(began)[0].meta[BODY] = body
    for each, shared in zip(_tensors(made), shares, strict=True):
        if shared is not None:
            vm.frozen.add(vm.roots[each])
    return made


def note_views(vm: VM, leaving: Iterable[Value]) -> None:
    """Mark the calls if one of these values is a view that one of them has made."""
    seen = (vm.roots.get(value) for value in leaving if isinstance(value, Tensor))
    if any(root in vm.frozen for root in seen):
        for node in vm.graph.graph.nodes:
            if OUTCOME in node.meta and any(k is not None for k in node.meta[OUTCOME].shares):
                node.meta[LEAVES] = True


def _tensors(value: Value) -> list[Tensor]:
    return [each for each in _items(value) if isinstance(each, Tensor)]


def _check(vm: VM, before: Mark) -> bool:
    """Whether random numbers are drawn, where nothing else is done.

    Raises:
        Stopped: the program would see more.
    """
    if len(vm.effects) != before.effects:
        vm.stop(reasons.UNSUPPORTED, "an object of the program's is changed")
    if parameters.among(vm.graph.nodes_since(before.graph)):
        vm.stop(reasons.UNSUPPORTED, "a parameter is made")
    written = vm.mutations[before.mutations :]
    unseen = all(each is RANDOM_STREAM for each in written)
    if not unseen or lookahead.changed(vm, before):
        vm.stop(reasons.UNSUPPORTED, "something is changed that was there before")
    return bool(written)


def _nodes(vm: VM, values: Value) -> tuple[fx.Node | None, ...]:
    """The nodes of tensors, in a tuple or alone; None for what is none."""
    looked = map(vm.look, _items(values))
    return tuple(vm.node(each) if isinstance(each, Tensor) else None for each in looked)


def _backward(vm: VM, cls: Value, ctx: Value, results: Sequence[Value]) -> Value:
    """Trace `backward` for gradients of which each may be missing where `ctx` says so."""
    gradients = [
        vm.op(torch.empty_like, (each,)) if isinstance(each, Tensor) else Constant(None)
        for each in results
    ]
    if not vm.truth(vm.attribute(ctx, "materialize_grads")) and len(gradients) > 1:
        vm.stop(reasons.UNSUPPORTED, "gradients that are not materialized")
    kept = vm.heap.read(vm.look(ctx), "attributes") or {}
    if not all(_is_own(vm, value) for value in kept.values()):
        vm.stop(reasons.UNSUPPORTED, "ctx leads to an object that may have changed until backward")
    read = len(vm.guards)
    vm.seen, vm.owners, vm.found_in_classes = {}, {}, {}  # what it reads is read now
    drawn = len(vm.mutations)
    found = vm.look(vm.call_object(polyfills.backward, cls, ctx, Tuple(tuple(gradients))))
    if any(each is RANDOM_STREAM for each in vm.mutations[drawn:]):
        vm.stop(reasons.UNSUPPORTED, "backward draws random numbers, which are not drawn forward")
    if any(map(_is_of_data, vm.guards[read:])):
        vm.stop(reasons.UNSUPPORTED, "backward reads what may have changed until it runs")
    return found


def _is_own(vm: VM, value: Value | Marker) -> bool:
    """Whether what `forward` leaves on the context is plain, and of its own making."""
    if isinstance(value, Marker):
        return True
    value = vm.peek(value)
    match value:
        case Tensor():
            return not vm.heap.read(value, "attributes")
        case Constant() | Number() | String():
            return True
        case Known(obj):
            return isinstance(obj, _CODE)
        case Tuple():
            return all(_is_own(vm, item) for item in value.items)
        case Object(source=None, cls=cls) if cls in (list, dict):
            states = [vm.heap.read(value, "items"), vm.heap.read(value, "entries")]
            held = values_of(((value, "items"), state) for state in states)
            return all(each is value or _is_own(vm, each) for each in held)
    return False


def _is_of_data(guard: Guard) -> bool:
    """Whether a guard says more than which code there is."""
    match guard:
        case Is(at, obj):
            return not (isinstance(obj, _CODE) or _is_of_function(at))
        case LineageIs(found=found):
            return not all(held is ABSENT or isinstance(held, _CODE) for _, held in found)
        case TypeIs() | CodeIs() | BasesAre() | Exists() | Holds():
            return False
        case Answers(function=asked) if asked is tensors.requires_grad_as_its_base:
            return False
        case Has(at, present=False) if isinstance(at, Held | Globals):
            return False
        case LengthIs(at) | KeysAre(at) | ConstantIs(at):
            return not _is_of_function(at)
        case _:
            return True


def _is_of_function(source: Source) -> bool:
    """Whether a path leads to a part of a function: the default of a parameter, its globals."""
    at = source.base if isinstance(source, Item) else source
    return isinstance(at, Attr) and at.name in ("__defaults__", "__kwdefaults__", "__globals__")


_CODE = (types.FunctionType, *(cls for cls in KNOWN if cls is not enum.Enum))
"""What is defined, and as a rule never replaced."""


class _Described:
    """What `forward` has returned, as facts."""

    def __init__(self, vm: VM, ctx: Value, order: Sequence[Tensor]) -> None:
        self.vm = vm
        self.order = order
        constant = _items(vm.attribute(ctx, "non_differentiable"))
        self.constant = {each for each in constant if isinstance(each, Tensor)}
        self.memories: list[Tensor] = []
        self.shares: list[int | None] = []

    def result(self, result: Value) -> tuple[Any, tuple[int | None, ...]]:
        """It, and for each tensor the argument whose memory it shares."""
        if not isinstance(result, Tuple):
            return self._one(result), tuple(self.shares)
        items = tuple(map(self._one, result.items))
        return items, tuple(self.shares)

    def _one(self, value: Value) -> Any:
        value = self.vm.look(value)
        match value:
            case Tensor():
                return self._tensor(value)
            case Constant(None):
                return None
        kind = self.vm.class_of(value).__qualname__
        self.vm.stop(reasons.UNSUPPORTED, f"a {kind} is returned")

    def _tensor(self, tensor: Tensor) -> TensorFacts:
        vm = self.vm
        facts = vm.facts(tensor)
        if vm.heap.read(tensor, "attributes"):
            vm.stop(reasons.UNSUPPORTED, "a tensor with attributes is returned")
        owner = vm.roots.get(tensor, tensor)
        if owner in self.memories:
            vm.stop(reasons.UNSUPPORTED, "two results share memory")
        self.memories.append(owner)
        of = [k for k, each in enumerate(self.order) if vm.roots.get(each, each) is owner]
        self.shares.append(of[0] if of else None)
        if facts.requires_grad and not of:
            vm.stop(reasons.UNSUPPORTED, "what requires grad is returned")
        numbers = facts.dtype.is_floating_point or facts.dtype.is_complex
        grad = numbers and tensor not in self.constant
        if of and not grad:
            vm.stop(reasons.UNSUPPORTED, "a view without a gradient is returned")
        return replace(facts, cls=torch.Tensor, requires_grad=grad, is_leaf=not grad)


def _name(cls: type) -> str:
    return cls.__qualname__
