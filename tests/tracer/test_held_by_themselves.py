"""Containers that hold themselves, directly or by way of another, in all that takes a container."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import operator
import pickle
from collections import Counter, OrderedDict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from jitpkg.testing import Comparison

Pair = namedtuple("Pair", "first second")


class Items(list):  # type: ignore[type-arg]
    """A list of a class of its own."""


class Holder:
    """An object that holds what it is held by."""

    def __init__(self) -> None:
        self.items = [self]

    def __repr__(self) -> str:
        return f"Holder of {len(self.items)}"


def a_list(x: torch.Tensor) -> Any:
    items: list[Any] = [x]
    items.append(items)
    return items


def a_list_of_the_same(x: torch.Tensor) -> Any:
    items: list[Any] = []
    items.append(items)
    return items


def a_dict(x: torch.Tensor) -> Any:
    table: dict[str, Any] = {"x": x}
    table["table"] = table
    return table


def an_ordered_dict(x: torch.Tensor) -> Any:
    table: OrderedDict[str, Any] = OrderedDict(x=x)
    table["table"] = table
    return table


def in_a_tuple(x: torch.Tensor) -> Any:
    items: list[Any] = [x]
    items.append((1, items))
    return items


def a_tuple(x: torch.Tensor) -> Any:
    items: list[Any] = [x]
    pair = (1, items)
    items.append(pair)
    return pair


def a_named_tuple(x: torch.Tensor) -> Any:
    items: list[Any] = [x]
    pair = Pair(1, items)
    items.append(pair)
    return pair


def each_other(x: torch.Tensor) -> Any:
    items: list[Any] = [x]
    table = {"items": items}
    items.append(table)
    return items


def a_deque(x: torch.Tensor) -> Any:
    items: deque[Any] = deque([x])
    items.append(items)
    return items


def a_list_of_its_own(x: torch.Tensor) -> Any:
    items = Items([x])
    items.append(items)
    return items


def an_object(x: torch.Tensor) -> Any:
    return Holder().items


MADE = [
    *(a_list, a_list_of_the_same, a_dict, an_ordered_dict, in_a_tuple, a_tuple, a_named_tuple),
    *(each_other, a_deque, a_list_of_its_own, an_object),
]


def raises(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What comes out; of an error its class, for there are many ways to run out of depth."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__


# `torch.tensor` and `torch.as_tensor` of what holds itself crash the process, eagerly.
USES: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "is_tensor": lambda v, x: torch.is_tensor(v),
    "stack": lambda v, x: torch.stack(v),
    "cat": lambda v, x: torch.cat([x, v]),
    "zeros": lambda v, x: torch.zeros(v),
    "reshape": lambda v, x: x.reshape(v),
    "index": lambda v, x: x[v],
    "store": lambda v, x: operator.setitem(x.clone(), v, 1),
    "keyword": lambda v, x: torch.sum(x, dim=v),
    "add": lambda v, x: x + v,
    "einsum": lambda v, x: torch.einsum("i,i->i", v),
    "broadcast": lambda v, x: torch.broadcast_tensors(v),
    "is_floating_point": lambda v, x: torch.is_floating_point(v),
    "is_nonzero": lambda v, x: torch.is_storage(v),
    "split": lambda v, x: torch.split(x, v),
    "interpolate": lambda v, x: torch.nn.functional.interpolate(x[None, None], v),
    "str": lambda v, x: str(v),
    "repr": lambda v, x: f"{v!r}",
    "print": lambda v, x: print(v),
    "percent": lambda v, x: "%s" % (v,),  # noqa: UP031
    "len": lambda v, x: len(v),
    "list": lambda v, x: len(list(v)),
    "tuple": lambda v, x: tuple(v),
    "spread": lambda v, x: [*v, *v],
    "reversed": lambda v, x: [type(k).__name__ for k in reversed(v)],
    "in": lambda v, x: v in [v],
    "in itself": lambda v, x: v in v,
    "index of": lambda v, x: [v].index(v),
    "equal": lambda v, x: v == v,
    "equal to a copy": lambda v, x: v == copy.copy(v),
    "less": lambda v, x: v < v,
    "max": lambda v, x: max(v, v) is v,
    "sorted": lambda v, x: len(sorted([v, v], key=len)),
    "hash": lambda v, x: isinstance(hash(v), int),
    "sum": lambda v, x: sum(v, []),  # noqa: RUF017
    "copy": lambda v, x: copy.copy(v),
    "deepcopy": lambda v, x: copy.deepcopy(v),
    "json": lambda v, x: json.dumps(v),
    "pickle": lambda v, x: len(pickle.loads(pickle.dumps(v))),
    "isinstance": lambda v, x: isinstance(v, list | tuple),
    "reduce": lambda v, x: functools.reduce(lambda a, b: len(a), [v, v]),
    "chain": lambda v, x: len([*itertools.chain(v, v)]),
    "zip": lambda v, x: [(a is b) for a, b in zip(v, v, strict=True)],
    "counter": lambda v, x: Counter(v),
    "tree": lambda v, x: pytree.tree_map(lambda leaf: leaf, [1, 2], is_leaf=lambda k: k is v),
    "flat": lambda v, x: pytree.tree_flatten(v),
    "returned": lambda v, x: v,
    "held": lambda v, x: {"held": (v, [v])},
    "format": lambda v, x: f"{v}",
    "write": lambda v, x: v.append(x + 1),
    "update": lambda v, x: v.update(y=x + 1),
    "clear": lambda v, x: v.clear(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_in_what_takes_a_container(make: Callable[[torch.Tensor], Any], use: str) -> None:
    using = USES[use]

    def made_here(x: torch.Tensor) -> Any:
        held = make(x + 1)
        return raises(using, held, x), x * 2, held

    def given(held: Any, x: torch.Tensor) -> Any:
        return raises(using, held, x), x * 2

    Comparison(calls=2).assert_same(made_here, torch.ones(2))
    Comparison(calls=2).assert_same(given, make(torch.ones(2)), torch.ones(2))
