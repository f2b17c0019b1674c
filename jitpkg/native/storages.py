"""How torch keeps storages in memory: what makes one around memory of ours like any other."""

from __future__ import annotations

import ctypes
from functools import cache

import torch

from jitpkg.dataclass import dataclass
from jitpkg.internals import tensors
from jitpkg.internals.tensors import memory
from jitpkg.native import symbols


@dataclass(frozen=True, slots=True)
class Layout:
    """Where it stands whether a storage can be resized, and by what, in bytes."""

    storage: int
    """In a tensor: the pointer to its storage."""
    resizable: int
    """In a storage: a byte that is 1 or 0."""
    allocator: int
    """In a storage: a pointer."""
    cpu_allocator: int
    """What that is in storages that torch makes."""


@cache
def layout() -> Layout | None:
    """What was found by comparing storages of torch with one around memory of ours, and tried.

    None where something is not as it should be.
    """
    addresses = tensors.ADDRESS.found(), tensors.STORAGE_ADDRESS.found()
    if None in addresses or not symbols.has("torch_from_blob"):
        return None
    memory = torch.arange(_BYTES, dtype=torch.uint8, device="cpu")
    ours = _around(memory)
    found = None if ours is None else _compared(ours, memory, torch.empty_like(memory))
    return found if ours is not None and found is not None and _works(found, ours) else None


_BYTES = 1203
"""Of the storages that are looked at: a number that stands nowhere else in them."""
_WORDS = 10
"""Of a storage that are looked at; it has more."""


def _around(memory: torch.Tensor) -> torch.Tensor | None:
    """A tensor in the memory of another one, which must live longer."""
    found = symbols.addresses()
    pointer, word, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    make = ctypes.PYFUNCTYPE(
        *(number, pointer, word, pointer, pointer, word, number, number, number, pointer),
        *(number, pointer, word, pointer, pointer),
    )(found["torch_from_blob"])
    wrap = ctypes.PYFUNCTYPE(ctypes.py_object, pointer)(found["THPVariable_Wrap"])
    delete = ctypes.PYFUNCTYPE(number, pointer)(found["aoti_torch_delete_tensor_object"])
    sizes, strides, handle = (word * 1)(_BYTES), (word * 1)(1), pointer()
    kind = symbols.dtype_code(torch.uint8)
    of = memory.data_ptr(), 1, sizes, strides, 0, kind, 0, -1, ctypes.byref(handle)
    if make(*of, 0, None, 0, None, None):
        return None
    tensor: torch.Tensor = wrap(handle)
    delete(handle)
    return tensor


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _compared(ours: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> Layout | None:
    given = ours, one, other
    address = tensors.ADDRESS.get()
    storages = [memory(tensor) for tensor in given]
    in_tensors = [
        at
        for at in range(8, 48, 8)
        if [_word(address(tensor) + at) for tensor in given] == storages
    ]
    mine, first, second = ([_word(at + 8 * k) for k in range(_WORDS)] for at in storages)
    alike = [k for k in range(2, _WORDS) if mine[k] == first[k] == second[k] == _BYTES]
    if len(in_tensors) != 1 or len(alike) != 1:
        return None
    flags = 8 * (alike[0] + 1)
    switches = [
        at
        for at in range(flags, flags + 8)
        if [ctypes.c_uint8.from_address(each + at).value for each in storages] == [0, 1, 1]
    ]
    pointers = [
        k for k in range(alike[0] + 2, _WORDS) if mine[k] == 0 != first[k] and first[k] == second[k]
    ]
    if len(switches) != 1 or len(pointers) != 1:
        return None
    return Layout(in_tensors[0], switches[0], 8 * pointers[0], first[pointers[0]])


def _works(found: Layout, ours: torch.Tensor) -> bool:
    """Make a storage resizable, and resize it."""
    storage, at = ours.untyped_storage(), memory(ours)
    before = ours.tolist()
    if storage.resizable():
        return False
    ctypes.c_uint64.from_address(at + found.allocator).value = found.cpu_allocator
    if storage.resizable():
        return False
    ctypes.c_uint8.from_address(at + found.resizable).value = 1
    if not storage.resizable():
        return False
    ours.resize_(2 * _BYTES)
    return storage.nbytes() == 2 * _BYTES and ours[:_BYTES].tolist() == before
