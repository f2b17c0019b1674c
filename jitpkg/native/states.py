"""The state that torch keeps for the process and for each thread, asked of its C++ functions.

Such a call takes 3 ns; one of the Python functions that say the same, 30 to 150.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

from jitpkg import threads
from jitpkg.dataclass import dataclass
from jitpkg.native.memory import words_at
from jitpkg.native.symbols import addresses, torch_folder

Part = Literal["settings", "function modes", "saved hooks", "thread"]

SETTINGS: tuple[tuple[str, int | Literal["context"], int], ...] = (
    ("jitpkg_grad_mode", 0, 1),
    ("jitpkg_autocast_enabled", 0, 1),
    ("jitpkg_autocast_enabled", 1, 1),
    ("jitpkg_autocast_dtype", 0, 0xFF),
    ("jitpkg_autocast_dtype", 1, 0xFF),
    ("jitpkg_autocast_cache", 0, 1),
    ("jitpkg_functions_disabled", 0, 0xFF),
    ("jitpkg_deterministic", "context", 1),
    ("jitpkg_deterministic_warns", "context", 1),
    ("jitpkg_num_threads", 0, 0xFFFFFFFF),
    ("jitpkg_default_dtype", 0, 0xFF),
)
"""Functions, what they are called with (a kind of device; torch's settings), and which bits of
what they return are the answer."""

WORDS = 5
"""Of the record `STATE`, for each function."""

VALUE = -1
"""In place of an offset: what the function returns is the answer itself."""

_ALL = -1


@dataclass(frozen=True, slots=True)
class Getter:
    """A C function of one word, and where the answer is."""

    function: int
    argument: int
    at: int
    """Bytes from the address that it returns, or `VALUE`."""
    bits: int

    def now(self) -> int:
        """The answer in this thread."""
        found = _called(self.function, self.argument)
        if self.at != VALUE:
            (found,) = words_at(found + self.at, 1)
        return found & self.bits


@dataclass(frozen=True, slots=True)
class States:
    """How native code asks for each part of the state."""

    parts: Mapping[Part, tuple[Getter, ...]]
    hooks: int
    """The function that gives the address of this thread's saved-tensor hooks: a queue, whose
    begin and end are at `HOOKS`."""
    held: object
    """What is referred to by address."""

    def record(self, part: Part) -> tuple[str, int, int, int, list[int]]:
        """What says in a table that a part is as it is now: saved-tensor hooks, that there are
        none."""
        if part == "saved hooks":
            return "EMPTY", HOOKS[0], self.hooks, HOOKS[1], []
        words = self.words(part)
        return "STATE", len(words) // WORDS, 0, 0, words

    def words(self, part: Part) -> list[int]:
        """What the record `STATE` has for a part, as it is now."""
        return [
            word
            for getter in self.parts[part]
            for word in (getter.function, getter.argument, getter.at, getter.bits, getter.now())
        ]


HOOKS = (16, 48)
"""Where a queue of the C++ library has its first item, and the place after its last."""


@cache
def look() -> States | None:
    """How it is asked for in this process; None where a function is missing."""
    known = addresses()
    needed = {name for name, *_ in SETTINGS}
    needed |= {"jitpkg_context", "jitpkg_function_modes", "jitpkg_saved_hooks", "__tls_get_addr"}
    if not needed <= known.keys() or (index := _thread_index()) is None:
        return None
    context = _called(known["jitpkg_context"], 0)
    settings = tuple(
        Getter(known[name], context if argument == "context" else argument, VALUE, bits)
        for name, argument, bits in SETTINGS
    )
    of_thread = known["__tls_get_addr"], ctypes.addressof(index)
    parts: dict[Part, tuple[Getter, ...]] = {
        "settings": settings,
        "function modes": (Getter(known["jitpkg_function_modes"], 0, VALUE, _ALL),),
        "thread": tuple(Getter(*of_thread, at, _ALL) for at in (0, 8)),
    }
    return States(MappingProxyType(parts), known["jitpkg_saved_hooks"], index)


_INCLUDED = "_ZN3c104impl26raw_local_dispatch_key_setE"
"""The dispatch keys that a thread includes, and those that it excludes: two words."""

_MODULE, _BLOCK = 9, 10
"""What `dlinfo` is asked for: the number of a library's variables of threads, and where this
thread has them."""


def _thread_index() -> ctypes.Array[ctypes.c_uint64] | None:
    """What `__tls_get_addr` takes to give the address of this thread's dispatch keys."""
    process = ctypes.CDLL(None)
    for path in torch_folder().glob("libc10.so*"):
        try:
            library = ctypes.CDLL(str(path))
            here = ctypes.addressof(ctypes.c_char.in_dll(library, _INCLUDED))
            module, block = ctypes.c_size_t(), ctypes.c_size_t()
            handle = _opened(str(path))
            for what, found in ((_MODULE, module), (_BLOCK, block)):
                if process.dlinfo(handle, what, ctypes.byref(found)):
                    return None
        except (OSError, ValueError, AttributeError):
            continue
        index = (ctypes.c_uint64 * 2)(module.value, here - block.value)
        return index if _finds(index, library) else None
    return None


def _opened(path: str) -> ctypes.c_void_p:
    """What `dlinfo` takes for a library that is in the process: it stays there."""
    open_ = ctypes.CDLL(None).dlopen
    open_.restype = ctypes.c_void_p
    return ctypes.c_void_p(open_(path.encode(), ctypes.DEFAULT_MODE | os.RTLD_NOW))


def _finds(index: ctypes.Array[ctypes.c_uint64], library: ctypes.CDLL) -> bool:
    """Whether it leads to the variable, in this thread and in another one."""
    found = []

    def compare() -> None:
        here = ctypes.addressof(ctypes.c_char.in_dll(library, _INCLUDED))
        found.append((here, _called(addresses()["__tls_get_addr"], ctypes.addressof(index))))

    def aside() -> None:
        threads.begin()
        compare()

    compare()
    other = threading.Thread(target=aside, name="jitpkg.native.states")
    try:
        other.start()
    except RuntimeError:
        return False
    other.join()
    one, two = found
    return one[0] == one[1] != two[0] == two[1]


def _called(function: int, argument: int) -> int:
    call: Callable[[int], int] = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(function)
    return call(argument)
