"""Guards -> a table for `jitpkg.native.tables`: the same tests in the same order as the text.

The kinds that a model has a thousand of are records of their own. Any other is its own text, as a
function that the table calls; what is not in a table at all is what needs several numbers.
"""

from __future__ import annotations

import ctypes
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, GetSetDescriptorType
from typing import Any

import torch

from jitpkg import native
from jitpkg.dataclass import dataclass
from jitpkg.facts.sizes import Length, Size
from jitpkg.guards.kinds import (
    AFTER_TENSORS,
    BY_PARTS,
    Asks,
    BasesAre,
    CodeIs,
    ConstantIs,
    Exists,
    Guard,
    Has,
    HasAt,
    Is,
    IsNot,
    KeysAre,
    LengthIs,
    LineageIs,
    Same,
    StateIs,
    TypeIs,
    lineage_check,
    method_order,
    mutable_namespaces,
    same_objects,
    sources_of,
    static_lookup,
)
from jitpkg.guards.metadata import LeafIs, TensorIs
from jitpkg.guards.names import Computed
from jitpkg.guards.sources import (
    Attr,
    BaseItem,
    CellInput,
    Globals,
    Held,
    Input,
    Item,
    ItemAt,
    MemoryOf,
    NumberIn,
    OriginalOf,
    OwnDict,
    PlainOf,
    Proxied,
    Referent,
    Remembered,
    SlotOf,
    Source,
    Strides,
    TypeOf,
    WalkOf,
    call_of,
    plain_of,
    proxied,
)
from jitpkg.guards.special import special
from jitpkg.guards.walks import walk_of

ENOUGH = 256
"""Guards for which native code is started, where no kernel has: that takes 30 ms."""

FEWEST_TENSORS = 3
"""Fewer are compared by torch's own function anyway."""


@dataclass(frozen=True, slots=True)
class Table:
    """Guards that native code tests."""

    function: Callable[..., tuple[object, ...] | None]
    """Takes what the hook hands over, and gives what `results` lead to; None if a guard fails."""
    parameters: tuple[str, ...]
    """What that is called."""
    results: tuple[Source, ...]
    held: tuple[object, ...]
    """What the table refers to by address: to be held as long as the function is called."""
    left: int
    """How many of the tensors, from the first one on, are still to be compared: all; one, with
    which torch's own function compares this thread's modes; or none."""


def table(
    guards: Sequence[Guard],
    parameters: Mapping[Source, str],
    wanted: Sequence[Source],
    examples: Mapping[Source, torch.Tensor] | None,
) -> Table | None:
    """Guards as a table, which also reads what is `wanted`; None where native code has no part.

    What is not in it are the tests of numbers that vary, and of tensors where it does not compare
    those. `examples` has the tensor of the call at hand for each guard on one, if they are known.
    """
    evaluator = native.evaluator(start=len(guards) >= ENOUGH)
    if evaluator is None:
        return None
    return _Builder(evaluator, parameters, guards).table(wanted, examples)


