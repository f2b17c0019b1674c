"""Tensors that are wrapped around others: their class has a `__torch_dispatch__`.

Such an object has no memory that the graph could know. Torch takes a call of it apart into ATen ops
and asks the class about each; what the class does there is traced. Which ops these are torch itself
says: the call is made on objects that stand for its tensors, from the begin again for each answer,
so that nothing is traced inside of torch.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cache, cached_property
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.symbolic import Decisions
from jitpkg.facts.tensor import TensorFacts, facts_of, why_no_history, why_no_strides
from jitpkg.facts.thread_state import snapshot
from jitpkg.guards.kinds import Answers, TypeIs
from jitpkg.guards.sources import Source
from jitpkg.internals import dispatch, modes
from jitpkg.interrupts import from_outside
from jitpkg.tracer import classes, constants, numbers, overheard, reasons
from jitpkg.tracer.values import Constant, Object, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs, Raised, Stopped

HANDLER = "__torch_dispatch__"


def is_dispatching(vm: VM, cls: type) -> bool:
    """Whether torch asks a class about ATen ops, by a method in Python."""
    found = classes.lookup(vm, cls, HANDLER)
    return isinstance(found, classmethod) and isinstance(found.__func__, types.FunctionType)


def existing(vm: VM, obj: torch.Tensor, source: Source) -> Object | None:
    """The object for an existing tensor; None for one that is not understood."""
    with modes.WITHOUT_SUBCLASSES.get()():
        if why_no_strides(obj) is not None or why_no_history(obj) is not None:
            return None
        if obj.is_conj() or obj.is_neg():
            return None
        facts = facts_of(obj)
    vm.guard(TypeIs(source, type(obj)))
    what = "what a tensor says of itself"
    vm.guard(Answers(source, is_described_by, (facts,), answer=True, what=what))
    made = Object(type(obj), source, obj)
    vm.heap.write(made, "facts", facts)
    return made


def is_described_by(x: torch.Tensor, facts: TensorFacts) -> bool:
    """Whether what a tensor of a subclass says of itself is this."""
    with modes.WITHOUT_SUBCLASSES.get()():
        return why_no_history(x) is None and facts_of(x) == facts


def wrapper(vm: VM, cls: type, args: Args, kwargs: Kwargs) -> Object:
    """`torch.Tensor._make_wrapper_subclass(cls, ...)`"""
    if not is_dispatching(vm, cls) or not constants.foldable(vm, args, kwargs):
        vm.stop(reasons.UNUSUAL_TENSOR, f"a tensor subclass, {cls.__qualname__}")
    given = [constants.python_value(vm, each) for each in args]
    named = {name: constants.python_value(vm, each) for name, each in kwargs.items()}
    unknown = {name for name, each in named.items() if each and name not in _DESCRIBING}
    if unknown:
        vm.stop(reasons.UNUSUAL_TENSOR, f"a {cls.__qualname__} made with {', '.join(unknown)}")
    try:
        facts = facts_of(dispatch.WRAPPER.get()(_standing(), *given, **named))
    except (TypeError, RuntimeError) as error:
        vm.stop(reasons.RAISES, f"_make_wrapper_subclass raises {error}")
    made = Object(cls)
    vm.heap.write(made, "facts", replace(facts, cls=cls))
    return made


_DESCRIBING = frozenset({"strides", "dtype", "layout", "device"})


def facts(vm: VM, value: Object) -> TensorFacts:
    """What a tensor of a subclass says of itself: one with memory what its plain tensor says."""
    inner = vm.heap.read(value, "content")
    found = vm.facts(inner) if isinstance(inner, Tensor) else vm.heap.read(value, "facts")
    assert found is not None
    return found


# Calls


def call(vm: VM, function: Any, args: Args, kwargs: Kwargs) -> Value:
    """What torch makes of a call with wrappers, by asking their classes."""
    if modes.ANY_AUTOCAST.get()():
        vm.stop(reasons.UNUSUAL_TENSOR, "a __torch_dispatch__ under autocast")
    answers: list[Value] = []
    decisions = Decisions(vm.int_values())
    while True:
        asking = _Asking(vm, answers, decisions)
        standing = asking.standing
        given = [standing.for_(value) for value in args]
        named = {name: standing.for_(value) for name, value in kwargs.items()}
        try:
            result = _called(vm, function, given, named)
        except _Asked as asked:
            answers.append(_answer(vm, standing, asked))
        else:
            for relation in decisions.relations:
                numbers.require(vm, relation)
            return standing.value(result)


def _called(vm: VM, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    restore = snapshot()
    try:
        return function(*args, **kwargs)
    except (Stopped, Raised):
        raise
    except Exception as error:
        if from_outside(error):
            raise
        name = getattr(function, "__name__", "a call")
        vm.stop(reasons.RAISES, f"{name} raises {type(error).__name__}: {error}")
    finally:
        restore()


def _answer(vm: VM, standing: overheard.Standing, asked: _Asked) -> Value:
    """What becomes of one ATen op: a class says it, or there is no wrapper in it."""
    args = tuple(map(standing.value, asked.args))
    kwargs = {name: standing.value(each) for name, each in asked.kwargs.items()}
    wrappers = list(_wrappers((*args, *kwargs.values()), vm))
    if not wrappers:
        return vm.op(asked.op, args, kwargs)
    of = {each.cls: each for each in reversed(wrappers)}
    order = _order(vm, [each.cls for each in wrappers])
    told = (vm.trusted(asked.op), vm.trusted(tuple(order)), Tuple(args))
    mark = vm.heap.mark()
    for cls in order:
        named = vm.new_dict([(Constant(name), each) for name, each in kwargs.items()])
        result = vm.glance(vm.call(vm.attribute(of[cls], HANDLER), (*told, named), {}))
        if not isinstance(result, Constant) or result.value is not NotImplemented:
            _check_history(vm, mark)
            return result
    vm.stop(reasons.RAISES, f"no __torch_dispatch__ implements {asked.op}")


def _check_history(vm: VM, mark: int) -> None:
    """What a class makes there has no history: autograd has seen the op before. In the graph it
    would have one, of what a wrapper holds."""
    for (value, _), state in vm.heap.since(mark).items():
        is_new = isinstance(value, Tensor) and value.source is None
        if is_new and isinstance(state, TensorFacts) and state.requires_grad:
            vm.stop(reasons.UNUSUAL_TENSOR, "gradients of what a wrapper holds")


def _wrappers(values: Sequence[Value], vm: VM) -> Iterator[Object]:
    for value in values:
        match value:
            case Object(cls) if issubclass(cls, torch.Tensor):
                if vm.heap.read(value, "facts") is not None:
                    yield value
            case Object() | Tuple():
                yield from _wrappers(vm.unpack(value), vm)


def _order(vm: VM, each: Sequence[type]) -> list[type]:
    """In which order torch asks classes: from left to right, and a class before its bases."""
    order: list[type] = []
    for cls in dict.fromkeys(each):
        at = next((k for k, other in enumerate(order) if classes.derives(vm, cls, other)), None)
        order.insert(len(order) if at is None else at, cls)
    return order


@dataclass(eq=False)
class _Asking:
    """What makes tensors that stand for others, and has the answers up to now."""

    vm: VM
    answers: Sequence[Value]
    decisions: Decisions
    position: int = 0
    made_for: dict[Object, torch.Tensor] = field(default_factory=dict)

    @cached_property
    def standing(self) -> overheard.Standing:
        """The objects that stand for values."""
        return overheard.Standing(self.vm, self.standing_for, self.made, self.decisions)

    def made(self, vm: VM, facts: TensorFacts) -> torch.Tensor:
        """A tensor of these facts."""
        if facts.requires_grad and torch.is_grad_enabled():
            vm.stop(reasons.UNUSUAL_TENSOR, "gradients through a __torch_dispatch__")
        with torch.inference_mode(facts.is_inference):
            made = dispatch.WRAPPER.get()(
                _standing(),
                tuple(map(self.decisions.symint, facts.size)),
                strides=tuple(map(self.decisions.symint, facts.stride)),
                dtype=facts.dtype,
                device=facts.device,
            )
        made.ask = self.ask
        return made  # type: ignore[no-any-return]

    def standing_for(self, value: Object) -> torch.Tensor:
        """What stands for a tensor of a subclass."""
        if value not in self.made_for:
            self.made_for[value] = self.made(self.vm, facts(self.vm, value))
        return self.made_for[value]

    def ask(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer for an op; the first one that there is none for raises `_Asked`."""
        if self.position == len(self.answers):
            raise _Asked(op, args, kwargs)
        self.position += 1
        return self.standing.for_(self.answers[self.position - 1])


class _Asked(BaseException):
    """An op of which torch asks, on its way out of the call."""

    def __init__(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.op, self.args, self.kwargs = op, args, kwargs


@cache
def _standing() -> type[torch.Tensor]:
    """The class of what stands for a tensor where torch takes a call apart."""
    own = {"__torch_function__": modes.NO_FUNCTION.get(), HANDLER: classmethod(_dispatch)}
    return type("Standing", (torch.Tensor,), own)


def _dispatch(cls: type, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    first = next(_standing_in([*args, *(kwargs or {}).values()]))
    return first.ask(op, args, kwargs or {})


def _standing_in(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, _standing()):
            yield value
        elif isinstance(value, list | tuple):
            yield from _standing_in(value)
