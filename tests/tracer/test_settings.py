"""Settings of torch's that decide how results lie in memory, or whether an op raises: what was
compiled with one of them is not run with another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import jitpkg
from jitpkg.facts import thread_state
from jitpkg.testing import Comparison, call
from jitpkg.testing.programs.modes import HOW_COMPUTED

Program = Callable[..., Any]

WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "jitpkg": {"backend": "jitpkg", "ignore": HOW_COMPUTED, "relative": 1e-5, "absolute": 1e-6},
    "aot_eager": {"backend": "aot_eager", "ignore": HOW_COMPUTED, "relative": 1e-5},
    "breaks": {"settings": {"disturb": "break"}},
    "dynamic": {"dynamic": True},
}
MATH, FLASH = SDPBackend.MATH, SDPBackend.FLASH_ATTENTION


def attention(q: Any, **kwargs: Any) -> Any:
    return functional.scaled_dot_product_attention(q, q, q, **kwargs)


def queries() -> Any:
    return torch.linspace(-1, 1, 120).reshape(2, 5, 3, 4).transpose(1, 2)


# Set from outside


def attended(q: Any) -> Any:
    y = attention(q)
    return y, y.stride()


def attended_causally(q: Any) -> Any:
    y = attention(q, is_causal=True)
    return y, y.is_contiguous()


def attended_by_a_mask(q: Any) -> Any:
    y = attention(q, attn_mask=torch.ones(5, 5, dtype=torch.bool))
    return y + 1, y.stride()


def convolved(x: Any) -> Any:
    w = torch.ones(3, 3, 1, 1, 1, dtype=x.dtype)
    y = functional.conv3d(x[..., None].to(memory_format=torch.channels_last_3d), w)
    return y, y.stride()


def convolved_in_a_plane(x: Any) -> Any:
    y = functional.conv2d(x.contiguous(memory_format=torch.channels_last), torch.ones(3, 3, 1, 1))
    return y, y.stride()


OUTSIDE: tuple[Program, ...] = (
    *(attended, attended_causally, attended_by_a_mask, convolved, convolved_in_a_plane),
)


@contextmanager
def _without_mkldnn() -> Iterator[None]:
    with torch.backends.mkldnn.flags(enabled=False):
        yield


AROUND: dict[str, Callable[[], Any]] = {
    "products": lambda: sdpa_kernel(MATH),
    "one kernel": lambda: sdpa_kernel(FLASH),
    "no kernel": lambda: sdpa_kernel([]),
    "no mkldnn": _without_mkldnn,
}


@pytest.mark.parametrize("way", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("program", OUTSIDE, ids=lambda p: p.__name__)
def test_set_after_compiling(program: Program, around: str, way: str) -> None:
    compiled = jitpkg.compile(program, backend=way)
    for _ in range(2):
        _check(compiled, program)
        with AROUND[around]():
            _check(compiled, program)


def _check(compiled: Program, program: Program) -> None:
    got, expected = (_outcome(function) for function in (compiled, program))
    if isinstance(expected, type):
        assert got is expected
        return
    assert got[1] == expected[1]
    assert got[0].stride() == expected[0].stride()
    torch.testing.assert_close(got[0], expected[0])


def _outcome(function: Program) -> Any:
    try:
        return function(queries())
    except RuntimeError as error:
        return type(error)


# Chosen inside


def by_products(q: Any) -> Any:
    with sdpa_kernel(MATH):
        return attention(q)


def by_one_kernel(q: Any) -> Any:
    with sdpa_kernel([FLASH]):
        y = attention(q)
    return y * 2


def by_either(q: Any) -> Any:
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, MATH, FLASH]):
        return attention(q), attention(q, is_causal=True)


def inside_and_outside(q: Any) -> Any:
    first = attention(q)
    with sdpa_kernel(MATH):
        second = attention(q)
    third = attention(q)
    return first, second, third, first.stride(), second.stride(), third.stride()


def nested(q: Any) -> Any:
    with sdpa_kernel(MATH):
        a = attention(q)
        with sdpa_kernel(FLASH):
            b = attention(q)
        c = attention(q)
    return a.stride(), b.stride(), c.stride(), a + b + c


def trained(q: Any) -> Any:
    weight = torch.linspace(0, 1, 4)
    with sdpa_kernel(MATH):
        return (attention(q * weight) * weight).sum()


def without_gradients(q: Any) -> Any:
    with torch.no_grad(), sdpa_kernel(MATH):
        return attention(q)


def by_none(q: Any) -> Any:
    with sdpa_kernel([]):
        return attention(q)


def by_none_and_caught(q: Any) -> Any:
    try:
        with sdpa_kernel([]):
            return attention(q)
    except RuntimeError:
        return attention(q)


def raised(q: Any) -> Any:
    with sdpa_kernel(MATH):
        attention(q)
        raise KeyError("inside")


def printed(q: Any) -> Any:
    with sdpa_kernel(MATH):
        print("inside")
        y = attention(q)
    return y, y.stride(), attention(q).stride()


def asked(q: Any) -> Any:
    seen = [torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()]
    with sdpa_kernel(MATH):
        seen += [torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()]
    return q + 1, seen, torch.backends.cuda.flash_sdp_enabled()


def in_order(q: Any) -> Any:
    with sdpa_kernel([MATH, FLASH], set_priority=True):
        return attention(q)


def of_names(q: Any) -> Any:
    names = {MATH: "products", FLASH: "one kernel"}
    return q * 2, names[MATH], MATH == SDPBackend.MATH, FLASH in [MATH, FLASH]


ONE_GRAPH: tuple[Program, ...] = (
    *(by_products, by_one_kernel, by_either, inside_and_outside, nested, trained),
    *(without_gradients, asked, of_names),
)
OTHERS: tuple[Program, ...] = (by_none, by_none_and_caught, raised, printed, in_order)


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    before = thread_state.contexts()
    yield
    assert thread_state.contexts() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [*ONE_GRAPH, *OTHERS], ids=lambda p: p.__name__)
def test_chosen_inside(program: Program, way: str) -> None:
    Comparison(**WAYS[way]).assert_same(program, queries())


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", [*ONE_GRAPH, *OTHERS], ids=lambda p: p.__name__)
def test_where_another_choice_is_made_outside(program: Program, way: str) -> None:
    compiled = jitpkg.compile(program, backend=way)
    for choice in ([MATH], [FLASH], [MATH, FLASH]):
        with sdpa_kernel(choice):
            for _ in range(2):
                got, expected = _shown(compiled), _shown(program)
                assert got == expected


def _shown(function: Program) -> str:
    try:
        found = function(queries())
    except (RuntimeError, KeyError) as error:
        return type(error).__name__
    results = found if isinstance(found, tuple) else (found,)
    return str([r.stride() if isinstance(r, torch.Tensor) else r for r in results])


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda p: p.__name__)
def test_one_graph(program: Program, way: str) -> None:
    explained = jitpkg.explain(program, backend=way)(queries())
    assert explained.graph_break_count == 0
    assert explained.graph_count == 1
    assert not explained.declined


@pytest.mark.parametrize("way", ["eager", "jitpkg"])
def test_gradients(way: str) -> None:
    leaf = queries().clone().requires_grad_()
    Comparison(**WAYS[way]).assert_same_calls(inside_and_outside, call(leaf), call(queries()))
    Comparison(**WAYS[way]).assert_same(trained, leaf)
