"""Modules: compiled in place, and views that leave the original uncompiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeGuard

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from jitpkg.again import derived, viewed
from jitpkg.errors import InvalidArgument
from jitpkg.guards.kinds import static_lookup
from jitpkg.internals import modules as internals
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.follow import compiled_twin

Module = torch.nn.Module
Each = type[Module] | tuple[type[Module], ...] | Callable[[Module], bool]
"""Which modules of a model are meant: those of classes, or those that a function says yes to."""


def chosen(model: Module, each: Each) -> dict[type[Module], list[Module]]:
    """The modules of a model that `each` means, by their class.

    Raises:
        InvalidArgument: `model` is none, `each` is no such thing, or there are none.
    """
    if not isinstance(model, Module):
        raise InvalidArgument(f"each= is for a model, an nn.Module, and jit() was given {model!r}.")
    matches = _matches(each)
    found: dict[type[Module], list[Module]] = {}
    for module in model.modules():
        if matches(module):
            found.setdefault(type(module), []).append(module)
    if not found:
        counts = Counter(type(module).__qualname__ for module in model.modules())
        listed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        raise InvalidArgument(
            f"each={each!r} matches none of the {counts.total()} modules of"
            f" {type(model).__qualname__}, which are of these classes: {listed}."
        )
    return found


def _matches(each: Each) -> Callable[[Module], bool]:
    classes = tuple(cls for cls in (each if isinstance(each, tuple) else (each,)) if _is_class(cls))
    if classes and (each in classes or each == classes):
        return lambda module: isinstance(module, classes)
    if callable(each) and not isinstance(each, type):
        return each
    raise InvalidArgument(
        "each= takes a class of modules, a tuple of them, or a function that says of a module"
        f" whether it is compiled, not {each!r}."
    )


def _is_class(cls: object) -> TypeGuard[type[Module]]:
    return isinstance(cls, type) and issubclass(cls, Module)


def compile_in_place(modules: Sequence[Module], compiler: Compiler) -> FunctionType:
    """Let `module(…)` run compiled, of modules of one class, which share what is compiled.

    Returns the function that they call now.

    Raises:
        Missing: this PyTorch has no way to do it.
    """
    internals.CALL.get()
    cls = type(modules[0])
    call = static_lookup(cls, internals.CALL_NAME)
    assert isinstance(call, FunctionType)
    twin = compiled_twin(call, compiler, cls.__qualname__)
    for module in modules:
        internals.replace_call(module, twin)
    return twin


def compile_class(cls: type[Module], compiler: Compiler) -> FunctionType:
    """Let the calls of all instances run compiled; returns what they call."""
    call = static_lookup(cls, "_call_impl")
    assert isinstance(call, FunctionType)
    twin = compiled_twin(call, compiler, cls.__qualname__)
    cls._compiled_call_impl = twin
    return twin


def compiled_call(module: Module, compiler: Compiler) -> FunctionType:
    """A compiled `type(module).__call__`."""
    call = static_lookup(type(module), "__call__")
    if not isinstance(call, FunctionType) or not hasattr(module, "__dict__"):
        raise TypeError(f"{type(module).__qualname__} cannot be viewed")
    return compiled_twin(call, compiler, type(module).__qualname__)


def view(module: Module, call: Callable[..., Any], again: Callable[[Module], Module]) -> Module:
    """A module that shares everything with the original, and is called by `call`.

    `again` makes such a view of another module, for copies and pickles.
    """
    return _View(module, call, again).made


class _View:
    """Makes the instance, and keeps its class derived from the original's."""

    def __init__(
        self, original: Module, call: Callable[..., Any], again: Callable[[Module], Module]
    ) -> None:
        self.original = original
        self.call = call
        self.again = again
        self.made: Module = viewed(original, self._derived())

    def _derived(self) -> type[Module]:
        return derived(self.original, self._call(), self.again)

    def _call(self) -> Callable[..., Any]:
        base, original, call = type(self.original), self.original, self.call

        def __call__(module: Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if isinstance(original, LazyModuleMixin) and original.has_uninitialized_params():
                result = original(*args, **kwargs)
                module.__class__ = self._derived()
                return result
            if type(original) is not base:
                module.__class__ = self._derived()
                return module(*args, **kwargs)
            return call(original, *args, **kwargs)

        __call__.__module__ = base.__module__  # what calls it traces it, as it does the module's
        return __call__
