"""Guards -> Python text: one walk over the access paths, cheapest first, each path read once."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType

import torch

from jitpkg.guards import leaves
from jitpkg.guards.kinds import AFTER_TENSORS, Exists, Guard, StateIs, sources_of
from jitpkg.guards.metadata import TensorIs
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
    base_of,
    call_of,
    depth,
    plain_of,
    proxied,
)
from jitpkg.guards.special import special
from jitpkg.guards.table import Table
from jitpkg.guards.walks import walk_of


class Text:
    """Lines of one generated function, with the objects that it holds.

    Satisfies `jitpkg.guards.names.Names`.
    """

    def __init__(self, parameters: Mapping[Source, str], reserved: Iterable[str] = ()) -> None:
        self.lines: list[str] = []
        self.held: dict[str, object] = {}
        self._variables: dict[Source, str] = dict(parameters)
        self._taken = {*parameters.values(), *reserved}
        self._last: Counter[str] = Counter()
        """The last number behind a stem; a model has a thousand weights."""
        self._held_names: dict[int, str] = {}
        self._uses: Counter[Source] = Counter()
        self._computed: dict[Computed, str] = {}
        self._computed_uses: Counter[Computed] = Counter()

    def line(self, text: str) -> None:
        self.lines.append(text)

    def indented(self) -> Text:
        """A part of the same function, whose lines are added by `extend`."""
        part = Text({})
        part._variables = self._variables
        part._taken, part._last = self._taken, self._last
        part.held = self.held
        part._held_names = self._held_names
        part._uses = self._uses
        part._computed, part._computed_uses = self._computed, self._computed_uses
        return part

    def beside(self) -> Text:
        """Of the same names, and not a part of the function: to show what it does."""
        other = Text(self._variables, self._taken)
        other._uses = self._uses
        return other

    def extend(self, part: Text, *, fallback: str) -> None:
        """Add the lines of a part, one level deeper; `fallback` where it has none."""
        self.lines.extend(f"    {line}" for line in part.lines or [fallback])

    def guard(self, start: int, undo: str) -> None:
        """Let a line run where one of those from `start` on raises."""
        inner = [f"    {line}" for line in self.lines[start:]]
        self.lines[start:] = ["try:", *inner, "except BaseException:", f"    {undo}", "    raise"]

    def variable(self, hint: str) -> str:
        """A name that nothing else in the function has."""
        stem = re.sub(r"\W+", "_", hint).strip("_") or "value"
        if stem[0].isdigit() or keyword.iskeyword(stem) or hasattr(builtins, stem):
            stem = f"the_{stem}"
        name, k = stem, self._last[stem] or 1
        while name in self._taken:
            k += 1
            name = f"{stem}_{k}"
        self._taken.add(name)
        self._last[stem] = k
        return name

    def hold(self, obj: object, hint: str) -> str:
        """The name under which the function holds an object."""
        known = self._held_names.get(id(obj))
        if known is not None:
            return known
        name = self.variable(hint or _hint_of_object(obj))
        self._held_names[id(obj)] = name
        self.held[name] = obj
        return name

    def count(self, sources: Iterable[Source]) -> None:
        """Announce paths that will be read: what is used twice becomes a variable."""
        for source in sources:
            self._uses[source] += 1
            while self._uses[source] == 1 and (base := base_of(source)) is not None:
                if type(source) is ItemAt:
                    self.count((source.key,))
                source = base
                self._uses[source] += 1

    def of(self, source: Source) -> str:
        """The expression for a path; a path that is used twice is read into a variable first."""
        known = self._variables.get(source)
        if known is not None:
            return known
        expression = self._expression(source)
        if self._uses[source] < 2 or isinstance(source, Held):
            return expression
        name = self.variable(_hint(source))
        self.line(f"{name} = {expression}")
        self._variables[source] = name
        return name

    def count_formulas(self, formulas: Iterable[Computed]) -> None:
        """Announce what will be computed: what is used twice becomes a variable."""
        self._computed_uses.update(formulas)

    def computed(self, number: Computed) -> str:
        """The expression for a number; one that is used twice is computed into a variable."""
        if self._computed_uses[number] < 2 and number not in self._computed:
            return number.text(self)
        return self.compute(number)

    def compute(self, number: Computed) -> str:
        """Like `computed`, but always into a variable: for what the body uses later."""
        known = self._computed.get(number)
        if known is not None:
            return known
        expression = number.text(self)
        name = self._computed[number] = self.variable("number")
        self.line(f"{name} = {expression}")
        return name

    def read(self, source: Source) -> str:
        """Like `of`, but always into a variable: for what the body uses later."""
        known = self._variables.get(source)
        if known is not None:
            return known
        if isinstance(source, Held):
            return self.hold(source.obj, "")
        name = self.variable(_hint(source))
        self.line(f"{name} = {self._expression(source)}")
        self._variables[source] = name
        return name

    def take(self, sources: Iterable[Source], values: str) -> None:
        """Bind each of these paths to a variable, from a tuple of what they lead to."""
        names = []
        for source in sources:
            names.append(self.variable(_hint(source)))
            self._variables[source] = names[-1]
        if names:
            self.line(f"({', '.join(names)},) = {values}")

    def _expression(self, source: Source) -> str:
        match source:
            case Input() | CellInput() | Globals():
                raise KeyError(f"the hook does not hand over {source}")
            case Held(obj):
                return self.hold(obj, "")
            case Attr(base, name):
                return f"{self.of(base)}.{name}"
            case OwnDict(base):
                get = self.hold(special(object, "__getattribute__"), "get_attribute")
                return f"{get}({self.of(base)}, '__dict__')"
            case Item(base, Held(obj)):
                return f"{self.of(base)}[{self.hold(obj, '')}]"
            case Item(base, key):
                return f"{self.of(base)}[{self._key(key)}]"
            case BaseItem(base, key, cls):
                get = self.hold(special(cls, "__getitem__"), f"{cls.__name__}_getitem")
                shown = self.hold(key.obj, "") if isinstance(key, Held) else self._key(key)
                return f"{get}({self.of(base)}, {shown})"
            case ItemAt(base, read):
                get = self.hold(special(dict, "__getitem__"), "dict_getitem")
                return f"{get}({self.of(base)}, {self.of(read)})"
            case SlotOf(base, descriptor):
                return f"{self.hold(descriptor.obj, 'slot')}.__get__({self.of(base)})"
            case TypeOf(base):
                return f"type({self.of(base)})"
            case Referent(base):
                return f"{self.of(base)}()"
            case Proxied(base):
                return f"{self.hold(proxied, 'proxied')}({self.of(base)})"
            case OriginalOf(base, find):
                return f"{self.hold(find, 'original')}({self.of(base)})"
            case WalkOf(base):
                return f"{self.hold(walk_of, 'walk_of')}({self.of(base)})"
            case Strides(base):
                return f"{self.of(base)}.stride()"
            case NumberIn(base):
                return f"{self.of(base)}.item()"
            case Remembered(base, call):
                return f"{self.hold(call_of, 'call_of')}({self.of(base)}, {self.of(call)})"
            case MemoryOf(base):
                return f"{self.hold(torch.from_numpy, 'from_numpy')}({self.of(base)})"
            case PlainOf(base):
                return f"{self.hold(plain_of, 'plain_of')}({self.of(base)})"

    def _key(self, key: object) -> str:
        if isinstance(key, str | int | bytes) or key is None:
            return repr(key)
        return self.hold(key, "key")


def _hint_of_object(obj: object) -> str:
    """What a person would call the object."""
    match obj:
        case ModuleType():
            return obj.__name__.rpartition(".")[2]
        case type() | FunctionType() | BuiltinFunctionType() | MethodDescriptorType():
            return obj.__name__
        case {"__name__": str(name), "__spec__": _}:
            return f"{name.rpartition('.')[2].strip('_')}_globals"
        case _:
            return type(obj).__name__


def _hint(source: Source) -> str:
    match source:
        case Attr(base, "__dict__") | OwnDict(base):
            return f"{_hint(base)}_dict"
        case Attr(CellInput(_, name), "cell_contents") | Attr(_, name):
            return name.strip("_")
        case Item(_, str() as name) | BaseItem(_, str() as name, _):
            return name.strip("_")
        case Item(base, int() as index):
            return f"{_hint(base)}_{index}"
        case Input(_, name) | CellInput(_, name):
            return name
        case Strides(base):
            return f"{_hint(base)}_stride"
        case NumberIn(base):
            return f"number_in_{_hint(base)}"
        case Remembered(base):
            return f"remembered_by_{_hint(base)}"
        case MemoryOf(base):
            return f"memory_of_{_hint(base)}"
        case PlainOf(base):
            return f"plain_{_hint(base)}"
        case _:
            return "v"


def order(guards: Iterable[Guard]) -> list[Guard]:
    """The order in which to test: a path is read only after all guards on what it is read from.

    Cheap tests of the arguments come first, then global state, then what lies deeper; then all
    tensors, in one call, and last the numbers that vary.
    """
    return sorted(dict.fromkeys(guards), key=_rank)


def _rank(guard: Guard) -> tuple[int, int]:
    if isinstance(guard, TensorIs):
        return 1000, 0
    if isinstance(guard, AFTER_TENSORS):
        return 1001, 0
    if isinstance(guard, StateIs):
        return 0, 1
    return max((depth(source) for source in sources_of(guard)), default=1), 0


def write_tests(
    text: Text,
    guards: Sequence[Guard],
    otherwise: str,
    examples: Mapping[Source, torch.Tensor] | None = None,
    by: Table | None = None,
) -> None:
    """Write every test; where one fails the function executes the statement `otherwise`.

    `examples` are the tensors of the call at hand, where one is known for each tensor guard: a
    check that is faster than the guards' own text is made from them. What a table tests is called
    in place of its text, which is a comment then.
    """
    tensors = [guard for guard in guards if isinstance(guard, TensorIs)]
    numbers = [guard for guard in guards if isinstance(guard, AFTER_TENSORS)]
    if by is None:
        _write_plain_tests(text, guards, otherwise)
    else:
        _write_call(text, guards, otherwise, by, tensors[by.left :])
        tensors = tensors[: by.left]
    if tensors:
        _write_tensor_tests(text, tensors, otherwise, examples)
    for guard in numbers:
        text.line(f"if not ({guard.test(text)}): {otherwise}")


def _write_plain_tests(text: Text, guards: Iterable[Guard], otherwise: str) -> None:
    for guard in guards:
        if isinstance(guard, Exists):
            text.read(guard.at)
        elif not isinstance(guard, (TensorIs, *AFTER_TENSORS)):
            text.line(f"if not ({guard.test(text)}): {otherwise}")


def _write_call(
    text: Text, guards: Iterable[Guard], otherwise: str, by: Table, compared: Iterable[TensorIs]
) -> None:
    """The call of a table, after what it tests; nothing else tests the tensors `compared`."""
    said = text.beside()
    _write_plain_tests(said, guards, otherwise)
    for guard in compared:
        said.line(f"{said.of(guard.at)}: {guard.facts}")
    text.lines += [f"# {line}" for line in said.lines]
    text.hold(by.held, "compared")
    values = text.variable("values")
    given = ", ".join(by.parameters)
    text.line(f"{values} = {text.hold(by.function, 'guards_hold')}({given})")
    text.line(f"if {values} is None: {otherwise}")
    text.take(by.results, values)


def _write_tensor_tests(
    text: Text,
    tensors: Sequence[TensorIs],
    otherwise: str,
    examples: Mapping[Source, torch.Tensor] | None,
) -> None:
    names = [text.read(guard.at) for guard in tensors]
    if leaves.compares_tensors() and examples is not None:
        for name, guard in zip(names, tensors, strict=True):
            text.line(f"# {name}: {guard.facts}")
        given = [examples[guard.at] for guard in tensors]
        check = leaves.tensor_check(given, [guard.facts for guard in tensors])
        text.line(f"if not {text.hold(check, 'tensors_same')}({', '.join(names)}): {otherwise}")
        return
    for guard in tensors:
        text.line(f"if not ({guard.test(text)}): {otherwise}")
    if len(names) > 1:
        ids = ", ".join(f"id({name})" for name in names)
        text.line(f"if len({{{ids}}}) != {len(names)}: {otherwise}")
