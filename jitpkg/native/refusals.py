"""The exceptions of native functions, in words: made in Python, raised by either binding."""

from __future__ import annotations

import builtins
from enum import IntEnum

import torch

from jitpkg.native import symbols
from jitpkg.native.signature import Signature, from_text


class Kind(IntEnum):
    """What went wrong."""

    STATUS = 0
    COUNT = 1
    TYPE = 2
    REFUSED = 3
    MEMORY = 4
    ALLOCATION = 5
    SCRATCH = 6


TENSORS = (torch.Tensor, torch.nn.Parameter)
"""The exact types of tensors that are taken; others may have a meaning of their own."""


def explain(kind: int, about: str, number: int, given: object) -> Exception:
    """The exception for one failure.

    `about` is the entry point's name and signature, `number` the position of an argument, how many
    there are, or the kernel's status; `given` is an argument.
    """
    name, signature = described(about)
    match kind:
        case Kind.STATUS:
            return _of_status(name, signature, number)
        case Kind.COUNT:
            wanted = signature.inputs + signature.integers
            return TypeError(f"{name}() takes {wanted} arguments, {number} were given")
        case Kind.TYPE:
            found = f"{type(given).__module__}.{type(given).__qualname__}"
            return TypeError(f"argument {number} of {name}() must be a torch.Tensor, not {found}")
        case Kind.REFUSED:
            return RuntimeError(f"argument {number} of {name}(): {_what()}")
        case Kind.MEMORY:
            return RuntimeError(f"argument {number} of {name}() is a tensor without memory")
        case Kind.ALLOCATION:
            return RuntimeError(_what())
        case _:
            return MemoryError(f"{name}() needs {number} bytes of scratch memory")


def described(about: str) -> tuple[str, Signature]:
    """What `about` says."""
    name, _, text = about.partition(" ")
    return name, from_text(text)


def _of_status(name: str, signature: Signature, status: int) -> Exception:
    if not 0 < status <= len(signature.failures):
        return RuntimeError(f"{name}() failed with status {status}")
    failure = signature.failures[status - 1]
    error: Exception = getattr(builtins, failure.exception)(failure.message)
    return error


def _what() -> str:
    return symbols.last_error() or "torch refused; it has written why to stderr"
