"""Rows where sizes vary: what they say must be right for all sizes that fit what was relied on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch.utils import _pytree as pytree

from jitpkg.facts import meta
from jitpkg.facts.outcome import Outcome, WouldRaise
from jitpkg.facts.rows.common import Unsure
from jitpkg.facts.sizes import Size, of, symbol
from jitpkg.facts.tensor import TensorFacts, strides_in_terms_of


def name_of(length: int) -> str:
    return f"s{length}"


def in_symbols(facts: TensorFacts) -> TensorFacts:
    """The same with a symbol for each size from 2 on; sizes that are equal share one."""
    size = tuple(n if n < 2 else symbol(name_of(n), 2) for n in facts.size)  # type: ignore[operator, arg-type]
    return replace(facts, size=size, stride=strides_in_terms_of(facts, size))


def with_values(facts: TensorFacts, values: Mapping[str, int]) -> TensorFacts:
    size = tuple(of(n).value(values) for n in facts.size)
    return replace(facts, size=size, stride=tuple(of(n).value(values) for n in facts.stride))


def _mapped(function: Callable[[TensorFacts], TensorFacts], tree: Any) -> Any:
    """Each tensor of its own stays one."""
    known: dict[int, TensorFacts] = {}

    def leaf(value: Any) -> Any:
        if not isinstance(value, TensorFacts):
            return value
        if id(value) not in known:
            known[id(value)] = function(value)
        return known[id(value)]

    return pytree.tree_map(leaf, tree)


def _number(value: Any, values: Mapping[str, int]) -> Any:
    return value.value(values) if isinstance(value, Size) else value


def agree(
    name: str,
    call: Callable[..., Any],
    args: Any,
    kwargs: Any,
    really: Callable[[Callable[..., Any], Any, Any], Outcome],
) -> None:
    """Ask the rows about sizes that vary, and compare with real calls for some of their values."""
    lengths = {
        n
        for leaf in pytree.tree_leaves((args, kwargs))
        if isinstance(leaf, TensorFacts)
        for n in leaf.size
        if isinstance(n, int) and n > 1
    }
    now = {name_of(n): n for n in lengths}
    if not now:
        return
    varying_args, varying_kwargs = _mapped(in_symbols, (args, kwargs))
    try:
        answer = meta.of_call(name, call, varying_args, varying_kwargs, now)
    except (Unsure, WouldRaise):
        return
    others = [now, *({s: n + k * i for i, (s, n) in enumerate(now.items(), 1)} for k in (1, 3))]
    for values in others:
        if not all(relation.holds(values) for relation in answer.relations):
            assert values is not now, f"{name}: what holds now is not what was relied on"
            continue
        _compare(name, call, (varying_args, varying_kwargs), answer, values, really)


def _compare(
    name: str,
    call: Callable[..., Any],
    arguments: Any,
    answer: Outcome,
    values: Mapping[str, int],
    really: Callable[[Callable[..., Any], Any, Any], Outcome],
) -> None:
    args, kwargs = _mapped(lambda facts: with_values(facts, values), arguments)
    try:
        real = really(call, args, kwargs)
    except Exception:
        return  # then the graph fails, and the original code runs
    found = _mapped(lambda facts: with_values(facts, values), answer.result)
    found = pytree.tree_map(lambda leaf: _number(leaf, values), found)
    shown = f"{name}{args}, {kwargs} of {arguments}: {answer}"
    assert found == real.result, shown
    assert answer.shares == real.shares, shown
    assert tuple(with_values(f, values) for f in answer.arguments) == real.arguments, shown
