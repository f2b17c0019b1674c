"""Numbers as operands of ops: what an op returns depends on their class only."""

from __future__ import annotations

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
