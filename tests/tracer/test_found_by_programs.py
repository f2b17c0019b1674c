"""What random programs have found, one test each."""

import collections
import contextlib
import enum
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch

import jitpkg
from jitpkg.facts.thread_state import snapshot
from jitpkg.testing import Comparison, assert_same, call
from jitpkg.tracer import numbers


def test_a_wrapper_of_a_method_in_c() -> None:
    """A method of a class in C has no `__module__`, which functools.wraps asks for."""

    def wrapped(x: torch.Tensor) -> Any:
        @functools.wraps(torch.Tensor.abs)
        def wrapper(y: torch.Tensor) -> Any:
            return torch.Tensor.abs(y)

        return wrapper(x), wrapper.__name__, getattr(torch.Tensor.abs, "__module__", "none")

    assert_same(wrapped, torch.tensor([-1.0]))


def test_the_largest_of_nothing_behind_a_write() -> None:
    def largest(x: torch.Tensor, name: str) -> Any:
        x += 0
        return getattr(x.sort().values, name)()

    for name in ("max", "min", "argmax", "argmin", "aminmax", "amax", "median"):
        Comparison().assert_same(largest, torch.arange(0), name)


class Own(NamedTuple):
    """A tuple whose special methods are its own."""

    x: Any
    n: int = 0

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        yield 7

    def __contains__(self, item: object) -> bool:
        return item == "in"

    def __str__(self) -> str:
        return "own"


def test_special_methods_of_named_tuples() -> None:
    def asked(x: torch.Tensor, t: Any) -> Any:
        found = [k + 1 for k in t], "in" in t, x in t, f"{t}", str(t), bool(t), len(t), [*t]
        return x + 1, found, list(t), sum(t), "yes" if t else "no"

    def made(x: torch.Tensor) -> Any:
        return asked(x, Own(x, 3))

    assert_same(made, torch.ones(1))
    assert_same(asked, torch.ones(1), Own(2, 3))


def test_the_text_of_a_container_that_holds_itself() -> None:
    def shown(x: torch.Tensor, items: list[Any]) -> Any:
        items.append(items)
        table = {"a": items, "b": 2}
        table["self"] = table
        return x + 1, str(items), f"{table}", sorted([items, 1], key=str)[0]

    assert_same(shown, torch.ones(1), [1, "a"])


def test_a_partial_of_a_partial_that_was_looked_at() -> None:
    """A partial that has a `__dict__` is not joined with that of it."""

    def program(x: torch.Tensor, obj: Any) -> Any:
        return functools.partial(functools.partial(operator.add, 1), obj.pop, x)

    calls = [call(torch.ones(1), 0), call(torch.ones(1), list), call(torch.ones(1), dict)]
    Comparison().assert_same_calls(program, *calls)
    given = functools.partial(operator.add)
    assert jitpkg.compile(lambda p: functools.partial(p, 1))(given).func is operator.add
    assert functools.partial(given, 1).func is operator.add


def test_a_value_that_waits_to_be_returned() -> None:
    """To a hook in a loop in a `finally` block it is no value that it hands over."""

    def waiting(x: torch.Tensor) -> Any:
        try:
            return x
        finally:
            turns = 3
            while turns and x.max().item() > 1.0 / x.shape[0]:
                turns -= 1
                try:
                    x[-1:] = 0
                    torch.ones(1) + 1
                except ArithmeticError:
                    pass

    for backend in ("eager", "jitpkg"):
        x = torch.tensor([0, 0.5, 0])
        Comparison(backend=backend).assert_same_calls(waiting, *[call(x)] * 3)


