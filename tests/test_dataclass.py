"""Classes of `jitpkg.dataclass` against the same ones of `dataclasses`."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from jitpkg.dataclass import dataclass

Decorated = Callable[..., Any]


def plain(d: Decorated) -> Any:
    class A:
        """Some."""

        x: int
        y: str = "y"
        z: list[int] = dataclasses.field(default_factory=list)

    return d(A)


def empty(d: Decorated) -> Any:
    class A:
        pass

    return d(A)


def single(d: Decorated) -> Any:
    class A:
        x: Any

    return d(A)


def of_fields(d: Decorated) -> Any:
    class A:
        all_: ClassVar[int] = 3
        x: Any
        missing: int = dataclasses.field(default=1, repr=False)
        self_: Any = dataclasses.field(default=2, compare=False)
        a: Any = dataclasses.field(default=3, hash=False, kw_only=True)
        b: Any = dataclasses.field(init=False, default=4)
        c: Any = dataclasses.field(init=False, default_factory=dict, compare=False)
        e: Any = dataclasses.field(default_factory=tuple, kw_only=True)

    return d(A)


def computed(d: Decorated) -> Any:
    class A:
        x: Any
        twice: Any = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", (self.x, self.x))

    return d(A)


def own(d: Decorated) -> Any:
    class A:
        x: Any
        y: Any = 1

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and bool(self.x == other.x)

        def __repr__(self) -> str:
            return "mine"

        def __hash__(self) -> int:
            return 7

    return d(A)


def own_equal(d: Decorated) -> Any:
    class A:
        x: Any

        def __eq__(self, other: object) -> bool:
            return True

    return d(A)


def unhashable(d: Decorated) -> Any:
    class A:
        x: Any
        __hash__ = None

    return d(A)


def own_init(d: Decorated) -> Any:
    class A:
        x: Any

        def __init__(self, x: Any) -> None:
            object.__setattr__(self, "x", (x,))

    return d(A)


def derived(d: Decorated) -> Any:
    @d
    class Base:
        x: Any
        y: Any = 1

    class A(Base):
        y: Any = 2
        z: Any = 3

    return d(A)


CASES = (
    *(plain, empty, single, of_fields, computed),
    *(own, own_equal, unhashable, own_init, derived),
)
FLAGS = ("eq", "repr", "frozen", "slots", "kw_only")


def outcome(f: Callable[[], Any]) -> Any:
    try:
        return f()
    except Exception as error:
        return type(error), str(error)


def answers(cls: Any, names: tuple[str, ...]) -> Any:
    """What can be seen of a class and its instances."""
    sets: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
        ((), {}),
        ((1,), {}),
        ((2,), {}),
        ((), {"x": 1}),
        ((1, "k"), {}),
        ((1,), {"a": 5, "e": 6}),
        (([],), {}),
        ((1, 2, 3, 4, 5, 6, 7, 8), {}),
        ((), {"nobody": 1}),
    )
    made = [outcome(lambda a=a, k=k: cls(*a, **k)) for a, k in sets]
    there = [x for x in made if isinstance(x, cls)]
    yield [x if not isinstance(x, cls) else "made" for x in made]
    yield str(inspect.signature(cls))
    yield (
        cls.__doc__ if cls.__doc__ == "Some." else None,
        cls.__match_args__,
        cls.__qualname__,
        cls.__module__,
    )
    yield getattr(cls, "__slots__", None), cls.__hash__ is None
    yield [(f.name, f.type, f.init, f.kw_only) for f in dataclasses.fields(cls)]
    shows = cls.__repr__ is not object.__repr__
    for x in there:
        yield repr(x) if shows else None
        yield outcome(lambda x=x: isinstance(hash(x), int))
        yield outcome(lambda x=x: dataclasses.astuple(x))
        yield outcome(lambda x=x: type(dataclasses.replace(x)) is cls)
        of_fields = {f.name for f in dataclasses.fields(x)}
        for name in names if "new" in names else of_fields & {*names}:
            yield outcome(lambda x=x, name=name: setattr(x, name, 9)), getattr(x, name, None)
            yield outcome(lambda x=x, name=name: delattr(x, name)), hasattr(x, name)
    there = [
        x for x in (outcome(lambda a=a, k=k: cls(*a, **k)) for a, k in sets) if isinstance(x, cls)
    ]
    yield [[x == y for y in there] for x in there], [x != 3 for x in there]
    yield [[outcome(lambda x=x, y=y: hash(x) == hash(y)) for y in there] for x in there]
    for x in there:
        for again in (copy.copy, copy.deepcopy):
            yield outcome(lambda x=x, again=again: dataclasses.astuple(again(x)))


@pytest.mark.parametrize("flags", [*itertools.product([False, True], repeat=len(FLAGS))], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_as_the_standard_ones(case: Callable[[Decorated], Any], flags: tuple[bool, ...]) -> None:
    given = dict(zip(FLAGS, flags, strict=True))
    # Of a frozen instance with slots the standard one fails otherwise where that is no field.
    names = ("x",) if given["frozen"] and given["slots"] else ("x", "new")
    wanted = list(answers(case(dataclasses.dataclass(**given)), names))
    assert list(answers(case(dataclass(**given)), names)) == wanted


@dataclass(frozen=True, slots=True)
class Kept:
    x: Any
    y: Any = ()


class Freer(Kept):
    pass


def test_pickles() -> None:
    for made in (Kept(1), Kept([1], {2: 3})):
        assert pickle.loads(pickle.dumps(made)) == made


def test_of_a_subclass_only_the_fields_are_frozen() -> None:
    freer: Any = Freer(1)
    freer.other = 3
    assert freer.other == 3
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        freer.x = 2


def test_one_that_holds_itself_is_shown() -> None:
    @dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("(next=...)")


def test_it_is_used_for_all_that_a_first_call_loads() -> None:
    """The standard one for none of the package's own: see the module."""
    text = """
import dataclasses, sys
standard = []
process = dataclasses.dataclass
def noted(cls=None, /, **options):
    caller = sys._getframe(1).f_globals["__name__"]
    if caller.startswith("jitpkg") and caller != "jitpkg.dataclass":
        standard.append(caller)
    return process(cls, **options)
dataclasses.dataclass = noted
import torch, jitpkg
jitpkg.jit(lambda x: x + 1)(torch.ones(3))
assert not standard, standard
"""
    subprocess.run([sys.executable, "-c", text], check=True)
