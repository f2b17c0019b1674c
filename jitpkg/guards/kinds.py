"""The kinds of guard: each a test, as Python text, and the sentence that says why it failed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import field
from types import CellType, CodeType

import torch

from jitpkg import native
from jitpkg.dataclass import dataclass
from jitpkg.guards import leaves
from jitpkg.guards.abstract import SubclassesAre
from jitpkg.guards.metadata import ApartInMemory, LeafIs, OwnMemory, SizesAre, TensorIs
from jitpkg.guards.names import Names
from jitpkg.guards.numbers import Holds, SameNumbers
from jitpkg.guards.shown import PLAIN, brief, literal
from jitpkg.guards.sources import Held, Source, described, object_name
from jitpkg.guards.special import special


@dataclass(frozen=True, slots=True)
class TypeIs:
    """An object's exact class."""

    at: Source
    cls: type

    def test(self, names: Names) -> str:
        return f"type({names.of(self.at)}) is {names.hold(self.cls, self.cls.__name__)}"

    def why(self, now: object) -> str:
        return (
            f"{described(self.at)} is a {type(now).__qualname__}; built for {self.cls.__qualname__}"
        )


@dataclass(frozen=True, eq=False)
class Is:
    """An object's identity."""

    at: Source
    obj: object

    def __eq__(self, other: object) -> bool:
        return type(other) is Is and other.at == self.at and other.obj is self.obj

    def __hash__(self) -> int:
        return hash((Is, self.at, id(self.obj)))

    def test(self, names: Names) -> str:
        literal = repr(self.obj) if self.obj in _SINGLETONS else names.hold(self.obj, "")
        return f"{names.of(self.at)} is {literal}"

    def why(self, now: object) -> str:
        return f"{described(self.at)} is {brief(now)}; built for {brief(self.obj)}"


@dataclass(frozen=True, eq=False)
class IsNot:
    """An object is not a certain one."""

    at: Source
    obj: object

    def test(self, names: Names) -> str:
        literal = repr(self.obj) if self.obj in _SINGLETONS else names.hold(self.obj, "")
        return f"{names.of(self.at)} is not {literal}"

    def why(self, now: object) -> str:
        return f"{described(self.at)} is {brief(now)} now"


class _Singletons:
    def __contains__(self, obj: object) -> bool:
        return obj is None or obj is True or obj is False


_SINGLETONS = _Singletons()


@dataclass(frozen=True, eq=False)
class ConstantIs:
    """A number, a string or bytes: the same class and the same value, bit for bit."""

    at: Source
    value: object

    def _key(self) -> tuple[object, ...]:
        return (ConstantIs, self.at, constant_key(self.value))

    def __eq__(self, other: object) -> bool:
        return type(other) is ConstantIs and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def test(self, names: Names) -> str:
        x, value = names.of(self.at), self.value
        is_class = f"type({x}) is {names.hold(type(value), type(value).__name__)}"
        match value:
            case int() | str() | bytes():
                return f"{is_class} and {x} == {literal(value) or names.hold(value, 'value')}"
            case float() if math.isnan(value):
                return f"{is_class} and {x} != {x}"
            case float() if value == 0.0:
                sign = names.hold(math.copysign, "copysign")
                return (
                    f"{is_class} and {x} == 0.0 and {sign}(1.0, {x}) == {math.copysign(1.0, value)}"
                )
            case float():
                return f"{is_class} and {x} == {names.hold(value, 'float')}"
            case torch.device():
                return f"{is_class} and {x} == {names.hold(value, 'device')}"
            case range():
                same = f"({x}.start, {x}.stop, {x}.step) == {(value.start, value.stop, value.step)}"
                return f"{is_class} and {same}"
            case _:
                return f"{is_class} and repr({x}) == {repr(value)!r}"

    def why(self, now: object) -> str:
        return f"{described(self.at)} is {brief(now)}; built for {brief(self.value)}"


@dataclass(frozen=True, slots=True)
class LengthIs:
    """How many items a container has, counted as `cls` counts them."""

    at: Source
    length: int
    cls: type | None = None
    """The builtin class of a subclass's instance; None where the object itself is of one."""

    def test(self, names: Names) -> str:
        if self.cls is None and not self.length:
            return f"not {names.of(self.at)}"
        if self.cls is None:
            return f"len({names.of(self.at)}) == {self.length}"
        length_of = names.hold(special(self.cls, "__len__"), f"{self.cls.__name__}_len")
        return f"{length_of}({names.of(self.at)}) == {self.length}"

    def why(self, now: object) -> str:
        count = _length(now, self.cls)
        items = "item" if count == 1 else "items"
        return f"{described(self.at)} has {count} {items}; built for {self.length}"


