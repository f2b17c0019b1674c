"""Where a generator of torch's has its lock and its words in memory, found by trying."""

from __future__ import annotations

import ctypes
import threading
import time

import torch

from jitpkg import threads
from jitpkg.dataclass import dataclass
from jitpkg.internals import tensors
from jitpkg.native.symbols import has

LEFT_AT = 8
"""In what draws: how many of the words are left, and one more, as 32 bits."""
NEXT_AT = 16
"""Also there: the place of the next word, as 32 bits."""
WORDS_AT = 20
"""Also there: the words, of 32 bits each."""

WORDS = 624

_BEFORE = 160
"""Bytes before what draws, at most."""

_SAVED_AT = 24
"""Where `get_state` has the words, as 64 bits each."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie in the C++ object of a generator, in bytes."""

    lock_at: int
    """A lock of the operating system's (`pthread_mutex_t`), which ops hold while they draw."""
    engine_at: int
    """What draws: `mt19937_data_pod` of ATen's."""


def look() -> Layout | None:
    """Where it is in this process; None where that cannot be told."""
    if tensors.GENERATOR_ADDRESS.found() is None or not has("pthread_mutex_trylock"):
        return None
    if (engine_at := _engine_at()) is None or (lock_at := _lock_at(engine_at)) is None:
        return None
    return Layout(lock_at, engine_at)


def _engine_at() -> int | None:
    """Where the words are that `get_state` shows, and before them how many are left."""
    places = set(range(0, _BEFORE, 8))
    for seed, drawn in ((1, 5), (2**63 + 2, 700)):
        generator = torch.Generator()
        generator.manual_seed(seed)
        torch.empty(drawn, dtype=torch.float32).uniform_(generator=generator)
        saved = generator.get_state()[_SAVED_AT:].view(torch.int64)[:WORDS].tolist()
        found = _numbers(generator, (_BEFORE + WORDS_AT) // 4 + WORDS)
        left = WORDS + 1 - drawn % WORDS
        places = {
            at
            for at in places
            if found[(at + LEFT_AT) // 4] == left
            and found[(at + NEXT_AT) // 4] == drawn % WORDS
            and found[(at + WORDS_AT) // 4 :][:WORDS] == saved
        }
    return places.pop() if len(places) == 1 else None


_LOCK_BYTES = 40
"""Of a lock, in glibc: whether it is held, how often, the number of the thread, and more."""
_DRAWN = 100_000
"""Elements, in half a millisecond."""
_PAUSE, _PAUSES = 2e-4, 1000
"""Seconds between two looks, and how many of them at most."""


def _lock_at(engine_at: int) -> int | None:
    """Where, while a thread draws, a lock is held by that thread, and by nobody before and after.

    Nothing is locked to find that out: who took a wrong place for the lock would wait for ever.
    """
    generator = torch.Generator()

    def places(*begin: int) -> set[int]:
        """Where a lock would lie that begins so now."""
        now = _numbers(generator, engine_at // 4)
        every = range(0, engine_at - _LOCK_BYTES + 1, 8)
        return {at for at in every if now[at // 4 :][:4] == [*begin]}

    before = places(0, 0, 0, 0)
    number: list[int] = []
    enough = threading.Event()

    def draw() -> None:
        threads.begin()
        made = torch.empty(_DRAWN, dtype=torch.bool, device="cpu")
        number.append(threading.get_native_id())
        while not enough.is_set():
            made.bernoulli_(generator=generator)

    drawing = threading.Thread(target=draw, name="jitpkg.native.generators")
    drawing.start()
    held: set[int] = set()
    for _ in range(_PAUSES):
        time.sleep(_PAUSE)
        held = before & places(1, 0, *number, 1)
        if held or not drawing.is_alive():
            break
    enough.set()
    drawing.join()
    found = held & places(0, 0, 0, 0)
    return found.pop() if len(found) == 1 else None


def _numbers(generator: torch.Generator, count: int) -> list[int]:
    """The first numbers of 32 bits in the C++ object of a generator."""
    address = tensors.GENERATOR_ADDRESS.get()(generator)
    return list((ctypes.c_uint32 * count).from_address(address))
