"""Thirty functions for random arguments: of tensors, and of structures that hold some."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from jitpkg.testing.strategies import Frozen, Pair, Record

FUNCTIONS: list[Callable[..., Any]] = []

Tensors = list[torch.Tensor]


def fuzzed(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS.append(function)
    return function


def children(obj: Any) -> Iterator[Any]:
    match obj:
        case dict():
            yield from obj.values()
        case list() | tuple():
            yield from obj
        case Record():
            yield obj.value
            yield obj.rest
        case Frozen():
            yield obj.value


def leaves(obj: Any) -> Iterator[Any]:
    if isinstance(obj, (dict, list, tuple, Record, Frozen)):
        for child in children(obj):
            yield from leaves(child)
    else:
        yield obj


def tensors_of(obj: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in leaves(obj) if isinstance(leaf, torch.Tensor))


# Reading structures


@fuzzed
def sum_of_leaves(obj: Any) -> Any:
    total: Any = 0
    for leaf in leaves(obj):
        if isinstance(leaf, (torch.Tensor, int, float)):
            total = total + (leaf.sum() if isinstance(leaf, torch.Tensor) else leaf)
    return total


@fuzzed
def mapped(obj: Any) -> Any:
    match obj:
        case torch.Tensor():
            return obj + 1
        case Pair(first, second):
            return Pair(mapped(first), mapped(second))
        case list() | tuple():
            return type(obj)(map(mapped, obj))
        case dict():
            return type(obj)((key, mapped(value)) for key, value in obj.items())
        case Record(value, rest):
            return Record(mapped(value), rest=mapped(rest))
        case Frozen():
            return dataclasses.replace(obj, value=mapped(obj.value))
        case str():
            return obj.upper()
        case _:
            return obj


@fuzzed
def described(obj: Any) -> Any:
    x = torch.ones(2)
    words = [
        f"{type(leaf).__name__}:{tuple(leaf.shape)}"
        if isinstance(leaf, torch.Tensor)
        else str(leaf)
        for leaf in leaves(obj)
    ]
    return x * len(words), ", ".join(words)


@fuzzed
def flattened(obj: Any) -> Any:
    found = [t.reshape(-1).float() for t in tensors_of(obj)]
    return torch.cat(found) if found else None


@fuzzed
def counted_by_type(obj: Any) -> Any:
    counts = collections.Counter(type(leaf).__name__ for leaf in leaves(obj))
    return counts.most_common(), torch.full((2,), float(len(counts)))


@fuzzed
def with_paths(obj: Any) -> Any:
    found: dict[str, Any] = {}

    def walk(path: str, inner: Any) -> None:
        if isinstance(inner, dict):
            for key, value in inner.items():
                walk(f"{path}[{key!r}]", value)
        elif isinstance(inner, (list, tuple)):
            for k, value in enumerate(inner):
                walk(f"{path}[{k}]", value)
        else:
            found[path] = inner * 2 if isinstance(inner, torch.Tensor) else inner

    walk("obj", obj)
    return found


@fuzzed
def same_objects(obj: Any) -> Any:
    found = list(leaves(obj))
    return torch.zeros(1), [[a is b for b in found] for a in found if isinstance(a, torch.Tensor)]


@fuzzed
def truth(obj: Any) -> Any:
    return torch.ones(1) * bool(obj), not obj, obj is None, obj or "empty"


@fuzzed
def compared(obj: Any) -> Any:
    plain = [leaf for leaf in leaves(obj) if not isinstance(leaf, torch.Tensor)]
    return torch.ones(1), [a == b for a, b in itertools.pairwise(plain)], 1 in plain, "a" in plain


@fuzzed
def sorted_leaves(obj: Any) -> Any:
    found = [leaf for leaf in leaves(obj) if isinstance(leaf, (int, float)) or leaf is None]
    try:
        return torch.ones(1), sorted(found), max(found)  # type: ignore[type-var]
    except (TypeError, ValueError) as error:
        return torch.zeros(1), str(error)


@fuzzed
def unpacked(obj: Any) -> Any:
    first, *rest = obj
    return torch.ones(1) * len(rest), first


@fuzzed
def matched(obj: Any) -> Any:
    x = torch.arange(3.0)
    match obj:
        case {"a": inner, **rest}:
            return x, "a", inner, rest
        case Pair(torch.Tensor() as t, _):
            return x + 1, "pair", t
        case Record(value=None):
            return x + 2, "record of none"
        case [only]:
            return x + 3, "one", only
        case [first, *_, last]:
            return x + 4, first, last
        case int(n) | float(n) if n > 1:
            return x * n
        case _:
            return x, "other"


# Changing structures


@fuzzed
def noted(obj: Any) -> Any:
    for leaf in tensors_of(obj):
        leaf.note = leaf.shape  # type: ignore[attr-defined]
    if isinstance(obj, list):
        obj.append(torch.ones(1))
    if isinstance(obj, dict):
        obj["new"] = torch.zeros(1)
    return obj


@fuzzed
def reversed_in_place(obj: Any) -> Any:
    if isinstance(obj, list):
        obj.reverse()
        obj[:1] = [torch.ones(2), "front"]
    elif isinstance(obj, dict):
        for key in list(obj):
            obj[key] = obj.pop(key)
            break
    elif isinstance(obj, Record):
        obj.value, obj.rest = obj.rest, obj.value
    return torch.ones(1), obj


@fuzzed
def assigned_to_frozen(obj: Any) -> Any:
    x = torch.ones(2)
    try:
        obj.value = x
    except AttributeError as error:
        return x + 1, type(error).__name__, str(error)
    return x, obj


@fuzzed
def copied(obj: Any) -> Any:
    shallow = copy.copy(obj) if isinstance(obj, (list, dict, Record)) else obj
    return torch.ones(1), shallow, shallow is obj


@fuzzed
def grouped(obj: Any) -> Any:
    groups: dict[Any, list[Any]] = collections.defaultdict(list)
    for leaf in leaves(obj):
        groups[leaf.dtype if isinstance(leaf, torch.Tensor) else type(leaf)].append(leaf)
    return {str(key): len(value) for key, value in groups.items()}, list(groups.values())


@fuzzed
def popped(obj: Any) -> Any:
    x = torch.ones(1)
    found = []
    try:
        while True:
            found.append(obj.pop() if isinstance(obj, list) else obj.popitem())
            x = x + 1
    except (AttributeError, IndexError, KeyError) as error:
        return x, found, repr(error)


# Tensors that may be views of each other


@fuzzed
def added(xs: Tensors) -> Any:
    return functools.reduce(lambda a, b: a + b, xs)


@fuzzed
def written_to_first(xs: Tensors) -> Any:
    with torch.no_grad():
        xs[0].mul_(2)
    return [x + 1 for x in xs]


@fuzzed
def written_to_last(xs: Tensors) -> Any:
    before = [x.sum() for x in xs]
    xs[-1].add_(1)
    return before, [x.sum() for x in xs]


@fuzzed
def views_returned(xs: Tensors) -> Any:
    return [x[:1] if x.dim() else x for x in xs], xs[0].detach(), xs[-1].transpose(0, -1)


@fuzzed
def filled(xs: Tensors) -> Any:
    x = xs[0]
    if x.dim() and x.shape[0] > 1:
        x.data[0] = 1
    elif x.numel() == 1:
        x.data.fill_(3)
    return x, x.shape, x.stride()


@fuzzed
def by_layout(xs: Tensors) -> Any:
    return [
        (x.contiguous(), "same") if x.is_contiguous() else (x.flatten() * 2, x.storage_offset())
        for x in xs
    ]


@fuzzed
def joined(xs: Tensors) -> Any:
    return torch.stack(xs) if len({x.shape for x in xs}) == 1 else torch.cat([x[:0] for x in xs])


@fuzzed
def multiplied(xs: Tensors) -> Any:
    a, b = xs[:2]
    if a.dim() == 2 and b.dim() == 2 and a.shape[1] != b.shape[0]:
        b = b.T
    return a @ b


@fuzzed
def reduced(xs: Tensors) -> Any:
    x = xs[0]
    dims = tuple(range(x.dim()))
    return x.sum(dims[:1]), x.amax(dims) if x.numel() else None, (x != 0).any(), x.float().mean()


@fuzzed
def promoted(xs: Tensors) -> Any:
    return [x * 2 for x in xs], [x / 2 for x in xs], [x + True for x in xs], xs[0] * math.pi


@fuzzed
def branched_on_data(xs: Tensors) -> Any:
    x = xs[0]
    if (x.abs() > 1).any():
        return x.abs().sqrt()
    return xs[-1] - 1


@fuzzed
def random_numbers(xs: Tensors) -> Any:
    x = xs[0].float()
    torch.manual_seed(x.dim())
    return torch.rand_like(x) + x, torch.randn(2), torch.nn.functional.dropout(x, 0.5)


@fuzzed
def gradients(xs: Tensors) -> Any:
    x = xs[0].detach().double().requires_grad_()
    y = (x * x).sum() + sum(t.detach().sum() for t in xs)
    (gradient,) = torch.autograd.grad(y, [x])
    return gradient, y