def _length(now: object, cls: type | None) -> int:
    count: int = special(cls or type(now), "__len__")(now)
    return count


@dataclass(frozen=True, slots=True)
class KeysAre:
    """A dict's keys, in order. Each is a constant, or a `Held` for one found by identity."""

    at: Source
    keys: tuple[object, ...]
    cls: type = dict
    """The builtin class that walks the keys."""
    exact: bool = True
    """Whether the dict is of that class, and not of one derived from it."""

    def test(self, names: Names) -> str:
        if not self.keys and self.cls is dict and self.exact:
            return f"not {names.of(self.at)}"
        same = names.hold(same_keys, "same_keys")
        keys = names.hold(tuple(k.obj if isinstance(k, Held) else k for k in self.keys), "keys")
        return f"{same}({names.of(self.at)}, {keys}, {names.hold(self.cls, self.cls.__name__)})"

    def why(self, now: object) -> str:
        built = tuple(k.obj if isinstance(k, Held) else k for k in self.keys)
        if not isinstance(now, dict):
            return f"the keys of {described(self.at)} differ from {brief(built)}"
        keys = tuple(special(self.cls, "__iter__")(now))
        return f"{described(self.at)} has {_keys(keys)}; built for {_keys(built)}"


def _keys(keys: tuple[object, ...]) -> str:
    text = ", ".join(map(brief, keys))
    return f"the keys {text}" if 0 < len(text) <= 60 else f"{len(keys) or 'no'} keys"


def same_keys(now: dict[object, object], keys: tuple[object, ...], cls: type) -> bool:
    """Whether a dict has these keys in this order, without calling a key's `__eq__`."""
    if special(cls, "__len__")(now) != len(keys):
        return False
    return all(map(same_constant, special(cls, "__iter__")(now), keys))


def same_constant(a: object, b: object) -> bool:
    """Whether two keys or elements are one object, or equal constants of one class."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | frozenset) and type(a) in BY_PARTS:
        assert isinstance(b, tuple | frozenset)
        return len(a) == len(b) and all(map(same_constant, a, b))
    return type(a) in PLAIN and constant_key(a) == constant_key(b)


BY_PARTS = (tuple, frozenset)
"""Classes of keys that are known by what is in them, in its order."""

_EQUAL_IF_SAME = frozenset({int, str, bytes, bool, type(None)})


def constant_key(value: object) -> tuple[type, object]:
    """Equal for constants of one class with one value, bit for bit."""
    kind = type(value)
    return kind, value if kind in _EQUAL_IF_SAME else repr(value)


@dataclass(frozen=True, slots=True)
class Has:
    """A dict has, or lacks, a key."""

    at: Source
    key: object
    present: bool
    cls: type | None = None
    """The builtin class of a subclass's instance; None where the object itself is of one."""

    def test(self, names: Names) -> str:
        held = self.key.obj if isinstance(self.key, Held) else self.key
        key = literal(held) or names.hold(held, "key")
        return _contains(names, self.at, key, self.cls, present=self.present)

    def why(self, now: object) -> str:
        key = object_name(self.key.obj) if isinstance(self.key, Held) else repr(self.key)
        return f"{described(self.at)} {'lacks' if self.present else 'has'} {key} now"


def _contains(names: Names, at: Source, key: str, cls: type | None, *, present: bool) -> str:
    if cls is None:
        return f"{key} {'in' if present else 'not in'} {names.of(at)}"
    contains = names.hold(special(cls, "__contains__"), f"{cls.__name__}_contains")
    return f"{'' if present else 'not '}{contains}({names.of(at)}, {key})"


@dataclass(frozen=True, slots=True)
class HasAt:
    """A dict has, or lacks, the object that another path leads to as a key."""

    at: Source
    key: Source
    present: bool
    cls: type | None = None
    """As of `Has`."""

    def test(self, names: Names) -> str:
        key = names.of(self.key)
        return _contains(names, self.at, key, self.cls, present=self.present)

    def why(self, now: object) -> str:
        said = "lacks" if self.present else "has"
        return f"{described(self.at)} {said} {described(self.key)} now"


