"""What a program says of sizes: that they vary, in which range, and that they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import events
from jitpkg.errors import InvalidArgument, SizeSpecialized
from tests.varying.test_varying import graphs


def marked(n: int, mark: Callable[..., None] = jitpkg.mark_dynamic, **how: Any) -> torch.Tensor:
    x = torch.randn(n, 3)
    mark(x, 0, **how)
    return x


def half(x):
    return x * 2 if x.shape[0] <= 8 else x + 1


def only_four(x):
    if x.shape[0] == 4:
        return x * 2
    return x + 1


def test_a_range_decides_comparisons() -> None:
    within = [(marked(n, max=8),) for n in (3, 5, 8, 2)]
    assert graphs(half, within) == 1
    assert graphs(half, [*within, (torch.randn(9, 3),), (torch.randn(30, 3),)]) == 2
    assert graphs(half, [(marked(n, min=9),) for n in (10, 12, 9)]) == 1


def test_what_is_not_in_the_range_is_said() -> None:
    compiled = jitpkg.compile(half)
    compiled(marked(4, min=3, max=8))
    heard: list[Any] = []
    with events.STREAM.listening(heard.append):
        compiled(torch.randn(9, 3))
    (reasons,) = [event.reasons for event in heard if isinstance(event, events.Recompiled)]
    assert reasons == ("x has size 9 in dim 0; built for 3 to 8",)


@pytest.mark.parametrize(
    ("size", "how", "said"),
    [
        (9, {"max": 8}, "dim 0 has size 9, not 2 to 8"),
        (3, {"min": 4}, "dim 0 has size 3, not 4 and more"),
        (1, {"min": 2}, "dim 0 has size 1, not 2 and more"),
        (3, {"max": 1}, "there are no sizes from 2 to 1"),
        (3, {"min": 5, "max": 4}, "there are no sizes from 5 to 4"),
        (3, {"min": "a"}, "min is 'a', which is no int"),
        (3, {"max": True}, "max is True, which is no int"),
    ],
)
def test_bad_ranges(size: int, how: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        marked(size, **how)


@pytest.mark.parametrize(
    ("f", "line"),
    [
        (only_four, "if x.shape[0] == 4:"),
        (lambda x: x + torch.ones(4, 3), "x + torch.ones(4, 3)"),
        (lambda x: [x * k for k in range(x.shape[0])], "for k in range(x.shape[0])"),
    ],
)
def test_a_marked_size_that_is_decided_is_an_error(f: Any, line: str) -> None:
    compiled = jitpkg.compile(f)
    for _ in range(2):
        with pytest.raises(SizeSpecialized) as raised:
            compiled(marked(4))
        for part in ("works only while x.shape[0] == 4", line, "Why: ", "maybe_mark_dynamic"):
            assert part in str(raised.value)
    x = marked(4, jitpkg.maybe_mark_dynamic)
    assert repr(compiled(x)) == repr(f(x))


def test_what_the_compiler_decides_is_no_error() -> None:
    """Of an op without symbolic facts, sizes are taken as they are: the program is not to blame."""
    x = marked(4)
    assert torch.equal(jitpkg.compile(lambda x: x.nonzero())(x), x.nonzero())


def test_sizes_that_may_vary() -> None:
    calls = [(marked(n, jitpkg.maybe_mark_dynamic),) for n in (5, 6, 4, 7)]
    assert graphs(only_four, calls) == 2


def test_a_mark_replaces_another() -> None:
    x = torch.randn(4, 3)
    jitpkg.mark_dynamic(x, 0)
    jitpkg.mark_static(x)
    assert jitpkg.compile(only_four)(x).shape == (4, 3)
    jitpkg.mark_dynamic(x, [0, 1])
    with pytest.raises(SizeSpecialized):
        jitpkg.compile(only_four)(x)
    jitpkg.maybe_mark_dynamic(x, 0)
    assert jitpkg.compile(only_four)(x).shape == (4, 3)


def test_sizes_with_and_without_a_range_share_no_symbol() -> None:
    def f(x, y):
        return x.sum(0) + y.sum(0)

    calls = [(marked(n, max=8), marked(m)) for n, m in ((5, 5), (6, 9), (3, 20), (8, 8))]
    assert graphs(f, calls) == 1
