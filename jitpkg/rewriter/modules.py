"""Modules: compiled in place, and views that leave the original uncompiled."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from jitpkg.again import derived, viewed
from jitpkg.guards.kinds import static_lookup
from jitpkg.internals import modules as internals
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.follow import compiled_twin

Module = torch.nn.Module


def compile_in_place(module: Module, compiler: Compiler) -> FunctionType:
    """Let `module(…)` run compiled; returns the function that it calls now.

    Raises:
        Missing: this PyTorch has no way to do it.
    """
    internals.CALL.get()
    call = static_lookup(type(module), internals.CALL_NAME)
    assert isinstance(call, FunctionType)
    twin = compiled_twin(call, compiler, type(module).__qualname__)
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
