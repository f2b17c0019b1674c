"""Arguments to parameters, as CPython binds them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import CodeType

from jitpkg.code.analysis import slot_names
from jitpkg.dataclass import dataclass
from jitpkg.tracer import containers, reasons
from jitpkg.tracer.values import UNBOUND, Cell, Constant, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function has besides its code."""

    name: str
    defaults: Args
    keyword_defaults: Mapping[str, Value]
    closure: tuple[Cell, ...]


def bind(vm: VM, code: CodeType, signature: Signature, args: Args, kwargs: Kwargs) -> list[Value]:
    """The values of all slots when the function begins.

    A call that does not fit ends the trace: Python raises the TypeError.
    """
    names = code.co_varnames
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    bound: dict[str, Value] = dict(zip(names[:positional], args, strict=False))
    extra = args[positional:]
    takes_args = bool(code.co_flags & inspect.CO_VARARGS)
    takes_kwargs = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    if extra and not takes_args:
        vm.stop(reasons.RAISES, f"{signature.name}() is given too many arguments")

    by_name = names[code.co_posonlyargcount : positional + keyword_only]
    others: list[tuple[Value, Value]] = []
    for name, value in kwargs.items():
        if name in by_name and name not in bound:
            bound[name] = value
        elif takes_kwargs and name not in by_name:
            others.append((Constant(name), value))
        else:
            vm.stop(
                reasons.RAISES, f"{signature.name}() is given {name} twice, or does not take it"
            )

    first_default = positional - len(signature.defaults)
    for k, name in enumerate(names[:positional]):
        if name not in bound and k >= first_default:
            bound[name] = signature.defaults[k - first_default]
    for name in names[positional : positional + keyword_only]:
        if name not in bound and name in signature.keyword_defaults:
            bound[name] = signature.keyword_defaults[name]

    at = positional + keyword_only
    if missing := [name for name in names[:at] if name not in bound]:
        vm.stop(reasons.RAISES, f"{signature.name}() misses {', '.join(missing)}")
    if takes_args:
        bound[names[at]] = Tuple(extra)
        at += 1
    if takes_kwargs:
        bound[names[at]] = containers.new_dict(vm, others)

    slots: list[Value] = [bound.get(name, UNBOUND) for name in slot_names(code)]
    free = len(slots) - len(code.co_freevars)
    slots[free:] = signature.closure
    return slots
