"""Values as JSON, and back: numbers, names of torch's own objects, and nothing that runs code.

What is not known here has no text, so a graph that holds it is compiled by each process.
"""

from __future__ import annotations

import importlib
import inspect
import struct
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodDescriptorType
from typing import Any

import torch
from torch import fx
from torch.fx.immutable_collections import immutable_dict, immutable_list

from jitpkg.internals.ops import OpOverload, op_name, overload_name

Op = OpOverload

Plain = Any
"""What `json` writes and reads as it was; lists begin with a kind."""


class NotPlain(Exception):
    """A value that cannot be written down."""


def written(value: Any, other: Callable[[Any], Plain | None] = lambda value: None) -> Plain:
    """A value as JSON.

    Args:
        other: asked first, for objects that only the caller knows.

    Raises:
        NotPlain: it cannot be written down.
    """
    found = other(value)
    if found is not None:
        return found
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind in _SEQUENCES:
        return [_SEQUENCES[kind], *(written(item, other) for item in value)]
    match value:
        case fx.Node():
            return ["node", value.name]
        case Op():
            return _op(value)
        case float() if kind is float:
            return ["float", struct.pack("<d", value).hex()]
        case complex() if kind is complex:
            return ["complex", struct.pack("<dd", value.real, value.imag).hex()]
        case dict() if kind in (dict, immutable_dict):
            items = value.items()
            return ["dict", *([written(k, other), written(v, other)] for k, v in items)]
        case slice():
            return ["slice", *(written(x, other) for x in (value.start, value.stop, value.step))]
        case torch.dtype() | torch.memory_format() | torch.layout():
            return ["constant", str(value).removeprefix("torch.")]
        case torch.device():
            return ["device", value.type, value.index]
    if value is ...:
        return ["ellipsis"]
    return _path(value)


def read(plain: Plain, others: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of what `written` made.

    Args:
        others: by kind, what makes values of those that only the caller knows.
    """
    if not isinstance(plain, list):
        return plain
    kind, *rest = plain
    if kind in others:
        return others[kind](*rest)
    match kind:
        case "list" | "tuple" | "Size":
            return _OF_NAME[kind](read(item, others) for item in rest)
        case "dict":
            return {read(k, others): read(v, others) for k, v in rest}
        case "slice":
            return slice(*(read(item, others) for item in rest))
        case "float":
            (number,) = struct.unpack("<d", bytes.fromhex(rest[0]))
            return number
        case "complex":
            return complex(*struct.unpack("<dd", bytes.fromhex(rest[0])))
        case "constant":
            return getattr(torch, rest[0])
        case "device":
            return torch.device(*rest) if rest[1] is not None else torch.device(rest[0])
        case "ellipsis":
            return ...
        case "op":
            return _found_op(*rest)
        case "path":
            return _at(*rest)
    raise NotPlain(f"no value is a {kind}")


_SEQUENCES: Mapping[type, str] = MappingProxyType(
    {list: "list", immutable_list: "list", tuple: "tuple", torch.Size: "Size"}
)
_OF_NAME: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"list": list, "tuple": tuple, "Size": torch.Size}
)

# Ops and functions: by a name that leads to the very object


def _op(op: Op) -> Plain:
    name = op_name(op)
    if op.namespace not in _NAMESPACES or _found_op(name, overload_name(op)) is not op:
        raise NotPlain(f"{op} is not torch's own")
    return ["op", name, overload_name(op)]


def _found_op(name: str, overload: str) -> Any:
    namespace, _, own = name.partition("::")
    if namespace not in _NAMESPACES:
        raise NotPlain(f"{name} is not torch's own")
    return getattr(getattr(getattr(torch.ops, namespace), own), overload)


_NAMESPACES = ("aten", "prims", "mkldnn")
"""Others belong to packages of which no key knows the version."""


def _path(value: Any) -> Plain:
    names: tuple[str, ...]
    match value:
        case FunctionType() if _is_torchs(value.__globals__.get("__name__")):
            if not _is_torchs(getattr(inspect.unwrap(value), "__module__", None)):
                raise NotPlain(f"{value} wraps what is not torch's own")
            module, names = value.__module__, (value.__qualname__, value.__name__)
        case MethodDescriptorType():
            module, names = value.__objclass__.__module__, (value.__qualname__,)
        case BuiltinFunctionType():
            module, names = value.__module__ or "torch", (value.__name__,)
        case type():
            module, names = value.__module__, (value.__qualname__,)
        case _:
            raise NotPlain(f"an object of the class {type(value).__name__}")
    if _is_torchs(module):
        for name in names:
            if _at(module, name, None) is value:
                return ["path", module, name]
    raise NotPlain(f"{value} is not torch's own")


def _is_torchs(module: object) -> bool:
    """Whether a module is of what every key knows the version of."""
    package = module.partition(".")[0] if isinstance(module, str) else ""
    return package in ("torch", "jitpkg", "operator", "_operator", "builtins")


def _at(module: str, path: str, *default: Any) -> Any:
    if not _is_torchs(module):
        raise NotPlain(f"{module} is not torch's")
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (AttributeError, ImportError):
        if default:
            return default[0]
        raise
    return found
