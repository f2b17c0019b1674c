"""Values of the program, in texts: as Python has them, or in a sentence."""

from __future__ import annotations

import torch

from jitpkg.guards.sources import object_name

PLAIN = frozenset({int, float, str, bytes, bool, complex, type(None), torch.device})
"""Classes whose instances are told apart by value, and have a text."""
_BITS_SHOWN = 128
_LENGTH_SHOWN = 200


def literal(value: object) -> str | None:
    """A constant as Python text, or None where that would be long, or not the same constant."""
    match value:
        case None | bool():
            return repr(value)
        case int() if type(value) is int and value.bit_length() <= _BITS_SHOWN:
            return repr(value)
        case str() | bytes() if type(value) in (str, bytes) and len(value) <= _LENGTH_SHOWN:
            return repr(value)
        case _:
            return None


def brief(value: object) -> str:
    """A value in a sentence: its own text where that is short, else what it is.

    An object of the program's own class is not asked for its text: that would run the program.
    """
    text = _text(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: object) -> str:
    cls = type(value)
    if isinstance(value, int) and cls is int and value.bit_length() > _BITS_SHOWN:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, tuple) and cls is tuple:
        return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"
    if isinstance(value, set) and cls is set and value:
        return f"{{{', '.join(map(_text, value))}}}"
    return repr(value) if cls in PLAIN or cls is torch.Size else object_name(value)
