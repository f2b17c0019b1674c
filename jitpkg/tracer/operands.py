"""Operands of ops: numbers, of which only the class matters, and tensors that are written to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitpkg.facts.outcome import Outcome
from jitpkg.facts.shared import may_be_left_half_done
from jitpkg.guards.kinds import ABSENT
from jitpkg.tracer import classes, reasons
from jitpkg.tracer.torch_calls import tensor_methods
from jitpkg.tracer.values import Number, Tensor
from jitpkg.tracer.vm import VM, Args, Kwargs


def of_any_number(name: str) -> bool:
    """Whether an op returns the same for all numbers of a class."""
    return name.strip("_") in _BY_TYPE or name in _BY_TYPE


_BY_TYPE = frozenset(
    """
    add add_ iadd sub sub_ isub rsub subtract mul mul_ imul multiply div div_ itruediv truediv
    divide true_divide addcmul addcmul_ addcdiv addcdiv_ lerp lerp_ fill_ full_like new_full
    masked_fill masked_fill_ clamp clamp_ clamp_min clamp_max where eq ne lt le gt ge
    """.split()
)
"""Ops of which a number is an operand: no shape or choice depends on more than its class."""


def may_be_scalars(vm: VM, name: str, args: Args, kwargs: Kwargs) -> bool:
    """See `SCALAR`: of the operands one is a float, and the other a tensor of floats."""
    a, *others = map(vm.peek, args)
    if kwargs or len(others) != 1 or name.strip("_") not in _SCALAR:
        return False
    (b,) = others
    if isinstance(b, Tensor) and name.strip("_") in _MIRRORED_SCALAR:
        a, b = b, a
    if not isinstance(a, Tensor) or not isinstance(b, Number) or type(b.value) is not float:
        return False
    facts = vm.facts(a)
    return facts.dtype.is_floating_point and bool(facts.size)


_SCALAR = frozenset("add iadd sub isub mul imul truediv itruediv div true_divide".split())
_MIRRORED_SCALAR = frozenset("add sub mul".split())
"""Those that take the float first, too; a quotient is computed otherwise then."""


def may_leave_half(
    vm: VM, name: str, args: Sequence[Any], tensors: Sequence[Tensor], outcome: Outcome
) -> bool:
    """Whether an op may have written a part of an existing tensor when it raises."""
    owners = (vm.roots.get(tensors[k], tensors[k]) for k in outcome.mutated)
    return may_be_left_half_done(name, args) and any(o.source is not None for o in owners)


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def check_operator(vm: VM, stem: str, args: Args) -> None:
    """An operator is an op where the tensor's class has torch's own method for it."""
    operand = vm.peek(args[0])
    special = f"__{stem}__"
    if not isinstance(operand, Tensor):
        operand = vm.peek(args[1])
        special = f"__{_SWAPPED[stem]}__" if stem in _SWAPPED else f"__r{stem}__"
    assert isinstance(operand, Tensor)
    method = classes.lookup(vm, vm.facts(operand).cls, special)
    if method is not ABSENT and tensor_methods().get(method) != special:
        vm.stop(reasons.TENSOR_USE, f"Tensor.{special}, which is not torch's own")
