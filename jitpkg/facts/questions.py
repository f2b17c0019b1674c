"""When two questions of what an op does are the same one: layers of a model ask the same again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals import modes

_ATOMS = (int, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout)


class _Other(Exception):
    """An argument of which nobody knows when two are alike."""


def same_question(target: object, args: Any, kwargs: Any) -> Hashable | None:
    """Equal for calls that do the same to tensors, in the modes that are on; None where it cannot
    be told.

    Args:
        args: with `TensorFacts` for tensors; one object in two places stands for one tensor.
    """
    if modes.ANY_AUTOCAST.get()():
        return None
    seen: dict[int, int] = {}
    try:
        given = _key(args, seen), _key(kwargs, seen)
    except _Other:
        return None
    grad_mode = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return target, given, grad_mode, torch.get_default_dtype()


def _key(value: Any, seen: dict[int, int]) -> Hashable:
    cls = type(value)
    if cls is TensorFacts:
        return seen.setdefault(id(value), len(seen)), value
    if cls in _ATOMS:
        return cls, value
    if cls is float:
        return cls, value.hex()
    if cls is tuple or cls is list:
        return cls, tuple([_key(item, seen) for item in value])
    if cls is dict:
        return cls, tuple([(key, _key(item, seen)) for key, item in value.items()])
    if isinstance(value, torch.memory_format):
        return torch.memory_format, value
    raise _Other
