"""Functions that `functools.lru_cache` wraps, and that change nothing: from the first call on they
are in the graph."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from tests.api.support import Counts

Program = Callable[[torch.Tensor], Any]
BATCHES = (2, 3, 4, 5, 3, 2)


def run(program: Program, batches: tuple[int, ...]) -> list[Any]:
    return [program(torch.arange(4.0 * n).view(n, 4)) for n in batches]


def plain(results: list[Any]) -> list[Any]:
    """Tensors as lists, so that they can be compared with what is around them."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.tolist, results)


def check(
    make: Callable[[], Program], batches: tuple[int, ...] = BATCHES, *, graphs: int | None = None
) -> None:
    """A new program, with nothing remembered, eagerly and compiled.

    Args:
        graphs: of how many the compiled one consists: nothing is left to Python between them.
    """
    eager = plain(run(make(), batches))
    backend = Counts()
    compiled = jitpkg.compile(make(), backend=backend)
    assert plain(run(compiled, batches)) == eager
    if graphs is not None:
        assert len(backend.graphs) == graphs
        whole = jitpkg.compile(make(), fullgraph=True)
        assert plain(run(whole, batches)) == eager


class Recipe:
    def __init__(self, lengths: dict[str, int], order: list[int]) -> None:
        self.lengths = lengths
        self.order = order


def library() -> Any:
    """A pattern is read once, and so is each shape, as libraries of tensor notations do."""

    @functools.lru_cache(256)
    def recipe(pattern: str, axes: tuple[str, ...]) -> Recipe:
        before, after = (side.split() for side in pattern.split("->"))
        names = {name: k for k, name in enumerate(before)}
        if set(before) != set(after):
            raise ValueError(pattern)
        return Recipe(names, [names[name] for name in after])

    @functools.lru_cache(1024)
    def shapes(made: Recipe, shape: tuple[int, ...]) -> tuple[list[int], list[int], int]:
        return made.order, [shape[k] for k in made.order], len(shape)

    def rearrange(x: torch.Tensor, pattern: str, *axes: str) -> torch.Tensor:
        order, sizes, dims = shapes(recipe(pattern, axes), x.shape)
        assert dims == len(sizes)
        return x.permute(order).reshape(sizes)

    rearrange.caches = recipe, shapes  # type: ignore[attr-defined]
    return rearrange


def test_a_library_of_patterns_is_in_the_graph() -> None:
    def make() -> Program:
        rearrange = library()
        return lambda x: rearrange(rearrange(x * 2, "a b -> b a") + 1, "b a -> a b")

    check(make, graphs=2)  # of a size, and of sizes that vary


def test_what_is_called_is_remembered() -> None:
    rearrange = library()
    recipe, shapes = rearrange.caches
    compiled = jitpkg.compile(lambda x: rearrange(x, "a b -> b a"), fullgraph=True)
    compiled(torch.ones(2, 4))
    assert (recipe.cache_info().misses, shapes.cache_info().misses) == (1, 1)
    known = recipe("a b -> b a", ())
    compiled(torch.ones(2, 4))
    assert recipe("a b -> b a", ()) is known and recipe.cache_info().misses == 1


def test_the_object_itself_is_handed_on() -> None:
    def make() -> Program:
        @functools.cache
        def build(n: int) -> dict[str, Any]:
            return {"n": n, "list": [n, (n, 2.0)], "set": {n}, "of": Recipe({"a": n}, [n])}

        def f(x: torch.Tensor) -> Any:
            made = build(3)
            first = x * made["n"] + len(made["set"])
            return first, made["list"], build(3) is made, made["of"].lengths

        return f

    check(make, (2, 2, 2), graphs=1)