class _Builder:
    def __init__(
        self,
        evaluator: native.Evaluator,
        parameters: Mapping[Source, str],
        guards: Sequence[Guard],
    ) -> None:
        self._evaluator = evaluator
        self._parameters = parameters
        self._guards = guards
        self._registers: dict[Source, int] = {s: k for k, s in enumerate(parameters)}
        self._count = len(parameters)
        self._words: list[int] = []
        self._held: dict[int, object] = {}
        self._types = {g.at: g.cls for g in guards if isinstance(g, TypeIs)}

    def table(
        self, wanted: Sequence[Source], examples: Mapping[Source, torch.Tensor] | None
    ) -> Table:
        tensors = [g for g in self._guards if isinstance(g, TensorIs)]
        described = None if examples is None else self._described(tensors, examples)
        states = self._evaluator.layout.states
        for guard in self._guards:
            if isinstance(guard, TensorIs) and described is not None:
                self._tensor(guard, described[guard.at])
            elif not isinstance(guard, (TensorIs, *AFTER_TENSORS)):
                self._guard(guard)
        left = len(tensors)
        if described is not None:
            self._distinct([self._read(guard.at) for guard in tensors])
            left = 1 if states is None else 0
            if states is not None:
                self._record(*states.record("thread"))
        read = [*wanted, *(guard.at for guard in tensors)]
        results = tuple(
            source
            for source in dict.fromkeys(read)
            if source not in self._parameters and not isinstance(source, Held)
        )
        numbers = [self._read(source) for source in results]
        self._record("END", len(numbers), words=numbers)
        function = self._evaluator.function(len(self._parameters), self._count, self._words)
        names = tuple(self._parameters.values())
        held = tuple(self._held.values())
        return Table(function, names, results, held, left)

    # Records

    def _record(
        self, code: str, a: int = 0, b: int = 0, c: int = 0, words: Sequence[int] = ()
    ) -> None:
        self._words += (native.CODES[code], a, b, c, *words)

    def _hold(self, obj: object) -> int:
        """The address of an object, which stays there."""
        self._held[id(obj)] = obj
        return id(obj)

    # Reads

    def _read(self, source: Source) -> int:
        """The register of what a path leads to."""
        known = self._registers.get(source)
        if known is not None:
            return known
        self._write_read(source)
        self._registers[source] = self._count
        self._count += 1
        return self._count - 1

    def _write_read(self, source: Source) -> None:
        match source:
            case Input() | CellInput() | Globals():
                raise KeyError(f"the hook does not hand over {source}")
            case Held(obj):
                self._record("CONSTANT", b=self._hold(obj))
            case Attr(base, "__dict__") if self._has_plain_dictionary(base):
                at, cls = self._read(base), self._types[base]
                self._record("DICTIONARY", at, self._hold(cls), self._hold("__dict__"))
            case Attr(base, name):
                self._record("ATTRIBUTE", self._read(base), self._hold(name))
            case Item(base, key):
                held = key.obj if isinstance(key, Held) else key
                words = (native.UNKNOWN, 0)
                self._record("KEY", self._read(base), self._hold(held), words=words)
            case OwnDict(base):
                self._call(special(object, "__getattribute__"), base, "__dict__")
            case BaseItem(base, key, cls):
                held = key.obj if isinstance(key, Held) else key
                self._call(special(cls, "__getitem__"), base, held)
            case ItemAt(base, read):
                self._record("KEYED", self._read(base), 0, self._read(read))
            case SlotOf(base, descriptor):
                self._call(special(type(descriptor.obj), "__get__").__get__(descriptor.obj), base)
            case TypeOf(base):
                self._call(type, base)
            case Referent(base):
                self._call(_called, base)
            case Proxied(base):
                self._call(proxied, base)
            case OriginalOf(base, find):
                self._call(find, base)
            case WalkOf(base):
                self._call(walk_of, base)
            case Strides(base):
                self._call(torch.Tensor.stride, base)
            case NumberIn(base):
                self._call(torch.Tensor.item, base)
            case Remembered(base, call):
                self._call(call_of, base, call.obj)
            case MemoryOf(base):
                self._call(torch.from_numpy, base)
            case PlainOf(base):
                self._call(plain_of, base)

    def _call(self, function: Callable[..., Any], base: Source, *argument: object) -> None:
        second = self._hold(argument[0]) if argument else 0
        self._record("CALL", self._read(base), self._hold(function), second)

    def _has_plain_dictionary(self, base: Source) -> bool:
        """Whether what is there is known to be of a class that shows its instances' dictionary."""
        cls = self._types.get(base)
        return cls is not None and _shows_dictionary(cls)

    # Tests

    def _guard(self, guard: Guard) -> None:
        match guard:
            case TypeIs(at, cls):
                self._record("TYPE", self._read(at), self._hold(cls))
            case Is() | IsNot():
                apart = isinstance(guard, IsNot)
                self._record("IS", self._read(guard.at), self._hold(guard.obj), apart)
            case Same(at, other, same):
                first, second = self._read(at), self._read(other)
                self._record("SAME", first, not same, second)
            case ConstantIs(at, value) if type(value) in (int, str, bytes, bool):
                kind = self._hold(type(value))
                self._record("EQUAL", self._read(at), self._hold(value), kind)
            case ConstantIs(at, float() as value) if type(value) is float and value == value:
                self._record("BITS", self._read(at), _bits(value), self._hold(float))
            case LengthIs(at, length) if (sized := self._sized(at)) is not None:
                self._record("BITS", self._read(at), length, self._hold(sized))
            case KeysAre(at, (), cls) if cls is dict and (sized := self._sized(at)) is not None:
                self._record("BITS", self._read(at), 0, self._hold(sized))
            case KeysAre(at, keys, cls) if cls is dict and self._types.get(at) is dict:
                self._keys(at, keys, guard)
            case Has(at, key, present, cls) if cls is None or _asks_as_dict(cls):
                held = key.obj if isinstance(key, Held) else key
                code, words = ("LISTED", ()) if cls else ("CONTAINS", (native.UNKNOWN,))
                self._record(code, self._read(at), self._hold(held), not present, words)
            case HasAt(at, key, True, cls) if _asks_as_dict(cls or self._types.get(at)):
                self._read(ItemAt(at, key))
            case LeafIs(at, cls, is_bare) if known := self._evaluator.layout.histories:
                asked = self._hold(cls), self._hold(guard.check)
                self._record("LEAF", self._read(at), *asked, [known.plain, is_bare])
            case Exists(at):
                self._read(at)
            case CodeIs(at, code, original) if self._is_function(at):
                now = self._read(at)
                self._record("CODE", now, self._hold(code), self._hold(original))
            case BasesAre(cls):
                order = guard.order
                check = _same_order(cls, order)
                self._unchanged(cls, order, (), check)
            case LineageIs(cls, found):
                self._lineage(cls, lineage_check(cls, found))
            case StateIs(asks=asks) if asks is not None:
                self._asked(asks)
            case _:
                self._by_text(guard)

    def _sized(self, at: Source) -> type | None:
        """The class of what is there, if its length lies where that of a tuple does."""
        cls = self._types.get(at)
        return cls if cls is not None and _has_plain_length(cls) else None

    def _is_function(self, at: Source) -> bool:
        held = isinstance(at, Held) and type(at.obj) is FunctionType
        return held or self._types.get(at) is FunctionType

    def _keys(self, at: Source, keys: tuple[object, ...], guard: Guard) -> None:
        if all(map(_is_compared_natively, keys)):
            held = tuple(key.obj if isinstance(key, Held) else key for key in keys)
            self._record("KEYS", self._read(at), self._hold(held))
        else:
            self._by_text(guard)

    def _lineage(self, cls: type, check: Callable[[], bool]) -> None:
        if not self._evaluator.layout.counts_changes or not check():
            self._record("ANSWERS", 1, self._hold(check))
            return
        namespaces = [namespace for _, namespace in mutable_namespaces(cls)]
        self._unchanged(cls, method_order(cls), namespaces, check)

    def _unchanged(
        self,
        cls: type,
        order: tuple[type, ...],
        namespaces: Sequence[dict[str, object]],
        check: Callable[[], bool],
    ) -> None:
        words = [self._hold(cls) + self._evaluator.layout.order_at, -1, self._hold(order)]
        for namespace in namespaces:
            words += native.version_word(self._hold(namespace))
        self._record("WORDS", len(words) // 3, self._hold(check), words=words)

    def _asked(self, asks: Asks) -> None:
        states = self._evaluator.layout.states
        # A record says that all is as now: the guard has to hold.
        if states and asks.part and bool(asks.function(*asks.argument)) is bool(asks.answer):
            self._record(*states.record(asks.part))
            return
        about = 2 if asks.answer is None else int(asks.answer)
        argument = self._hold(asks.argument[0]) if asks.argument else 0
        self._record("ANSWERS", about, self._hold(asks.function), argument)

    def _by_text(self, guard: Guard) -> None:
        sources = sources_of(guard)
        check = _check(guard, sources)
        if not sources:
            self._record("ANSWERS", 1, self._hold(check))
            return
        registers = [self._read(source) for source in sources]
        self._record("HOLDS", registers[0], self._hold(check), [*registers, -1][1])

    # Tensors

    def _described(
        self, guards: Sequence[TensorIs], examples: Mapping[Source, torch.Tensor]
    ) -> Mapping[Source, tuple[int, int]] | None:
        """What the table compares of each tensor besides lengths; None where it does not."""
        layout = self._evaluator.layout
        fewest = FEWEST_TENSORS if layout.states is None else 1
        if len(guards) < fewest or layout.keys_at is None:
            return None
        found: dict[Source, tuple[int, int]] = {}
        for guard in guards:
            described = self._evaluator.described(examples[guard.at])
            if described is None:
                return None
            found[guard.at] = described
        return found

    def _tensor(self, guard: TensorIs, words: tuple[int, int]) -> None:
        facts = guard.facts
        lengths = [*map(_number, facts.size), *map(_number, facts.stride)]
        cls = self._hold(facts.cls)
        self._record("TENSOR", self._read(guard.at), cls, len(facts.size), [*words, *lengths])

    def _distinct(self, registers: Sequence[int]) -> None:
        room = 1 << (2 * len(registers) - 1).bit_length()
        memory = (ctypes.c_uint64 * room)()
        self._hold(memory)
        at = ctypes.addressof(memory)
        self._record("DISTINCT", len(registers), at, room, registers)


_PLAIN = (str, int, bytes, bool, type(None))
"""Classes of keys that are one object, or equal, where they are the same constant."""


def _is_compared_natively(key: object) -> bool:
    """Whether it is a plain constant, or held by identity and not by its parts."""
    if isinstance(key, Held):
        return type(key.obj) not in BY_PARTS
    return type(key) in _PLAIN


def _number(length: Length) -> int:
    return native.ANY if isinstance(length, Size) else length


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("d", value), "little", signed=True)


