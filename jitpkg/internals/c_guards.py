"""Tests of guards written in C, which torch brings for its own compiler. Each is tried."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitpkg.internals.row import Row
from jitpkg.internals.usual import zeros

_GUARDS = "torch._C._dynamo.guards"

# Metadata of tensors


def _check(make: Callable[..., Any], *tensors: Any, size: Any = None) -> Callable[..., bool]:
    strides = None if size is None else [list(tensors[0].stride())]
    check: Callable[..., bool] = make(
        *tensors, dynamic_dims_sizes=size, dynamic_dims_strides=strides
    ).check
    return check


def _compares_tensors(make: Callable[..., Any]) -> bool:
    x, y = zeros(2, 3), zeros(4)
    check, rows = _check(make, x, y), _check(make, x, size=[[None, 3]])
    return check(x, y) and not any(
        (
            check(zeros(2, 4), y),
            check(zeros(3, 2).t(), y),
            check(x.double(), y),
            check(x.clone().requires_grad_(), y),
            check(torch.nn.Parameter(x, requires_grad=False), y),
            _check(make, x, x.clone())(x, x),
            _check(make, y.to(torch.complex64))(y.to(torch.complex64).conj()),
            not rows(zeros(5, 3)),
            rows(zeros(2, 4)),
            rows(zeros(2, 3, dtype=torch.float64)),
        )
    )


TENSORS = Row[Callable[..., Any]](
    f"{_GUARDS}.TensorGuards",
    use="comparing the metadata of all tensors of an entry at once, in 100 ns each",
    lost="Python compares them, which takes 330 ns each",
    works=_compares_tensors,
)

# The global state


def _compares_state(make: Callable[[], Any]) -> bool:
    check = make().check
    with torch.set_grad_enabled(not torch.is_grad_enabled()):
        changed = check()
    return check() and not changed


GLOBAL_STATE = Row[Callable[[], Any]](
    f"{_GUARDS}.GlobalStateGuard",
    use="comparing grad mode, autocast, default dtype and so on in 140 ns",
    lost="Python compares them, which takes 260 ns",
    works=_compares_state,
)

# Dictionaries


def class_dictionary(cls: type) -> dict[str, object]:
    """The dictionary behind a class's `__dict__`."""
    (found,) = gc.get_referents(type.__dict__["__dict__"].__get__(cls))
    assert isinstance(found, dict)
    return found


def counts_changes(version: Callable[[dict[str, object]], int]) -> bool:
    """Whether a function's answer about a dictionary is another one after each change of it, and
    only then: tried on a class, which is what it is used for."""
    names = dict.fromkeys(("first", "second"), 1)
    cls: Any = type("Example", (), dict(names))
    return sees_changes(version, cls, cls(), class_dictionary(cls))


def sees_changes(
    version: Callable[[dict[str, object]], int],
    cls: Any,
    instance: Any,
    dictionary: dict[str, object],
) -> bool:
    """The same of the dictionary of an object with the attributes `first` and `second`: a class
    and its instance, or twice an instance."""
    changes: Sequence[Callable[[], object]] = (
        lambda: setattr(cls, "third", 1),
        lambda: setattr(cls, "first", 2),
        lambda: delattr(cls, "second"),
        lambda: setattr(cls, "first", len),
    )
    for change in changes:
        before = version(dictionary)
        instance.first, cls.first, hasattr(cls, "fourth")
        if version(dictionary) != before:
            return False
        change()
        if version(dictionary) == before:
            return False
    return True


DICT_VERSION = Row[Callable[[dict[str, object]], int]](
    f"{_GUARDS}.dict_version",
    use="seeing in 50 ns that nobody has changed a class",
    lost="Python looks at each name of a class that was read",
    works=counts_changes,
)
