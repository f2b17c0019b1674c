"""Pieces of LLVM IR text."""

from __future__ import annotations

import re
from collections.abc import Iterable

AS_IT_IS = "noinline optnone"
"""Of functions that only pass things on: half the time to generate code, and none lost in a call
(0.6 ms of 1.3 per entry point). Not for kernels."""

_NAME = r'@("[^"]*"|[-\w$.]+)'
_DEFINED = re.compile(rf"^define\b[^@]*{_NAME}", re.MULTILINE)
_DECLARED = re.compile(rf"declare\b[^@]*{_NAME}|{_NAME} = external ")


def string(name: str, text: str) -> str:
    """A constant for C: the bytes of `text`, ended by a zero."""
    raw = text.encode() + b"\0"
    shown = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in raw)
    return f'@"{name}" = constant [{len(raw)} x i8] c"{shown}"'


def array(kind: str, values: Iterable[object]) -> str:
    """A constant array."""
    items = [f"{kind} {value}" for value in values]
    return f"[{len(items)} x {kind}] [{', '.join(items)}]"


def joined(*texts: str) -> str:
    """Texts as one module: what several declare is declared once, unless one defines it."""
    defined = {found[1] for text in texts for found in _DEFINED.finditer(text)}
    declared: set[str] = set()

    def wanted(line: str) -> bool:
        found = _DECLARED.match(line)
        if found is None:
            return True
        name = found[1] or found[2]
        if name in defined or name in declared:
            return False
        declared.add(name)
        return True

    return "\n".join(line for text in texts for line in text.splitlines() if wanted(line)) + "\n"
