"""Guards by native code against the same guards as text, on random objects."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jitpkg import native
from jitpkg.facts.tensor import facts_of
from jitpkg.guards import table as tables
from jitpkg.guards.kinds import (
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
    TypeIs,
    sources_of,
    static_lookup,
)
from jitpkg.guards.metadata import LeafIs, TensorIs, is_bare_leaf, is_plain_leaf
from jitpkg.guards.sources import Attr, BaseItem, Held, Input, Item, OwnDict, Source, TypeOf
from jitpkg.guards.text import Text, order, write_tests
from tests.native.support import needs_llvm

pytestmark = needs_llvm

A, B = Input(0, "a"), Input(1, "b")
PARAMETERS: dict[Source, str] = {A: "a", B: "b"}


class Plain:
    def __init__(self, value: object = 0) -> None:
        self.value = value


class Derived(Plain):
    extra = 1


class Shown:
    """Its `__dict__` is what it says."""

    def __init__(self) -> None:
        self.value = 0

    @property
    def __dict__(self) -> dict[str, object]:  # type: ignore[override]
        return {"value": 1}


class Texts(str):
    __slots__ = ()


class Numbers(dict[object, object]):
    pass


def function() -> int:
    return 1


def other_function() -> int:
    return 2


def again(made_from: FunctionType) -> FunctionType:
    return FunctionType(made_from.__code__, {})


CONSTANTS: tuple[object, ...] = (
    *(
        0,
        1,
        -1,
        True,
        False,
        None,
        1 << 70,
        (1 << 70) + 1,
        2,
        "",
        "a",
        "x y",
        b"",
        b"a",
        Texts("a"),
    ),
    *(0.0, -0.0, 1.0, math.nan, -math.nan, math.inf, 0.5, 1j, 1 + 0j, torch.float32, ...),
    *(range(3), range(0, 3, 1), range(2), torch.device("cpu"), torch.device("meta"), slice(None)),
)
OBJECTS: tuple[Callable[[], object], ...] = (
    *(Plain, Derived, Shown, lambda: Plain(1), lambda: function, lambda: other_function, object),
    *(lambda: again(function), lambda: len, lambda: Plain, lambda: Derived, lambda: torch),
    *(lambda: torch.zeros(2), lambda: torch.zeros(2, 1), lambda: torch.zeros(2).double()),
    *(lambda: torch.zeros(2, requires_grad=True), lambda: torch.nn.Parameter(torch.zeros(2))),
    *(lambda: torch.zeros(2, device="meta"), lambda: torch.zeros(2, dtype=torch.cfloat).conj()),
    *(lambda: torch.zeros(2, 2).t(), lambda: torch.zeros(2, 2), lambda: torch.nn.Linear(1, 1)),
    *(lambda: leaf() * 2, lambda: leaf()[:2], lambda: hooked(leaf())),
)

HAS_GRAD_DTYPE = hasattr(torch.zeros(1), "grad_dtype")


def leaf() -> torch.Tensor:
    return torch.zeros(2, requires_grad=True)


def hooked(x: torch.Tensor) -> torch.Tensor:
    x.register_hook(lambda grad: None)
    return x


def hooked_after(x: torch.Tensor) -> torch.Tensor:
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    return x


def of_any_gradient(x: Any) -> torch.Tensor:
    x.grad_dtype = None
    return x


def unhooked(x: torch.Tensor) -> torch.Tensor:
    x.register_hook(lambda grad: None).remove()
    return x


constants = st.sampled_from(CONSTANTS)
plain_keys = st.sampled_from([each for each in CONSTANTS if type(each) not in (slice, range)])
parts = plain_keys | st.sampled_from((Plain, Derived, function, int))
keys = st.one_of(
    plain_keys,
    st.lists(parts, max_size=2).map(tuple),
    st.frozensets(parts, max_size=2),
    st.tuples(st.frozensets(parts, max_size=1)),
)
things = constants | st.sampled_from(OBJECTS).map(lambda make: make())


def containers(items: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    pairs = st.lists(st.tuples(keys, items), max_size=3)
    return st.one_of(
        st.lists(items, max_size=3),
        st.lists(items, max_size=3).map(tuple),
        *(pairs.map(cls) for cls in (dict, OrderedDict, Numbers)),
        pairs.map(lambda found: defaultdict(int, found)),
        st.frozensets(keys, max_size=3),
        items.map(Plain),
    )


values = st.recursive(things, containers, max_leaves=8)


def copied(value: object, change: Callable[[object], object] = lambda value: value) -> object:
    """Another object that is equal, where that is possible; `change` is asked about each part."""
    value = change(value)
    match value:
        case str() | bytes() if len(value) > 1:
            return value[:1] + value[1:]
        case int() if type(value) is int:
            return int(str(value))
        case float() if type(value) is float:
            return float(repr(value))
        case list() | tuple() if type(value) in (list, tuple):
            return type(value)(copied(item, change) for item in value)
        case dict() if type(value) in (dict, OrderedDict, Numbers):
            return type(value)(
                (as_key(copied(key, change), key), copied(item, change))
                for key, item in value.items()
            )
        case Plain():
            made = type(value).__new__(type(value))
            vars(made).update({name: copied(item, change) for name, item in vars(value).items()})
            return made
        case _:
            return value


def lookalikes(value: Any) -> list[Any]:
    """What is taken for a value where classes, signs or identities are forgotten."""
    found: list[Any] = []
    if type(value) in _ELEMENTS:
        found += [each for each in CONSTANTS if each == value or each is value]
    match value:
        case float() | complex() | int() if type(value) is not bool:
            found.append(-value)
        case list() | tuple():
            found += [list(value), tuple(value), value[:-1]]
        case dict():
            pairs = list(value.items())
            found += [cls(pairs) for cls in (dict, OrderedDict, Numbers)]
            found += [value.copy(), value.copy()]
            if pairs:
                first = pairs[0][0]
                found[-1][first] = found[-1].pop(first)
                del found[-2][first]
        case Plain():
            found += [Plain(value.value), Derived(value.value)]
        case FunctionType():
            found += [function, other_function, again(function)]
        case torch.Tensor() if not value.is_meta and not value.is_conj():
            plain = value.detach()
            found += [plain, plain.t() if plain.ndim == 2 else plain[None], plain.clone()]
            others = [plain.clone().requires_grad_() for _ in range(5)]
            for change, other in zip((hooked, hooked_after, unhooked), others, strict=False):
                found.append(change(other))
            found += [others[3] * 2, others[3].view(value.shape)]
            found += [of_any_gradient(others[4])] if HAS_GRAD_DTYPE else []
    return found


_ELEMENTS = (int, str, bytes, bool, float, complex, type(None))
_PLAIN_CONSTANTS = (int, str, bytes, bool, float, complex, range, torch.device, slice)


def described(value: object, at: Source) -> list[Guard]:
    """What a trace might have asked about a value."""
    found: list[Guard] = [TypeIs(at, type(value)), Exists(at)]
    found += [] if value is Ellipsis else [IsNot(at, Ellipsis)]
    items: list[tuple[Source, object]] = []
    match value:
        case None | bool():
            found.append(Is(at, value))
        case _ if type(value) in _PLAIN_CONSTANTS:
            found.append(ConstantIs(at, value))
        case list() | tuple():
            found.append(LengthIs(at, len(value)))
            items += [(Item(at, k), item) for k, item in enumerate(value)]
        case dict():
            names = tuple(
                key if type(key) in _PLAIN_CONSTANTS else Held(anew(key)) for key in value
            )
            cls = OrderedDict if type(value) is OrderedDict else dict
            found += [
                KeysAre(at, names, cls),
                LengthIs(at, len(value), cls),
                Has(at, "a", "a" in value),
                Has(at, "a", "a" in value, cls),
                *(HasAt(at, Held(key), key in value, of) for key in ("a", 1) for of in (None, cls)),
            ]
            for name, (key, item) in zip(names, value.items(), strict=True):
                if not (isinstance(key, float) and key != key):
                    exact = type(value) is dict
                    items.append((Item(at, name) if exact else BaseItem(at, name, dict), item))
        case torch.Tensor() if value.device.type == "cpu" and not value.is_conj():
            found.append(TensorIs(at, facts_of(value)))
            asked = {False: is_plain_leaf, True: is_bare_leaf}
            found += [
                LeafIs(at, type(value), bare) for bare, holds in asked.items() if holds(value)
            ]
        case torch.Tensor():
            pass
        case FunctionType():
            found += [CodeIs(at, value.__code__, unchanged)]
            items += [(Attr(at, "__defaults__"), value.__defaults__)]
        case Plain() | Shown():
            names_ = ("value", "extra", "missing")
            read = tuple((name, static_lookup(type(value), name)) for name in names_)
            found.append(LineageIs(type(value), read))
            items.append((Attr(at, "__dict__"), value.__dict__))
            items.append((OwnDict(at), object.__getattribute__(value, "__dict__")))
            items.append((TypeOf(at), type(value)))
        case _:
            found.append(Is(at, value))
    for path, item in items:
        found += described(item, path)
    return found


def as_key(key: object, before: object) -> object:
    """What can be a key: what was one, where a change has made a list of it."""
    try:
        hash(key)
    except TypeError:
        return before
    return key


def anew(key: object) -> object:
    """An equal key that is another object, where it is not known by its identity."""
    match key:
        case tuple():
            return tuple([anew(part) for part in key])
        case frozenset():
            return frozenset(set(key))  # in the same order
    return key


def unchanged(code: CodeType) -> CodeType:
    return code


def by_text(guards: Sequence[Guard]) -> Callable[..., bool]:
    text = Text(PARAMETERS)
    for guard in guards:
        text.count(sources_of(guard) or (guard.at,))
    write_tests(text, guards, "return False")
    names = ", ".join(["a", "b", *(f"{name}=None" for name in text.held)])
    lines = [f"def test({names}):", *(f"    {line}" for line in text.lines), "    return True"]
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    test: FunctionType = namespace["test"]
    test.__defaults__ = tuple(text.held.values())
    return lambda a, b: tried(lambda: test(a, b))


def tried(test: Callable[[], bool]) -> bool:
    """A path that leads nowhere is a guard that fails."""
    try:
        return test()
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


def by_table(guards: Sequence[Guard], given: Sequence[object]) -> Callable[..., bool]:
    assert native.evaluator(start=True) is not None
    examples = {}
    for guard in guards:
        if isinstance(guard, TensorIs):
            examples[guard.at] = read(guard.at, given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "FEWEST_TENSORS", 0)
        made = tables.table(guards, PARAMETERS, [], examples)
    assert made is not None
    return lambda a, b: tried(lambda: made.function(a, b) is not None)  # `made` holds the objects


def read(source: Source, given: Sequence[object]) -> Any:
    text = Text(PARAMETERS)
    expression = text.of(source)
    return eval(expression, dict(zip("ab", given, strict=True)) | text.held)


def once(guards: Sequence[Guard], given: Sequence[object]) -> list[Guard]:
    """Without further paths to a tensor: of a trace's inputs no two are one."""
    tensors = [guard for guard in reversed(guards) if isinstance(guard, TensorIs)]
    kept = set({id(read(guard.at, given)): guard for guard in tensors}.values())
    return [guard for guard in guards if guard in kept or not isinstance(guard, TensorIs)]


