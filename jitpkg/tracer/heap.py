"""What can change about traced values, with a journal, so that a mark can be gone back to.

Nothing here is a real object of the user's: the trace sees its own changes, the user's objects do
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from types import MappingProxyType
from typing import Literal, NoReturn, overload

from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts.tensor import TensorFacts
from jitpkg.tracer.values import Array, Lazy, Object, Tuple, Value

Key = object
"""A Python object that stands for a dict key or a set element: equal keys are equal objects."""


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a list or deque."""

    items: tuple[Value, ...] = ()
    unread: bool = False
    """The items that the existing object has come before these, and nobody has looked at them."""
    limit: int | None = None
    """A deque's `maxlen`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a dict: its key and its value, UNBOUND where it was deleted."""

    key: Value
    value: Value
    moved: bool = False
    """Behind all keys that the existing dict had."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The items of a dict, or the elements of a set (with themselves as values)."""

    entries: Mapping[Key, Entry] = field(default_factory=lambda: MappingProxyType({}))
    unread: bool = False
    """These are what was read or changed; of other keys the existing dict knows."""
    factory: Value | None = None
    """A defaultdict's `default_factory`."""
    removals: int = 0
    """How often the trace has taken something out, or moved it."""
    added: bool = True
    """Of a set that the trace made: whether it came to be by adding these, one after the other."""

    def with_entry(self, key: Key, entry: Entry, *, last: bool = False) -> Entries:
        entries = dict(self.entries)
        if last:
            entries.pop(key, None)
        entries[key] = entry
        return replace(self, entries=MappingProxyType(entries))

    def without(self, key: Key) -> Entries:
        entries = dict(self.entries)
        del entries[key]
        return replace(self, entries=MappingProxyType(entries))


Attributes = Mapping[str, Value]
"""Attributes that were read or written; UNBOUND for one that was deleted."""

Slot = Literal[
    "items",
    "entries",
    "attributes",
    "facts",
    "node",
    "content",
    "grad",
    "position",
    "walk",
    "frame",
    "shared",
    "of_array",
    "writes",
    "remembered",
]
State = object
States = Mapping[tuple[Value, Slot], State]


def _held(state: State) -> Iterable[Value]:
    match state:
        case Items(items):
            return items
        case Entries(entries, _, factory):
            pairs = [part for entry in entries.values() for part in (entry.key, entry.value)]
            return pairs if factory is None else [*pairs, factory]
        case Mapping():
            return state.values()
        case Object() | Lazy() | Tuple():
            return (state,)
        case _:
            return ()


def values_of(states: Iterable[tuple[tuple[Value, Slot], State]]) -> Iterator[Value]:
    """Every value that one of the states is of or holds itself."""
    for (value, _), state in states:
        yield value
        yield from _held(state)


class Heap:
    """State by value and kind of state."""

    def __init__(self) -> None:
        self._states: dict[tuple[Value, Slot], State] = {}
        self._journal: list[tuple[tuple[Value, Slot], State]] = []
        self._reads: set[Value] | None = None
        self._remembers = False
        self.refuse: Callable[[], NoReturn] | None = None
        """Called where something is changed that others remember: see `pure_calls`."""

    @overload
    def read(self, value: Value, slot: Literal["items"]) -> Items | None: ...
    @overload
    def read(self, value: Value, slot: Literal["entries"]) -> Entries | None: ...
    @overload
    def read(self, value: Value, slot: Literal["attributes"]) -> Attributes | None: ...
    @overload
    def read(self, value: Value, slot: Literal["facts"]) -> TensorFacts | None: ...
    @overload
    def read(self, value: Value, slot: Literal["content", "grad"]) -> Value | None: ...
    @overload
    def read(self, value: Value, slot: Literal["shared", "remembered"]) -> bool | None: ...
    @overload
    def read(self, value: Value, slot: Literal["of_array"]) -> Array | None: ...
    @overload
    def read(self, value: Value, slot: Literal["node"]) -> fx.Node | None: ...
    @overload
    def read(self, value: Value, slot: Literal["position", "writes"]) -> int | None: ...
    @overload
    def read(self, value: Value, slot: Literal["walk"]) -> Literal["begun", "ended"] | None: ...
    @overload
    def read(self, value: Value, slot: Literal["frame"]) -> object: ...
    def read(self, value: Value, slot: Slot) -> State:
        """What is known, or None."""
        if self._reads is not None:
            self._reads.add(value)
        return self._states.get((value, slot))

    @contextmanager
    def noting_reads(self) -> Iterator[set[Value]]:
        """Inside, the values of which something is read are added to a set."""
        outside, self._reads = self._reads, set()
        noted = self._reads
        try:
            yield noted
        finally:
            self._reads = outside
            if outside is not None:
                outside |= noted

    def write(self, value: Value, slot: Slot, state: State) -> None:
        key = value, slot
        if self._remembers and self.refuse is not None and (value, "remembered") in self._states:
            self.refuse()
        self._remembers |= slot == "remembered"
        self._journal.append((key, self._states.get(key)))
        self._states[key] = state

    def known(self) -> set[Value]:
        """The values of which there is a state."""
        return {value for value, _ in self._states}

    def mark(self) -> int:
        return len(self._journal)

    def as_of(self, mark: int) -> Heap:
        """A heap in the state at `mark`."""
        past = Heap()
        past._states = dict(self._states)
        past._journal = list(self._journal)
        past.rollback(mark)
        return past

    def since(self, mark: int) -> States:
        """What was written since `mark`, as it is now."""
        return {key: self._states[key] for key, _ in self._journal[mark:]}

    def with_states(self, states: States) -> Heap:
        """The same, with other states for some."""
        other = Heap()
        other._states = {**self._states, **states}
        return other

    def values(self) -> Iterator[Value]:
        """Every value that any state, also a past one, is of or holds itself."""
        yield from values_of((*self._states.items(), *self._journal))

    def rollback(self, mark: int) -> None:
        """Undo every write since `mark`."""
        while len(self._journal) > mark:
            key, old = self._journal.pop()
            if old is None:
                del self._states[key]
            else:
                self._states[key] = old