NOT_TAKEN: dict[str, Callable[[], Any]] = {
    "partial": lambda: functools.partial(0),
    "partial of a text": lambda: functools.partial("f", 1),
    "attrgetter": lambda: operator.attrgetter("a", 3),
    "attrgetter by name": lambda: operator.attrgetter("a", b=3),
    "itemgetter by name": lambda: operator.itemgetter(1, b=3),
    "methodcaller": lambda: operator.methodcaller(3),
    "defaultdict": lambda: collections.defaultdict(3),
    "iter": lambda: iter(3, 4),
    "count": lambda: itertools.count("a"),
    "count by": lambda: itertools.count(0, "a"),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_a_class_in_c_looks_at_its_arguments_when_it_is_called(name: str) -> None:
    def program(x: torch.Tensor) -> Any:
        y = x + 1
        try:
            NOT_TAKEN[name]()
        except TypeError as error:
            return y, str(error)
        return y

    assert_same(program, torch.ones(1))


def test_what_a_class_in_c_takes() -> None:
    class Callable_:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    def program(x: torch.Tensor, name: str, of: Any) -> Any:
        made = functools.partial(Callable_())(x), functools.partial(of, x)()
        table = collections.defaultdict(None), collections.defaultdict(lambda: x)["a"]
        numbers = next(itertools.count(x.shape[0], 0.5)), next(itertools.count(1j))
        return made, table, operator.attrgetter(name)(x), numbers, next(iter(lambda: 3, 4))

    assert_same(program, torch.ones(1), "shape", torch.sin)


def kept_by_a_function(x: torch.Tensor) -> Any:
    y = x + 1

    def inner() -> Any:
        return y

    def outer() -> Any:
        return inner()

    return outer


def kept_three_deep(x: torch.Tensor) -> Any:
    y, _ = x.sort()

    def add(z: torch.Tensor) -> Any:
        nonlocal y
        y = y + z
        return y

    def twice(z: torch.Tensor) -> Any:
        return add(add(z))

    def outer() -> Any:
        return twice(x)

    return [outer]


def kept_in_containers(x: torch.Tensor) -> Any:
    y = x + 1
    inner = {"f": lambda: y, "x": x * 2}
    middle = [functools.partial(lambda k: inner["f"]() + inner["x"] + k, 1)]
    y = y * 3
    return lambda: middle[0]()


def kept_by_itself(x: torch.Tensor) -> Any:
    y = x + 1

    def countdown(n: int) -> Any:
        return countdown(n - 1) if n else y

    def outer() -> Any:
        return countdown(2)

    return outer


@pytest.mark.parametrize(
    "kept", [kept_by_a_function, kept_three_deep, kept_in_containers, kept_by_itself]
)
def test_functions_that_are_kept_by_functions(kept: Callable[..., Any]) -> None:
    x = torch.tensor([2.0, 1.0])
    assert_same(kept, x)
    made, expected = jitpkg.compile(kept, backend="eager")(x), kept(x)
    if isinstance(made, list):
        made, expected = made[0], expected[0]
    assert torch.equal(made(), expected())


class ByNumbers:
    def __getitem__(self, k: int) -> int:
        return [1, 2][k]


class OwnList(list[int]):
    pass


WALKED: dict[str, Callable[[], Any]] = {
    "list": lambda: iter([1]),
    "list backwards": lambda: reversed([1]),
    "own list": lambda: iter(OwnList([1])),
    "tuple": lambda: iter((1,)),
    "tuple backwards": lambda: reversed((1,)),
    "nothing": lambda: iter(()),
    "dict": lambda: iter({1: 2}),
    "dict backwards": lambda: reversed({1: 2}),
    "keys": lambda: iter({}.keys()),
    "values": lambda: iter({1: 2}.values()),
    "items": lambda: iter({1: 2}.items()),
    "ordered": lambda: iter(collections.OrderedDict(a=1)),
    "set": lambda: iter({1}),
    "frozenset": lambda: iter(frozenset([1])),
    "deque": lambda: iter(collections.deque([1])),
    "deque backwards": lambda: reversed(collections.deque([1])),
    "text": lambda: iter("a"),
    "another text": lambda: iter("\xe9\u0394"),
    "text backwards": lambda: reversed("ab"),
    "bytes": lambda: iter(b"a"),
    "range": lambda: iter(range(3)),
    "range backwards": lambda: reversed(range(3)),
    "by numbers": lambda: iter(ByNumbers()),
    "zip": lambda: zip([1], (2,), strict=True),
    "enumerate": lambda: enumerate({1: 2}),
    "map": lambda: map(abs, {1}),
}


@pytest.mark.parametrize("name", WALKED)
def test_the_class_of_an_iterator(name: str) -> None:
    def program(x: torch.Tensor) -> Any:
        begun, ended = WALKED[name](), WALKED[name]()
        walked = list(ended)
        return x + 1, type(begun).__name__, type(ended) is type(iter([])), walked, ended

    def broken(x: torch.Tensor) -> Any:
        y, *others, ended = program(x)
        jitpkg.graph_break()
        return y * 2, others, list(ended), ended

    assert_same(program, torch.ones(1))
    assert_same(broken, torch.ones(1))


class Answers(enum.Enum):
    """Python finds that its members have a value already."""

    A = 0

    def __getattr__(self, name: str) -> None:
        return None


def test_the_value_of_an_enum_with_getattr() -> None:
    assert_same(lambda x: (x + 1, Answers.A.value, Answers.A.name), torch.ones(1))


def _with_defaults(x: torch.Tensor, flag: bool) -> Any:
    x = x + 1

    def inner(y: Any, k: float = 2.0 if flag else 3.0) -> Any:
        return y * k

    return inner(x), inner.__defaults__


def _with_defaults_by_keyword(x: torch.Tensor, flag: bool) -> Any:
    x = x + 1

    def inner(y: Any, *, k: float, scale: float = 2.0 if flag else 3.0) -> Any:
        return y * k + scale

    return inner(x, k=1.0), inner.__kwdefaults__


def _with_cells(x: torch.Tensor, flag: bool) -> Any:
    x = x + 1

    def inner(y: Any, *, k: float = 2.0 if flag else 3.0) -> Any:
        return y * k + x

    return inner(x), inner.__kwdefaults__


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("program", [_with_defaults, _with_defaults_by_keyword, _with_cells])
def test_a_break_among_the_parts_of_a_function(program: Any, first: bool) -> None:
    """What a function is made of may exist when it is made: defaults, by keyword too, and cells."""
    x = torch.ones(2)
    for at in range(14):
        comparison = Comparison(settings={"disturb": f"break:{at}"})
        comparison.assert_same_calls(program, call(x, first), call(x, not first))


class Walks(NamedTuple):
    """Walked otherwise than C does, which takes the items."""

    n: int = 2
    m: int = 3

    def __iter__(self) -> Iterator[Any]:
        yield self[1] * 2


class Counts(NamedTuple):
    """As `Walks`, with another length."""

    n: int = 2
    m: int = 3

    def __len__(self) -> int:
        return 1


SIZES: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "asked of": lambda x, size: torch.is_tensor(size),
    "viewed as": lambda x, size: x.view(size),
    "made of": lambda x, size: x.new_ones(size),
    "broadcast": lambda x, size: torch.broadcast_shapes(size, (1,)),
    "added": lambda x, size: x + size,
    "permuted": lambda x, size: x.view(2, 3, 1, 1).permute((*size, 0, 1)),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("kind", [Walks, Counts])
def test_an_op_of_a_tuple_that_is_walked_otherwise(name: str, kind: Callable[[], Any]) -> None:
    def program(x: torch.Tensor) -> Any:
        return SIZES[name](x * 2, kind())

    assert_same(program, torch.arange(6))


MODES: dict[str, Callable[[Any], Any]] = {
    "autocast": lambda value: torch.autocast("cpu", enabled=value),
    "autocast of a device": lambda value: torch.autocast(value),
    "autocast to": lambda value: torch.autocast("cpu", dtype=value),
    "autocast cached": lambda value: torch.autocast("cpu", cache_enabled=value),
    "grad mode": torch.set_grad_enabled,
    "inference mode": torch.inference_mode,
}


@pytest.fixture
def _modes_restored() -> Iterator[None]:
    restore = snapshot()
    yield
    restore()


@pytest.mark.usefixtures("_modes_restored")  # torch leaves autocast on where it refuses its cache
@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("value", [[0], 2, "b", None, 0.5])
def test_a_mode_that_torch_refuses(name: str, value: Any) -> None:
    def program(x: torch.Tensor, value: Any) -> Any:
        try:
            with MODES[name](value):
                y = x @ x
        except Exception as error:
            now = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
            return type(error), str(error), now
        return y

    assert_same(program, torch.ones(2, 2, requires_grad=True), value)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("function", sorted(numbers.HANDLED, key=lambda f: f.__name__))
def test_functions_of_numbers_that_are_not_as_many(function: Any, count: int) -> None:
    def program(x: torch.Tensor, n: int) -> Any:
        y = x * n
        try:
            return y, function(*[n] * count)
        except Exception as error:
            return y, type(error), str(error)

    x = torch.ones(1)
    Comparison(dynamic=True).assert_same_calls(program, call(x, 3), call(x, 4), call(x, 5))


@pytest.mark.parametrize("gained", [0, 1, 2, 3])
@pytest.mark.parametrize("length", [2, 4])
@pytest.mark.parametrize("begin", [iter, reversed])
def test_a_list_that_shrinks_below_its_iterator_and_grows(
    begin: Callable[[Any], Iterator[int]], length: int, gained: int
) -> None:
    """An iterator that is made anew at the break between must not be put inside of the list."""

    def program(x: torch.Tensor) -> Any:
        values = list(range(length))
        walking = begin(values)
        walked = [next(walking), next(walking)]
        del values[1 if begin is iter else 0 :]
        x = x + 1
        print(end="")
        values += [7, 8, 9][:gained]
        return x, walked + list(walking), values

    assert_same(program, torch.ones(1))


class Told(enum.Enum):
    """Members that are equal, or not, to whatever it is."""

    A = 0

    def __eq__(self, other: object) -> bool:
        return bool(FLAGS)

    __hash__ = enum.Enum.__hash__


class TellsOfClasses(type):
    def __eq__(cls, other: object) -> bool:
        return bool(FLAGS)

    __hash__ = type.__hash__


class IsTold(metaclass=TellsOfClasses):
    pass


class OneOf(enum.IntEnum):
    A = 1


FLAGS = [1]


@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
@pytest.mark.parametrize(
    "other", [Told.A, IsTold, OneOf.A, enum.Enum("Plain", "A").A, int, torch.add, iter, "a", None]
)
def test_a_tensor_is_compared_with_what_knows_how(
    compare: Callable[[Any, Any], Any], other: Any
) -> None:
    def program(x: torch.Tensor) -> Any:
        return x + 1, compare(x, other), compare(other, x)

    assert_same(program, torch.ones(2))


def test_a_comprehension_that_an_exception_ends_gives_back_a_cell() -> None:
    """From 3.12 on, the cell of an inlined comprehension's variable is on the stack meanwhile."""

    def always() -> bool:
        jitpkg.graph_break()
        return True

    def written(x: Any) -> Any:
        with contextlib.suppress(ZeroDivisionError):
            [always() / 0 for x in range(2) if always()]

        def compute() -> None:
            nonlocal x
            x += 3

        compute()
        return x

    def read(x: Any) -> Any:
        try:
            [always() / 0 for x in range(2) if always()]
        except ZeroDivisionError:
            return (lambda: x + 3), x

    def deleted(x: Any) -> Any:
        try:
            [missing for x in range(2) if always()]  # type: ignore[name-defined]
        except NameError:
            x = (lambda: x), x
            del x
        return [x + 1 for x in range(2)]

    for program in (written, read, deleted):
        assert_same(program, 1)
        assert_same(program, torch.ones(2))


def test_the_line_of_a_local_that_is_not_bound() -> None:
    """CPython 3.11 gets it wrong, in code that is warm: of what it says the line is mended."""

    def program(x: torch.Tensor, bound: bool) -> Any:
        if bound:
            local = 0
        other = 1
        return (local, other)

    calls = [call(torch.ones(2), True)] * 20
    Comparison().assert_same_calls(program, *calls, call(torch.ones(2), False))
