"""Modules: how a call of one comes to its `forward`, and where it keeps what it has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from jitpkg.internals.row import Row

_NOT_IN_PLACE = "jitpkg.jit leaves modules as they are, and jitpkg.disable as well"

CALL = Row[FunctionType](
    "torch.nn.Module._call_impl",
    use="compiling the call of a module, with its hooks",
    lost=_NOT_IN_PLACE,
)
REPLACED = Row[Any](
    "torch.nn.Module._compiled_call_impl",
    use="putting what is compiled in the place of a module's call",
    lost=_NOT_IN_PLACE,
)
CALL_NAME = "_call_impl"
_REPLACED = "_compiled_call_impl"

OF_COMPILING = (_REPLACED,)
"""Attributes that compiling adds to a module."""

REGISTRIES = ("_parameters", "_buffers", "_modules")
"""The dictionaries of a module whose items are its attributes."""

IS_PARAMETER, IS_BUFFER = "_is_param", "_is_buffer"
"""Attributes that make a tensor of any class a parameter, or a buffer."""


def is_module(obj: object) -> bool:
    """Whether it is an `nn.Module`; torch is not imported for that."""
    torch: Any = sys.modules.get("torch.nn")
    return torch is not None and isinstance(obj, torch.Module)


def is_class_of_modules(cls: type) -> bool:
    """Whether its instances are."""
    torch: Any = sys.modules.get("torch.nn")
    return torch is not None and issubclass(cls, torch.Module)


def call_of(module: Any) -> Callable[..., Any]:
    """What a module does when it is called, whatever was put in its place.

    Raises:
        Missing: nobody can tell.
    """
    CALL.get()
    function: Callable[..., Any] = getattr(module, CALL_NAME)
    return function


def replace_call(module: Any, function: Callable[..., Any]) -> None:
    """Let calls of a module, or of those of a class, be calls of a function, with the module as its
    first argument.

    Raises:
        Missing: there is no way.
    """
    REPLACED.get()
    if isinstance(module, type):
        setattr(module, _REPLACED, function)
    else:
        vars(module)[_REPLACED] = MethodType(function, module)


def replaced_call(module: Any) -> Any:
    """What stands in the place of a module's call; None where nothing does, or it is no module."""
    return getattr(module, _REPLACED, None)