@dataclass(frozen=True, slots=True)
class Exists:
    """A path leads somewhere: to read it raises nothing."""

    at: Source

    def test(self, names: Names) -> str:
        return f"({names.of(self.at)},)"

    def why(self, now: object) -> str:
        return f"{described(self.at)} is not there any more"


@dataclass(frozen=True, slots=True)
class Same:
    """Two paths lead to one object, or to two."""

    at: Source
    other: Source
    same: bool

    def test(self, names: Names) -> str:
        relation = "is" if self.same else "is not"
        return f"{names.of(self.at)} {relation} {names.of(self.other)}"

    def why(self, now: object) -> str:
        relation = "are no longer one object" if self.same else "are one object now"
        return f"{described(self.at)} and {described(self.other)} {relation}"


@dataclass(frozen=True, slots=True)
class CellIsEmpty:
    """A closure cell holds nothing."""

    at: Source

    def test(self, names: Names) -> str:
        return f"{names.of(self.at)} == {names.hold(_EMPTY_CELL, 'empty_cell')}"

    def why(self, now: object) -> str:
        return f"{described(self.at)} is bound now"


_EMPTY_CELL = CellType()


@dataclass(frozen=True, slots=True)
class CodeIs:
    """The code of a function, as its author wrote it: hooks do not count."""

    at: Source
    code: CodeType
    original: Callable[[CodeType], CodeType] = field(compare=False)
    """Takes hooks off; any other code is its own original."""

    def test(self, names: Names) -> str:
        now = f"{names.of(self.at)}.__code__"
        held = names.hold(self.code, self.code.co_name.strip("_") + "_code")
        original = names.hold(self.original, "original_code")
        return f"{now} is {held} or {original}({now}) is {held}"

    def why(self, now: object) -> str:
        return f"{described(self.at)} has other code now"


@dataclass(frozen=True, slots=True)
class BasesAre:
    """A class's method resolution order, which assigning to `__bases__` changes."""

    cls: type
    order: tuple[type, ...]

    @property
    def at(self) -> Source:
        return Held(self.cls)

    def test(self, names: Names) -> str:
        held = names.hold(self.order, f"bases_of_{self.cls.__name__}")
        now = f"{names.hold(self.cls, self.cls.__name__)}.__mro__"
        return f"{now} is {held} or {names.hold(same_objects, 'same_objects')}({now}, {held})"

    def why(self, now: object) -> str:
        return f"{self.cls.__qualname__} has other bases now"


def same_objects(now: tuple[object, ...], before: tuple[object, ...]) -> bool:
    """Whether two tuples have the same objects, without calling an `__eq__`."""
    return len(now) == len(before) and all(map(operator.is_, now, before))


@dataclass(frozen=True, eq=False, slots=True)
class LineageIs:
    """What attribute look-ups on a class found, anywhere in its method resolution order."""

    cls: type
    found: tuple[tuple[str, object], ...] = field(repr=False)
    """For each name that was read: what the class or a base holds, or ABSENT."""

    at: Source = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", Held(self.cls))

    def test(self, names: Names) -> str:
        check = lineage_check(self.cls, self.found)
        text = f"{names.hold(check, f'same_{self.cls.__name__}')}()"
        dict_version = leaves.dict_version()
        if dict_version is None:
            return text
        version = names.hold(dict_version, "version")
        namespaces = mutable_namespaces(self.cls)
        order = method_order(self.cls)
        bases = f"{names.hold(self.cls, '')}.__mro__ is {names.hold(order, 'bases')}"
        unchanged = [] if len(namespaces) < 2 else [bases]
        for base, namespace in namespaces:
            held = names.hold(namespace, f"{base.__name__}_names")
            unchanged.append(f"{version}({held}) == {dict_version(namespace)}")
        return f"{' and '.join(unchanged)} or {text}"

    def why(self, now: object) -> str:
        for name, expected in self.found:
            if static_lookup(self.cls, name) is not expected:
                return f"{self.cls.__qualname__}.{name} has been changed"
        return f"{self.cls.__qualname__} has been changed"


def mutable_namespaces(cls: type) -> list[tuple[type, dict[str, object]]]:
    """The real dictionaries of a class and its bases, of those that can be changed."""
    return [
        (base, leaves.class_dictionary(base))
        for base in method_order(cls)
        if leaves.is_mutable(base)
    ]


