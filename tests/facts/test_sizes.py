"""Symbolic integers: as the integers that they stand for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jitpkg.facts import sizes
from jitpkg.facts.sizes import Relation, Size, compare, of, symbol

SYMBOLS = (symbol("n", 2), symbol("m", 2), symbol("k"))
NAMES = {name: name for name in "nmk"}

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": lambda a, b: a.extreme("min", b) if isinstance(a, Size) else min(a, b),
    "max": lambda a, b: a.extreme("max", b) if isinstance(a, Size) else max(a, b),
}

leaves = st.sampled_from(SYMBOLS) | st.integers(-4, 6).map(of)
trees = st.recursive(
    leaves.map(lambda leaf: ("leaf", leaf, leaf)),
    lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner),
    max_leaves=8,
)
values = st.fixed_dictionaries(
    {"n": st.integers(2, 40), "m": st.integers(2, 40), "k": st.integers(-40, 40)}
)


def build(tree: Any) -> Size:
    operation, left, right = tree
    return left if operation == "leaf" else OPERATIONS[operation](build(left), build(right))


def evaluate(tree: Any, given: dict[str, int]) -> int:
    operation, left, right = tree
    if operation == "leaf":
        return int(left.value(given))
    return int(OPERATIONS[operation](evaluate(left, given), evaluate(right, given)))


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except ZeroDivisionError:
        return None


@given(trees, st.lists(values, min_size=1, max_size=4))
def test_arithmetic_is_that_of_integers(tree: Any, cases: list[dict[str, int]]) -> None:
    built = attempt(build, tree)
    for case in cases:
        expected = attempt(evaluate, tree, case)
        if built is None or expected is None:
            continue
        assert built.value(case) == expected
        assert eval(built.text(NAMES), {"min": min, "max": max}, dict(case)) == expected
        low, high = built.bounds
        assert low <= expected <= high


@given(trees, trees, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), values)
def test_a_comparison_holds_for_the_integers(
    left: Any, right: Any, comparison: sizes.Comparison, case: dict[str, int]
) -> None:
    a, b = attempt(build, left), attempt(build, right)
    x, y = attempt(evaluate, left, case), attempt(evaluate, right, case)
    if None in (a, b, x, y):
        return
    expected = eval(f"{x} {comparison} {y}")
    found = compare(comparison, a, b)
    if isinstance(found, Relation):
        assert found.holds(case) is expected
        assert found.negated().holds(case) is not expected
        assert eval(found.text(NAMES), {"min": min, "max": max}, dict(case)) is expected
    else:
        assert found is expected


def test_equal_polynomials_are_equal() -> None:
    n, m, _ = SYMBOLS
    assert (n + m) * (n - m) == n * n - m * m
    assert hash(n * 2 + m) == hash(m + n + n)
    assert n * 0 == of(0)
    assert n != m


def test_division_without_a_rest_is_none() -> None:
    n, m, _ = SYMBOLS
    assert (n * m * 6) // (m * 3) == n * 2
    assert (n * 8) % 4 == of(0)
    assert (n * 4 + 3) // 4 == n
    assert (n * 4 + 3) % 4 == of(3)
    assert repr((n + 1) // 2) == "(n + 1) // 2"


def test_what_is_known_of_a_size_decides() -> None:
    n, m, k = SYMBOLS
    assert compare(">", n, 1) is True
    assert compare("==", n * m, 0) is False
    assert compare("==", n, 1) is False
    assert compare("!=", n * 2, 3) is True
    assert compare("<", n, n + 1) is True
    assert isinstance(compare("==", n, m), Relation)
    assert isinstance(compare(">", k, 1), Relation)


def test_texts() -> None:
    n, m, _ = SYMBOLS
    assert repr(n * m * 2 - m + 1) == "2*m*n - m + 1"
    assert repr(-n) == "-n"
    relation = compare("==", n * 2, m + 3)
    assert isinstance(relation, Relation)
    assert relation.text(NAMES) == "2*n == m + 3"