TENSORS = (*(lambda: torch.zeros(2), lambda: torch.zeros(2, 1)), lambda: torch.nn.Linear(1, 1))
FEW = {
    "anything": values,
    "constants": constants | st.lists(keys, max_size=2).map(tuple),
    "tensors": st.lists(st.sampled_from(TENSORS).map(lambda make: make()), max_size=3),
}


@pytest.mark.parametrize("of", FEW.values(), ids=FEW.keys())
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_as_text(of: st.SearchStrategy[object], data: st.DataObject) -> None:
    """Of two values, of equal ones, and of others in the place of either."""
    first, second, changed = data.draw(of), data.draw(of), data.draw(of)

    def changed_once() -> tuple[object, object]:
        """Copies of both, of which one part is another one."""
        left = data.draw(st.integers(0, 6))
        tensors: list[object] = []

        def change(value: object) -> object:
            nonlocal left
            left -= 1
            choices = [*lookalikes(value), *tensors] if left == -1 else []
            tensors.extend([value] if isinstance(value, torch.Tensor) else [])
            return choices[data.draw(st.integers(0, len(choices) - 1))] if choices else value

        return copied(first, change), copied(second, change)

    given_ = (first, second)
    guards = [*described(first, A), *described(second, B), Same(A, B, first is second)]
    guards = order(once(guards, given_))
    text, table = by_text(guards), by_table(guards, given_)
    assert text(*given_)
    assert table(*given_)
    for others in (
        (copied(first), copied(second)),
        (changed, second),
        (first, changed),
        *((first, first), (second, second), (second, first)),
        *(changed_once() for _ in range(6)),
    ):
        assert text(*others) == table(*others), others
