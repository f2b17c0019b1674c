"""Looks at objects where they lie in memory."""

from __future__ import annotations

import ctypes


def words_at(address: int, count: int) -> list[int]:
    """What is in memory."""
    return list((ctypes.c_int64 * count).from_address(address))


def place(of: object, holder: object) -> int:
    """Where an object has the address of another one, in bytes.

    Raises:
        ValueError: it has not.
    """
    # `__sizeof__` of a class counts memory that lies elsewhere, too; what follows the object may
    # not be there.
    size = type(holder).__basicsize__
    if isinstance(holder, tuple):
        size += type(holder).__itemsize__ * len(holder)
    return words_at(id(holder), size // 8).index(id(of)) * 8