def _called(reference: Callable[[], object]) -> object:
    return reference()


def _shows_dictionary(cls: type) -> bool:
    """Whether `x.__dict__` of an instance is what Python itself makes of that."""
    return isinstance(static_lookup(cls, "__dict__"), GetSetDescriptorType)


def _asks_as_dict(cls: type | None) -> bool:
    """Whether it is `dict` itself that says which keys an object of a builtin class has."""
    return cls is not None and static_lookup(cls, "__contains__") is dict.__dict__["__contains__"]


def _has_plain_length(cls: type) -> bool:
    return cls in (list, tuple, dict, OrderedDict)


def _same_order(cls: type, order: tuple[type, ...]) -> Callable[[], bool]:
    return lambda: same_objects(method_order(cls), order)


class _Arguments:
    """Names in the text of one test; satisfies `jitpkg.guards.names.Names`."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.names = {source: f"value_{k}" for k, source in enumerate(sources)}
        self.held: dict[str, object] = {}

    def of(self, source: Source) -> str:
        return self.names[source]

    def hold(self, obj: object, hint: str) -> str:
        name = f"held_{len(self.held)}"
        self.held[name] = obj
        return name

    def computed(self, number: Computed) -> str:
        return number.text(self)


def _check(guard: Guard, sources: Sequence[Source]) -> Callable[..., bool]:
    """A guard's text as a function of what its paths lead to."""
    names = _Arguments(sources)
    test = guard.test(names)
    check: Callable[..., bool] = eval(
        f"lambda {', '.join(names.names.values())}: {test}", names.held
    )
    return check