class _Absent:
    """Stands for an attribute that is nowhere in a class's method resolution order."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT = _Absent()


method_order: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_namespace_of: Callable[[type], Mapping[str, object]] = type.__dict__["__dict__"].__get__


def static_lookup(cls: type, name: str) -> object:
    """What `cls` or its first base that has it holds under `name`; ABSENT if none. Runs no code."""
    for base in method_order(cls):
        held = _namespace_of(base)
        if name in held:
            return held[name]
    return ABSENT


def lineage_check(cls: type, found: tuple[tuple[str, object], ...]) -> Callable[[], bool]:
    """A function that looks every name up again.

    While no dictionary of the class and its bases has changed at all, it need not look: 0.1 us in
    place of 1 us a name.
    """

    def same() -> bool:
        return all(static_lookup(cls, name) is expected for name, expected in found)

    dict_version = leaves.dict_version()
    if dict_version is None:
        return same
    order = method_order(cls)
    dictionaries = [namespace for _, namespace in mutable_namespaces(cls)]

    def versions() -> tuple[int, ...]:
        return tuple(map(dict_version, dictionaries))

    known: tuple[int, ...] | None = versions()
    if not same():
        known = None

    def unchanged() -> bool:
        nonlocal known
        if method_order(cls) is not order:
            return same()
        now = versions()
        if now == known:
            return True
        if not same():
            return False
        known = now
        return True

    return unchanged


@dataclass(frozen=True, slots=True)
class Asks:
    """A call, and what it must give."""

    function: Callable[..., object]
    argument: tuple[object, ...]
    """None or one."""
    answer: bool | None
    """Something true, something false, or None."""
    part: native.Part | None = None
    """The part of torch's state that this is, where native code can look at it itself."""


@dataclass(frozen=True, slots=True)
class StateIs:
    """A piece of torch's or Python's global state, as one expression."""

    what: str
    expression: str
    """Python text; names in braces are filled from `held`."""
    held: tuple[tuple[str, object], ...] = field(hash=False, compare=False)
    asks: Asks | None = field(default=None, hash=False, compare=False)
    """The same, where it is one call."""
    at: Source = field(init=False, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", Held(None))

    def test(self, names: Names) -> str:
        return self.expression.format(**{n: names.hold(obj, n) for n, obj in self.held})

    def why(self, now: object) -> str:
        for _, obj in self.held:
            reason = getattr(getattr(obj, "__self__", None), "reason", None)
            if reason is not None and (names := reason().split()):  # torch's own: it knows which
                which = ", ".join(name.replace("_", " ") for name in names)
                return f"a global setting of torch has changed: {which}"
        return f"{self.what} has changed"


@dataclass(frozen=True, slots=True)
class Answers:
    """What a function says of an object: `function(object, *arguments)` is `answer`."""

    at: Source
    function: Callable[..., object]
    arguments: tuple[object, ...]
    answer: bool
    what: str
    """What is asked, as a noun: "the level of a logger"."""

    def test(self, names: Names) -> str:
        function = names.hold(self.function, self.function.__name__.strip("_"))
        given = [literal(a) or names.hold(a, "argument") for a in self.arguments]
        return f"{function}({', '.join([names.of(self.at), *given])}) is {self.answer}"

    def why(self, now: object) -> str:
        return f"{self.what} has changed"


Guard = (
    TypeIs
    | Is
    | IsNot
    | ConstantIs
    | LengthIs
    | KeysAre
    | Has
    | HasAt
    | LeafIs
    | OwnMemory
    | ApartInMemory
    | Exists
    | Same
    | CellIsEmpty
    | CodeIs
    | BasesAre
    | LineageIs
    | TensorIs
    | SizesAre
    | Holds
    | SameNumbers
    | StateIs
    | SubclassesAre
    | Answers
)


AFTER_TENSORS = (SizesAre, Holds, SameNumbers, OwnMemory, ApartInMemory)
"""Guards that ask tensors for more than those on their metadata."""


def sources_of(guard: Guard) -> tuple[Source, ...]:
    """The paths that a guard reads."""
    match guard:
        case Same(at, other, _):
            return at, other
        case HasAt(at, key):
            return at, key
        case OwnMemory(several) | SameNumbers(several):
            return several
        case ApartInMemory(arrays, others):
            return *arrays, *others
        case BasesAre() | LineageIs() | StateIs() | SubclassesAre():
            return ()
        case TensorIs() | SizesAre() | Holds():
            return guard.sources()
        case _:
            return (guard.at,)
