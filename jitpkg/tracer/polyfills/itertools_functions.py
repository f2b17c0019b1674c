"""`itertools`, after the equivalents that its documentation gives.

What an iterator does when it is made is done by a function, what it does at each step by the
generator that the function returns.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_MISSING = object()


def chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    """`itertools.chain`"""
    return _chain(iter(iterables))


def from_iterable(cls: type, iterable: Iterable[Iterable[Any]], /) -> Iterator[Any]:
    """`itertools.chain.from_iterable`"""
    return _chain(iter(iterable))


def _chain(iterables: Iterator[Iterable[Any]]) -> Iterator[Any]:
    for iterable in iterables:
        for item in iterable:  # noqa: UP028 (what is sent must not go to the iterable)
            yield item


def islice(iterable: Iterable[Any], /, *bounds: Any) -> Iterator[Any]:
    """`itertools.islice`"""
    if not bounds or len(bounds) > 3:
        raise TypeError(f"islice expected at least 2 arguments, got {len(bounds) + 1}")
    start, stop, step = 0, None, 1
    if len(bounds) == 1:
        stop = _bound(bounds[0], None)
    else:
        start = _bound(bounds[0], 0)
        stop = _bound(bounds[1], None)
    if stop == -1:
        raise ValueError(
            "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize."
        )
    if start < 0 or (stop is not None and stop < 0):
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if len(bounds) == 3:
        step = _bound(bounds[2], 1)
    if step < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return _islice(iter(iterable), start, stop, step)


def _bound(value: Any, default: Any) -> Any:
    """The number that a bound is; -1 for one that is none."""
    if value is None:
        return default
    try:
        return operator.index(value)
    except TypeError:
        return -1


def _islice(iterator: Iterator[Any], wanted: int, stop: int | None, step: int) -> Iterator[Any]:
    at = 0
    while True:
        while at < wanted:
            if next(iterator, _MISSING) is _MISSING:
                return
            at += 1
        if stop is not None and at >= stop:
            return
        item = next(iterator, _MISSING)
        if item is _MISSING:
            return
        at += 1
        wanted += step
        if stop is not None and wanted > stop:
            wanted = stop
        yield item


def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    """`itertools.count`"""
    if not _is_number(start) or not _is_number(step):
        raise TypeError("a number is required")
    return _count(start, step)


def _is_number(value: Any) -> bool:
    """`PyNumber_Check`"""
    methods = ("__index__", "__int__", "__float__")
    return isinstance(value, complex) or any(hasattr(type(value), name) for name in methods)


def _count(at: Any, step: Any) -> Iterator[Any]:
    while True:
        yield at
        at = at + step


def cycle(iterable: Iterable[Any], /) -> Iterator[Any]:
    """`itertools.cycle`"""
    return _cycle(iter(iterable))


def _cycle(iterator: Iterator[Any]) -> Iterator[Any]:
    saved = []
    for item in iterator:
        saved.append(item)
        yield item
    while saved:
        for item in saved:
            yield item


def repeat(object: Any, times: Any = _MISSING) -> Iterator[Any]:  # noqa: A002
    """`itertools.repeat`"""
    if times is _MISSING:
        return _repeat_forever(object)
    return _repeat(object, operator.index(times))


def _repeat_forever(item: Any) -> Iterator[Any]:
    while True:
        yield item


def _repeat(item: Any, times: int) -> Iterator[Any]:
    for _ in range(times):
        yield item


def accumulate(
    iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None
) -> Iterator[Any]:
    """`itertools.accumulate`"""
    return _accumulate(iter(iterable), operator.add if func is None else func, initial)


def _accumulate(
    iterator: Iterator[Any], function: Callable[[Any, Any], Any], total: Any
) -> Iterator[Any]:
    if total is None:
        total = next(iterator, _MISSING)
        if total is _MISSING:
            return
    yield total
    for item in iterator:
        total = function(total, item)
        yield total


def batched(iterable: Iterable[Any], n: int, *, strict: bool = False) -> Iterator[Any]:
    """`itertools.batched`"""
    if n < 1:
        raise ValueError("n must be at least one")
    return _batched(iter(iterable), n, strict)


def _batched(iterator: Iterator[Any], n: int, strict: bool) -> Iterator[Any]:
    while True:
        batch: list[Any] = []
        while len(batch) < n:
            item = next(iterator, _MISSING)
            if item is _MISSING:
                break
            batch.append(item)
        if not batch:
            return
        if strict and len(batch) < n:
            raise ValueError("batched(): incomplete batch")
        yield tuple(batch)


def pairwise(iterable: Iterable[Any], /) -> Iterator[Any]:
    """`itertools.pairwise`"""
    return _pairwise(iter(iterable))


def _pairwise(iterator: Iterator[Any]) -> Iterator[Any]:
    old = next(iterator, _MISSING)
    if old is _MISSING:
        return
    for new in iterator:
        yield old, new
        old = new


def starmap(function: Callable[..., Any], iterable: Iterable[Iterable[Any]], /) -> Iterator[Any]:
    """`itertools.starmap`"""
    return _starmap(function, iter(iterable))


def _starmap(function: Callable[..., Any], iterator: Iterator[Iterable[Any]]) -> Iterator[Any]:
    for args in iterator:
        yield function(*args)


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    """`itertools.takewhile`"""
    return _takewhile(predicate, iter(iterable))


def _takewhile(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    """`itertools.dropwhile`"""
    return _dropwhile(predicate, iter(iterable))


def _dropwhile(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            yield item
            break
    for item in iterator:
        yield item


def filterfalse(
    predicate: Callable[[Any], Any] | None, iterable: Iterable[Any], /
) -> Iterator[Any]:
    """`itertools.filterfalse`"""
    return _filterfalse(bool if predicate is None else predicate, iter(iterable))


def _filterfalse(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            yield item


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """`itertools.compress`"""
    return _compress(iter(data), iter(selectors))


def _compress(data: Iterator[Any], selectors: Iterator[Any]) -> Iterator[Any]:
    for item in data:
        selector = next(selectors, _MISSING)
        if selector is _MISSING:
            return
        if selector:
            yield item


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[Any]:
    """`itertools.zip_longest`"""
    return _zip_longest([iter(iterable) for iterable in iterables], fillvalue)


def _zip_longest(iterators: list[Any], fill: Any) -> Iterator[Any]:
    active = len(iterators)
    while active:
        items = []
        for k, iterator in enumerate(iterators):
            item = fill if iterator is None else next(iterator, _MISSING)
            if item is _MISSING:
                active -= 1
                if not active:
                    return
                iterators[k] = None
                item = fill
            items.append(item)
        yield tuple(items)


def product(*iterables: Iterable[Any], repeat: int = 1) -> Iterator[Any]:
    """`itertools.product`"""
    count = operator.index(repeat)
    if count < 0:
        raise ValueError("repeat argument cannot be negative")
    pools = [tuple(iterable) for iterable in iterables] * count
    return _product(pools)


def _product(pools: list[tuple[Any, ...]]) -> Iterator[Any]:
    if not all(pools):
        return
    at = [0] * len(pools)
    while True:
        yield tuple([pool[k] for pool, k in zip(pools, at, strict=True)])
        last = len(pools) - 1
        while last >= 0:
            at[last] += 1
            if at[last] < len(pools[last]):
                break
            at[last] = 0
            last -= 1
        if last < 0:
            return


def permutations(iterable: Iterable[Any], r: int | None = None) -> Iterator[Any]:
    """`itertools.permutations`"""
    pool = tuple(iterable)
    return _permutations(pool, _size(r, len(pool)))


def _size(r: int | None, default: int) -> int:
    if r is None:
        return default
    if r < 0:
        raise ValueError("r must be non-negative")
    return r


def _permutations(pool: tuple[Any, ...], r: int) -> Iterator[Any]:
    n = len(pool)
    if r > n:
        return
    indices = list(range(n))
    cycles = list(range(n, n - r, -1))
    yield tuple([pool[i] for i in indices[:r]])
    while n:
        i = r - 1
        while i >= 0:
            cycles[i] -= 1
            if cycles[i]:
                break
            indices[i:] = indices[i + 1 :] + indices[i : i + 1]
            cycles[i] = n - i
            i -= 1
        if i < 0:
            return
        j = cycles[i]
        indices[i], indices[-j] = indices[-j], indices[i]
        yield tuple([pool[k] for k in indices[:r]])


def combinations(iterable: Iterable[Any], r: int) -> Iterator[Any]:
    """`itertools.combinations`"""
    pool = tuple(iterable)
    return _combinations(pool, _size(r, r), 1)


def combinations_with_replacement(iterable: Iterable[Any], r: int) -> Iterator[Any]:
    """`itertools.combinations_with_replacement`"""
    pool = tuple(iterable)
    return _combinations(pool, _size(r, r), 0)


def _combinations(pool: tuple[Any, ...], r: int, gap: int) -> Iterator[Any]:
    """Each index lies at least `gap` above the one before."""
    n = len(pool)
    if r > n if gap else not n and r > 0:
        return
    indices = [gap * k for k in range(r)]
    while True:
        yield tuple([pool[k] for k in indices])
        i = r - 1
        while i >= 0 and indices[i] == n - 1 - gap * (r - 1 - i):
            i -= 1
        if i < 0:
            return
        first = indices[i] + 1
        for k in range(i, r):
            indices[k] = first + gap * (k - i)


def tee(iterable: Iterable[Any], n: int = 2, /) -> tuple[Iterator[Any], ...]:
    """`itertools.tee`"""
    if n < 0:
        raise ValueError("n must be >= 0")
    iterator = iter(iterable)
    seen: list[Any] = []
    return tuple([_tee(iterator, seen) for _ in range(n)])


def _tee(iterator: Iterator[Any], seen: list[Any]) -> Iterator[Any]:
    at = 0
    while True:
        if at == len(seen):
            item = next(iterator, _MISSING)
            if item is _MISSING:
                return
            seen.append(item)
        yield seen[at]
        at += 1


def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    """`itertools.groupby`"""
    return _groupby(_Groups(iter(iterable), key))


class _Groups:
    """What a `groupby` and its groups share."""

    def __init__(self, iterator: Iterator[Any], key: Any) -> None:
        self.iterator = iterator
        self.key_function = key
        self.item = self.key = self.wanted = _MISSING
        self.count = 0
        """How many groups were given out: only the last one still gives items."""

    def step(self) -> bool:
        item = next(self.iterator, _MISSING)
        if item is _MISSING:
            return False
        self.key = item if self.key_function is None else self.key_function(item)
        self.item = item
        return True


def _groupby(groups: _Groups) -> Iterator[Any]:
    while True:
        groups.count += 1
        while groups.key is _MISSING or (
            groups.wanted is not _MISSING and _equal(groups.wanted, groups.key)
        ):
            if not groups.step():
                return
        groups.wanted = groups.key
        yield groups.key, _group(groups, groups.count, groups.key)


def _equal(a: Any, b: Any) -> Any:
    return (a,) == (b,)  # identity first, as the interpreter compares items


def _group(groups: _Groups, number: int, wanted: Any) -> Iterator[Any]:
    while groups.count == number:
        if groups.item is _MISSING and not groups.step():
            return
        if not _equal(wanted, groups.key):
            return
        item, groups.item = groups.item, _MISSING
        yield item