@pytest.mark.parametrize(
    "what", ["append", "global", "nested", "print", "raise", "random", "tensor"]
)
def test_what_does_more_is_left_to_python(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    def make() -> Program:
        calls: list[int] = []
        nested: dict[str, list[int]] = {"calls": []}
        count = 0

        @functools.cache
        def build(n: int) -> Any:
            nonlocal count
            match what:
                case "append":
                    calls.append(n)
                case "global":
                    count += 1
                case "nested":
                    nested["calls"].append(n)
                case "print":
                    print("built", n)
                case "raise":
                    if n == 3 and not calls:
                        raise ValueError(n)
                case "random":
                    return torch.rand(()) * 0 + n
                case "tensor":
                    return torch.full((4,), float(n))
            return n

        def f(x: torch.Tensor) -> Any:
            y = x * build(2)
            try:
                y = y + build(3)
            except ValueError as error:
                y = y - len(str(error))
            return y, list(calls), count, list(nested["calls"])

        return f

    check(make, (2, 2, 3, 4))
    lines = capsys.readouterr().out.splitlines()
    assert lines == (["built 2", "built 3"] * 2 if what == "print" else [])


def test_what_it_reads_was_changed_before() -> None:
    """In the graph that is being made, where nothing of that has happened yet."""

    def make() -> Program:
        state = {"scale": 1}
        noted: list[int] = []

        @functools.cache
        def build(n: int) -> int:
            if state["scale"] == 1:
                noted.append(n)
            return n * state["scale"]

        def f(x: torch.Tensor) -> Any:
            state["scale"] = 3
            return x + build(2), list(noted)

        return f

    check(make, (2, 2, 3))


@pytest.mark.parametrize("varies", [False, True])
def test_something_else_was_changed_before(varies: bool) -> None:
    def make() -> Program:
        seen: dict[type, int] = {}
        build = functools.cache(lambda n: [n, n + 1])

        def f(x: torch.Tensor) -> Any:
            seen[type(x)] = 1
            return x + build(x.shape[0] if varies else 2)[1], dict(seen)

        return f

    check(make, graphs=2)
    assert jitpkg.compile(make(), fullgraph=True)(torch.ones(2))[0].tolist() == [4, 4]


def test_data_that_it_reads_is_of_the_first_call() -> None:
    """What is remembered for a size stays, whatever happens to what was read."""

    def make() -> Program:
        scale = [2]
        build = functools.cache(lambda n: n * scale[0])
        last = [0]

        def f(x: torch.Tensor) -> Any:
            last[0] += 1
            if last[0] == 5:
                scale[0] = 7
            return x + build(x.shape[0])

        return f

    check(make, (2, 3, 4, 5, 2, 3, 6, 4))


@pytest.mark.parametrize("use", ["changed", "kept", "returned", "compared", "asked", "stored"])
def test_a_result_of_sizes_is_only_read(use: str) -> None:
    """Everything else is what others see, too."""

    def make() -> Program:
        build = functools.cache(lambda shape: [shape[0], [shape[1]]])
        kept: list[Any] = []

        def f(x: torch.Tensor) -> Any:
            found = build(x.shape)
            match use:
                case "changed":
                    found.append(len(found))
                    return x * len(found), sum(found[2:])
                case "kept":
                    kept.append(found[1])
                    kept[-1].append(1)
                    return x + len(found[1])
                case "returned":
                    return x + found[0], found
                case "compared":
                    return x + found[0], build(x.shape) is found
                case "asked":
                    return x + found[0], id(found[1]) == id(build(x.shape)[1])
                case "stored":
                    x.found: Any = found
                    return x + found[0], x.found[1] is build(x.shape)[1]

        return f

    check(make)


def test_a_break_while_one_is_alive() -> None:
    def make() -> Program:
        build = functools.cache(lambda n: (n, [n + 1, n + 2]))
        pause = jitpkg.disable(lambda x: x + 1)

        def f(x: torch.Tensor) -> Any:
            n, more = build(x.shape[0])
            x = pause(x * n)
            return x + sum(more)

        return f

    check(make)


def test_which_classes_derive_from_one() -> None:
    class Base:
        name = "base"

    class First(Base):
        name = "first"

    def f(x: torch.Tensor) -> Any:
        names = [cls.name for cls in Base.__subclasses__()]
        return x * len(names), names

    compiled = jitpkg.compile(f, fullgraph=True)
    x = torch.ones(2)
    assert plain([compiled(x)]) == plain([f(x)])

    class Second(Base):
        name = "second"

    assert plain([compiled(x)]) == plain([f(x)]) == [([2, 2], ["first", "second"])]
