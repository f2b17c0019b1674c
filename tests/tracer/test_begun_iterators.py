"""Iterators that were begun before a graph: a loop goes on from where a break has left it."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg.guards.walks import READERS, walk_of
from jitpkg.testing import Comparison, assert_same

X = torch.arange(6.0).view(2, 3)


class Layers(nn.Module):
    """Layers of which some are followed by a break."""

    def __init__(self, breaks: Iterable[int], count: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(count))
        self.breaks = set(breaks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, layer in enumerate(self.layers):
            x = layer(x).relu()
            if k in self.breaks:
                jitpkg.graph_break()
        return x + 1


@pytest.mark.parametrize(
    ("breaks", "graphs"),
    [((), 1), ((0,), 2), ((3,), 2), ((5,), 2), ((2, 4), 5), (range(6), 7)],
)
def test_a_break_in_one_iteration_makes_two_graphs(breaks: Iterable[int], graphs: int) -> None:
    model = Layers(breaks)
    assert jitpkg.explain(model)(X).graph_count == graphs
    assert_same(model, X)


def entries_of(function: Callable[..., Any], *calls: tuple[Any, ...]) -> int:
    """Entries that calls make; each must give what the function itself gives."""
    compiled = jitpkg.compile(function)
    found: list[jitpkg.events.Event] = []
    with jitpkg.events.STREAM.listening(found.append):
        for arguments in calls:
            assert repr(compiled(*arguments)) == repr(function(*arguments))
    return sum(isinstance(event, jitpkg.events.GraphCompiled) for event in found)


def test_a_loop_that_breaks_each_time_shares_its_graphs() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        for k in range(n):
            x = x * 2 + k
            jitpkg.graph_break()
            x = x - 1
        return x

    assert entries_of(f, *((X, 9) for _ in range(3))) <= 6


def test_a_loop_with_much_to_go_is_not_unrolled() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for k in range(1000):
            x = x * 0.5 + 1
            if not k:
                jitpkg.graph_break()
        return x

    assert entries_of(f, (X,), (X,)) <= 5


def test_a_walk_that_begins_elsewhere_is_not_compiled_again_and_again() -> None:
    def f(x: torch.Tensor, at: int) -> torch.Tensor:
        for k in range(20):
            x = x + k
            if k == at:
                jitpkg.graph_break()
        return x

    walked = entries_of(f, (X, 3), (X, 3))
    assert walked == 2
    assert entries_of(f, *((X, at) for at in (3, 5, 7, 9, 11, 13, 15))) <= 20


BEGUN: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([1, 2, 3]),
    "list backwards": lambda: reversed([1, 2, 3]),
    "tuple": lambda: iter((1, 2, 3)),
    "range": lambda: iter(range(7, 1, -2)),
    "keys": lambda: iter({"a": 1, "b": 2, "c": 3}),
    "values": lambda: iter({"a": 1, "b": 2, "c": 3}.values()),
    "items": lambda: iter({"a": 1, "b": 2, "c": 3}.items()),
    "enumerate": lambda: enumerate([1, 2, 3], 5),
    "zip": lambda: zip([1, 2, 3], (4, 5, 6), strict=True),
    "shorter": lambda: zip([1, 2, 3], (4, 5), strict=False),
    "nested": lambda: enumerate(zip(range(3), iter([1, 2, 3]), strict=False)),
}
OTHERS: dict[str, Callable[[], Iterator[Any]]] = {
    "set": lambda: iter({1}),
    "text": lambda: iter("abc"),
    "map": lambda: map(str, [1, 2, 3]),
    "generator": lambda: (k for k in range(3)),
    "of a generator": lambda: enumerate(k for k in range(3)),
    "chain": lambda: itertools.chain([1], [2]),
}


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("kind", {**BEGUN, **OTHERS})
def test_each_kind_goes_on_from_where_it_stands(kind: str, steps: int) -> None:
    make = {**BEGUN, **OTHERS}[kind]

    def f(x: torch.Tensor, it: Iterator[Any]) -> Any:
        found = [(x * 2, item) for item in it]
        return found, next(it, "the end")

    def one(x: torch.Tensor, it: Iterator[Any]) -> Any:
        return x + 1, next(it, None)

    for function in (f, one):
        compiled = jitpkg.compile(function)
        for _ in range(2):
            for more in (0, 1):
                ours, plain = make(), make()
                for it in (ours, plain):
                    for _ in range(steps + more):
                        next(it, None)
                assert repr(compiled(X, ours)) == repr(function(X, plain))
                assert list(ours) == list(plain)


@pytest.mark.parametrize("kind", BEGUN)
def test_a_walk_to_the_end_is_one_graph(kind: str) -> None:
    @jitpkg.jit(fullgraph=True)
    def f(x: torch.Tensor, it: Iterator[Any]) -> Any:
        return [(x + k, item) for k, item in enumerate(it)]

    for _ in range(2):
        it = BEGUN[kind]()
        next(it)
        assert len(f(X, it)) == (1 if kind == "shorter" else 2)
        assert next(it, None) is None


def test_the_last_step_lets_go_of_what_was_walked() -> None:
    @jitpkg.jit
    def f(x: torch.Tensor, it: Iterator[int]) -> torch.Tensor:
        for k in it:
            x = x + k
        return x

    for _ in range(2):
        numbers = [1, 2]
        it = iter(numbers)
        f(X, it)
        numbers.append(3)
        assert next(it, None) is None


def test_what_is_walked_may_change_meanwhile() -> None:
    def f(x: torch.Tensor, numbers: list[int], it: Iterator[int]) -> Any:
        found = []
        for k in it:
            if len(numbers) < 6:
                numbers.append(k + 10)
            found.append(x + k)
        return found, numbers

    def shrinks(x: torch.Tensor, numbers: list[int], it: Iterator[int]) -> Any:
        for k in it:
            numbers.clear()
            x = x + k
        numbers.extend([7, 8, 9])
        return x, numbers

    for function in (f, shrinks):
        compiled = jitpkg.compile(function)
        for _ in range(2):
            for count in (2, 3):
                ours, plain = list(range(count)), list(range(count))
                its = iter(ours), iter(plain)
                assert repr(compiled(X, ours, its[0])) == repr(function(X, plain, its[1]))
                assert ours == plain
                assert list(its[0]) == list(its[1])


def test_a_dict_that_has_changed_raises_as_always() -> None:
    def f(x: torch.Tensor, it: Iterator[int]) -> torch.Tensor:
        for k in it:
            x = x + k
        return x

    compiled = jitpkg.jit(f)
    for change in (
        lambda d: None,
        lambda d: d.update(z=1),
        lambda d: (d.pop("a"), d.update(z=1)),
        lambda d: d.update(b=9),
    ):
        outcomes = []
        for function in (compiled, f):
            numbers = {"a": 1, "b": 2, "c": 3}
            it = iter(numbers.values())
            next(it)
            change(numbers)
            try:
                outcomes.append(repr(function(X, it)))
            except RuntimeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_a_dict_is_changed_before_its_walk_goes_on() -> None:
    def f(x: torch.Tensor, numbers: dict[str, int], it: Iterator[int]) -> Any:
        numbers["c"] = 5
        for k in it:
            x = x * k
        return x

    compiled = jitpkg.jit(f)
    for numbers in ({"a": 1, "c": 2}, {"a": 1, "b": 2}):
        outcomes = []
        for function in (compiled, f):
            own = dict(numbers)
            try:
                outcomes.append(repr(function(X, own, iter(own.values()))))
            except RuntimeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_an_inner_iterator_is_another_object_or_the_same() -> None:
    def f(x: torch.Tensor, outer: Iterator[Any], inner: Iterator[int]) -> Any:
        found = [next(outer), next(inner), *outer, *inner]
        return x + 1, found

    def made(same: bool) -> tuple[Iterator[Any], Iterator[int]]:
        inner = iter([1, 2, 3, 4, 5])
        return enumerate(inner), inner if same else iter([6, 7, 8, 9])

    compiled = jitpkg.compile(f)
    for same in (False, True, False, True):
        assert repr(compiled(X, *made(same))) == repr(f(X, *made(same)))


def test_an_exception_leaves_the_iterator_where_it_was_raised() -> None:
    def f(x: torch.Tensor, it: Iterator[int]) -> torch.Tensor:
        for k in it:
            x = x.view(k, -1) * 2
        return x

    compiled = jitpkg.jit(f)
    for sizes in ([1, 2, 3], [1, 4, 3], [1, 2, 5]):
        left = []
        for function in (compiled, f):
            it = iter(sizes)
            next(it)
            try:
                left.append(function(X, it).shape)
            except RuntimeError as error:
                left.append(str(error))
            left.append(list(it))
        assert left[:2] == left[2:]


def test_a_walk_is_read_and_not_advanced() -> None:
    for make in BEGUN.values():
        it = make()
        assert type(it) in READERS
        walk_of(it)
        next(it)
        walk_of(it)
        assert len(list(it)) == len(list(make())) - 1


def inner_and_outer(x: torch.Tensor) -> Any:
    return x + 1, [k for k, word in enumerate([c * 2 for c in "ab"])]


def three_deep(x: torch.Tensor) -> Any:
    return {k: [j for j in range(k) if {j for _ in "ab"}] for k in (1, 2)}, x * 2


def one_after_the_other(x: torch.Tensor) -> Any:
    k = 5
    first = [k for k, _ in enumerate([x, x])]
    second = {k: x + k for k in first}
    return k, second


@pytest.mark.parametrize("program", [inner_and_outer, three_deep, one_after_the_other])
def test_a_break_anywhere_in_comprehensions(program: Callable[[torch.Tensor], Any]) -> None:
    """Since Python 3.12 they are a part of the function, and keep its variables on the stack."""
    for place in range(1, 60):
        settings = {"never_worse": False, "disturb": f"break:{place}"}
        Comparison(settings=settings).assert_same(program, X)
