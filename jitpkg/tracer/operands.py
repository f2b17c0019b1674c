"""Operands of ops: numbers, of which only the class matters, and tensors that are written to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from jitpkg.facts.outcome import Outcome
from jitpkg.facts.shared import may_be_left_half_done
from jitpkg.facts.tensor import TensorFacts
from jitpkg.guards.kinds import ABSENT
from jitpkg.internals import ops
from jitpkg.tracer import classes, containers, reasons
from jitpkg.tracer.torch_calls import tensor_methods
from jitpkg.tracer.values import Constant, Number, Object, Reading, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs


def of_any_number(name: str) -> bool:
    """Whether an op returns the same for all numbers of a class."""
    return name.strip("_") in _BY_TYPE or name in _BY_TYPE or in_lists(name)


_BY_TYPE = frozenset(
    """
    add add_ iadd sub sub_ isub rsub subtract mul mul_ imul multiply div div_ itruediv truediv
    divide true_divide addcmul addcmul_ addcdiv addcdiv_ lerp lerp_ fill fill_ full_like new_full
    masked_fill masked_fill_ clamp clamp_ clamp_min clamp_max where eq ne lt le gt ge
    """.split()
)
"""Ops of which a number is an operand: no shape or choice depends on more than its class."""


def in_lists(name: str) -> bool:
    """Whether numbers in lists are operands, too, and no sizes."""
    return name.startswith((ops.FOREACH, ops.FUSED))


NOT_A_SCALAR = object()
"""In place of what `SCALAR` notes, where a float may be no tensor."""


def scalar(vm: VM, name: str, args: Args, kwargs: Kwargs) -> object:
    """What `SCALAR` notes of an op on tensors of floats that takes a float that varies, or a list
    of such floats; `NOT_A_SCALAR` where it is another op."""
    stem = name.removeprefix(ops.FOREACH).strip("_")
    given = [_members(vm, value) for value in (*args, *kwargs.values())]
    form = "".join(map(_kind, given))
    facts = [vm.facts(each) for members in given for each in members if isinstance(each, Tensor)]
    dtypes = {each.dtype for each in facts}
    if not all(dtype.is_floating_point for dtype in dtypes):
        return NOT_A_SCALAR
    is_operand = not kwargs and (form, stem) in _OPERANDS
    reads = any(isinstance(each, Reading) for each in (*args, *kwargs.values()))
    if reads and (not is_operand or stem in _CHECKING):
        return NOT_A_SCALAR
    if is_operand and all(each.size for each in facts):
        return None
    if is_operand and len(dtypes) == 1 and dtypes <= _SINGLE:
        return dtypes.pop()
    is_factor = (form, tuple(kwargs) or None, stem) in _FACTORS
    of_each = {each.dtype for each in facts[: len(given[0])]}
    if is_factor and len(of_each) == 1 and of_each <= _SINGLE:
        (dtype,) = of_each
        if all(torch.promote_types(dtype, other) is dtype for other in dtypes):
            return dtype
    return NOT_A_SCALAR


def _members(vm: VM, value: Value) -> list[Value]:
    if isinstance(value, Reading):
        return [value]
    value = vm.peek(value)
    if isinstance(value, Tuple):
        return [vm.peek(item) for item in value.items]
    if isinstance(value, Object) and value.cls is list:
        return [vm.peek(item) for item in containers.list_items(vm, value)]
    return [value]


def _kind(members: Sequence[Value]) -> str:
    """Tensors, or floats of which one varies at least, or anything."""
    if members and all(isinstance(each, Tensor) for each in members):
        return "t"
    if members and isinstance(members[0], Reading):
        return "n" if members[0].cls is float else "?"
    numbers = [each for each in members if isinstance(each, Number)]
    floats = all(isinstance(each, Number | Constant) for each in members)
    return "n" if numbers and floats and all(type(n.value) is float for n in numbers) else "?"


_OPERANDS = frozenset(
    {
        *(("tn", stem) for stem in "add iadd sub isub mul imul truediv itruediv div".split()),
        ("tn", "true_divide"),
        ("tn", "fill"),
        *(("nt", stem) for stem in ("add", "sub", "mul", "truediv")),
    }
)
"""Ops that take a float as an operand."""
_FACTORS = frozenset(
    {
        *(("ttn", ("alpha",), stem) for stem in ("add", "sub")),
        *(("tttn", key, stem) for key in (("value",), None) for stem in ("addcdiv", "addcmul")),
    }
)
"""Ops that multiply an operand with a float, and what that is called."""
_SINGLE = {torch.float32, torch.float64}
"""Classes of numbers that are rounded in the middle of an op as they are behind it."""


def may_leave_half(
    vm: VM, name: str, args: Sequence[Any], tensors: Sequence[Tensor], outcome: Outcome
) -> bool:
    """Whether an op may have written a part of an existing tensor when it raises."""
    owners = (vm.roots.get(tensors[k], tensors[k]) for k in outcome.mutated)
    return may_be_left_half_done(name, args) and any(o.source is not None for o in owners)


def check_fits(vm: VM, name: str, args: Args, kwargs: Kwargs, outcome: Outcome) -> None:
    """End the trace where a number is too large for the class of a tensor's numbers: the op raises.
    A kernel would go on with an infinity."""
    if name.strip("_") not in _CHECKING:
        return
    facts = (*outcome.arguments, outcome.result)
    dtypes = {each.dtype for each in facts if isinstance(each, TensorFacts)}
    limit = min((_LARGEST[dtype] for dtype in dtypes & _LARGEST.keys()), default=math.inf)
    kinds = (int, float) if limit < _LARGEST[torch.bfloat16] else (float,)
    for value in (*args, *kwargs.values()):
        number = vm.glance(value)  # with a reading, the op is called by itself
        given = number.value if isinstance(number, Constant | Number) else None
        if not isinstance(given, int | float) or type(given) not in kinds:
            continue
        bounds = (
            vm.compare(op, number, Constant(end)) for op, end in ((">", limit), ("<", -limit))
        )
        if math.isfinite(given) and any(map(vm.truth, bounds)):
            vm.stop(reasons.RAISES, f"{name} of a number that the tensor's class cannot hold")


_CHECKING = frozenset(
    """
    addcdiv addcmul clamp clamp_max clamp_min clip constant_pad_nd fill full full_like hardtanh
    index_fill leaky_relu lerp masked_fill new_full pad pow scatter threshold where
    """.split()
)
"""Ops that refuse a number which is finite, and infinite in the tensor's class."""
_LARGEST = {
    dtype: torch.finfo(dtype).max for dtype in (torch.float16, torch.bfloat16, torch.float32)
}

_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def check_operator(vm: VM, stem: str, args: Args) -> None:
    """An operator is an op where the tensor's class has torch's own method for it."""
    operand = vm.glance(args[0])
    special = f"__{stem}__"
    if not isinstance(operand, Tensor):
        operand = vm.peek(args[1])
        special = f"__{_SWAPPED[stem]}__" if stem in _SWAPPED else f"__r{stem}__"
    assert isinstance(operand, Tensor)
    method = classes.lookup(vm, vm.facts(operand).cls, special)
    if method is not ABSENT and tensor_methods().get(method) != special:
        vm.stop(reasons.TENSOR_USE, f"Tensor.{special}, which is not torch's own")
