"""What special methods may give back: anything else is an error, in Python's own words."""

import collections
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call

USES: dict[str, list[Callable[[Any], Any]]] = {
    "__len__": [len, bool, lambda o: not o, lambda o: 1 if o else 2],
    "__bool__": [bool, lambda o: not o, lambda o: 1 if o else 2, lambda o: o and 3],
    "__hash__": [hash, lambda o: {o: 1}[o], lambda o: o in {1}, lambda o: {o}],
    "__index__": [
        operator.index,
        lambda o: [1, 2, 3][o],
        lambda o: (1, 2, 3)[o:],
        lambda o: list(range(o)),
        lambda o: [0] * o,
        lambda o: "abc"[o],
        hex,
        int,
        float,
    ],
    "__int__": [int],
    "__float__": [float],
    "__complex__": [complex],
    "__str__": [str, lambda o: f"{o}", lambda o: "%s" % o, "{}".format, print],  # noqa: UP031
    "__repr__": [repr, str, lambda o: f"{o!r}", lambda o: str([o]), "{!r}".format],
    "__format__": [lambda o: f"{o:a}", format, "{:a}".format],
    "__iter__": [iter, list, lambda o: [*o], lambda o: [k + 0 for k in o], sum, lambda o: 1 in o],
    "__contains__": [lambda o: 1 in o, lambda o: 1 not in o],
    "__next__": [lambda o: next(o), lambda o: next(o, 7)],
    "__reversed__": [reversed, lambda o: list(reversed(o))],
    "__eq__": [lambda o: o == 1, lambda o: o in [1], lambda o: [o] == [1], lambda o: bool(o == 1)],
    "__lt__": [lambda o: o < 1, lambda o: sorted([o, o]) and 1, lambda o: min(o, o) and 1],
    "__round__": [round],
    "__abs__": [abs],
    "__enter__": [lambda o: entered(o)],
    "__exit__": [lambda o: entered(o)],
    "__missing__": [lambda o: o],
    "__getattr__": [lambda o: o.missing, lambda o: hasattr(o, "missing")],
    "__call__": [lambda o: o(), callable],
    "__dir__": [lambda o: dir(o)[:1]],
    "__bytes__": [bytes],
    "__trunc__": [int],
}
"""How special methods are asked."""

RESULTS: list[Any] = [
    -1,
    0,
    2,
    0.42,
    "x",
    "",
    None,
    True,
    1 << 70,
    b"b",
    [1],
    (),
    1j,
    {},
    NotImplemented,
]


def entered(o: Any) -> Any:
    with o as inner:
        return inner


def instance(name: str, result: Any) -> Any:
    def method(self: Any, *args: Any) -> Any:
        return self.result

    others = {"__enter__": method, "__exit__": lambda self, *error: False}
    also = others if name in others else {}
    return type("Answering", (), {"result": result, **also, name: method})()


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_any_result_of_a_special_method(name: str, dynamic: bool | None) -> None:
    same = Comparison(dynamic=dynamic)
    for use in USES[name]:

        def used(x: torch.Tensor, o: Any, use: Callable[[Any], Any] = use) -> Any:
            y = x + 1
            try:
                found = use(o)
            except Exception as error:
                return y, type(error), str(error)
            return y, found if isinstance(found, str | int | float | list) else type(found), x * 2

        for k in range(0, len(RESULTS), 5):  # within the limit of entries
            objects = [instance(name, result) for result in RESULTS[k : k + 5]]
            same.assert_same_calls(used, *(call(torch.ones(1), o) for o in objects))


@pytest.mark.parametrize("result", [0, "x", False, NotImplemented])
def test_an_init_that_returns_something(result: Any) -> None:
    class Made:
        def __init__(self, value: Any) -> None:
            self.value = value
            return result  # type: ignore[return-value]  # noqa: PLE0101

    def made(x: torch.Tensor) -> Any:
        return x + Made(x).value

    Comparison().assert_same(made, torch.ones(1))


NAN = float("nan")
OTHER_NAN = float("nan")

ASKED: list[Callable[[Any, Any], Any]] = [
    lambda v, w: v in [w],
    lambda v, w: v in (1, w),
    lambda v, w: v in collections.deque([w]),
    lambda v, w: v in {"a": w}.values(),
    lambda v, w: ("a", v) in {"a": w}.items(),
    lambda v, w: [v] == [w],
    lambda v, w: [v] != [w],
    lambda v, w: [v] < [w],
    lambda v, w: (v, 1) == (w, 1),
    lambda v, w: (v, 1) < (w, 2),
    lambda v, w: {"a": v} == {"a": w},
    lambda v, w: [w, v].index(v),
    lambda v, w: (1, w).count(v),
    lambda v, w: collections.deque([w]).count(v),
    lambda v, w: operator.contains([w], v),
    lambda v, w: operator.countOf([w], v),
    lambda v, w: operator.indexOf([1, w], v),
    lambda v, w: operator.eq([v], [w]),
    lambda v, w: v == w,
    lambda v, w: v != v,
    lambda v, w: removed(v, w),
    lambda v, w: slice(v, None) == slice(w, None),
    lambda v, w: max([v, w, 1.0]),
    lambda v, w: sorted([v, w, 1.0]),
]


def removed(v: Any, w: Any) -> list[Any]:
    items = [1, w]
    items.remove(v)
    return items


@pytest.mark.parametrize("dynamic", [None, True])
def test_items_are_compared_by_identity_first(dynamic: bool | None) -> None:
    """Which only shows with objects that are not equal to themselves."""
    pairs = [(1.0, 2.0), (NAN, NAN), (NAN, OTHER_NAN), (1.0, NAN), (NAN, NAN), (2.0, 2.0)]
    for ask in ASKED:

        def asked(x: torch.Tensor, v: Any, w: Any, ask: Callable[[Any, Any], Any] = ask) -> Any:
            try:
                return x + 1, ask(v, w)
            except ValueError as error:
                return x, str(error)

        calls = [call(torch.ones(1), v, w) for v, w in pairs]
        Comparison(dynamic=dynamic).assert_same_calls(asked, *calls)


def test_nan_that_the_program_makes() -> None:
    def asked(x: torch.Tensor, text: str) -> Any:
        v = float(text)
        w = v * 1
        return x + 1, v in [v], [v].count(v), (v,) == (v,), v == v, [v, w].index(v), v in [x.dim()]

    Comparison().assert_same_calls(asked, *(call(torch.ones(1), t) for t in ("nan", "1", "nan")))


class Odd:
    """Equal to nothing, itself included."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def test_objects_that_are_not_equal_to_themselves() -> None:
    def asked(x: torch.Tensor, o: Any, p: Any) -> Any:
        return x + 1, o in [p], [o].count(p), [o] == [p], (o,) != (p,), o == p

    one, two = Odd(), Odd()
    Comparison().assert_same_calls(
        asked, call(torch.ones(1), one, one), call(torch.ones(1), one, two)
    )
