"""Functions that compute sizes in C++: compiled twice, and right for each size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence

import jitpkg
from tests.codegen.examples import examples
from tests.varying.test_lengths import SIZES, costs_nothing_a_third_time, counts, image, rows_of
from tests.varying.test_varying import same

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "triu_indices": lambda x: torch.triu_indices(x.size(0), x.size(0), 1) + 1,
    "tril_indices of a band": lambda x: torch.tril_indices(x.size(0), 3, -2) + 1,
    "a triangle": lambda x: (x @ x.t())[tuple(torch.triu_indices(len(x), len(x)))] * 2,
    "F.unfold": lambda x: F.unfold(x[None, None], 2, stride=2),
    "F.unfold and F.fold": lambda x: F.fold(F.unfold(x[None, None], 2), (x.size(0), 3), 2),
    "rfft": lambda x: torch.fft.rfft(x, dim=0).abs(),
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x.t()), n=x.size(0)) + 1,
    "ifft": lambda x: torch.fft.ifft(torch.fft.fft(x.t(), norm="ortho")).abs(),
    "trace": lambda x: torch.trace(x @ x.t()) + 1,
    "kron": lambda x: torch.kron(x, x) + 1,
    "take_along_dim": lambda x: torch.take_along_dim(x, x.argsort(0), 0) + 1,
    "linspace to a size": lambda x: torch.linspace(0, len(x) - 1, len(x))[:, None] * x,
    "kaiser_window": lambda x: torch.kaiser_window(x.size(0), False, 3.0)[:, None] * x,
    "block_diag": lambda x: torch.block_diag(x, x.t(), x[:2]) + 1,
    "complex": lambda x: torch.complex(x, x * 2).abs() + 1,
    "polar": lambda x: torch.polar(x.abs(), x).abs() + 1,
    "pad_sequence": lambda x: pad_sequence([x, x[:-1], x[:3]], padding_value=2.0) + 1,
    "batches of a pad_sequence": lambda x: pad_sequence([x[:3], x], batch_first=True) + 1,
    "affine_grid": lambda x: F.affine_grid(
        x[:2][None].contiguous(), [1, 1, x.size(0), 4], align_corners=False
    ),
    "windows": lambda x: x.unfold(0, 3, 2) + 1,
    "diagonal": lambda x: (x @ x.t()).diagonal(1) + 1,
}


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_third_size_costs_nothing(name: str, backend: str) -> None:
    costs_nothing_a_third_time(FUNCTIONS[name], backend)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_trained_it_is_traced_twice(name: str) -> None:
    calls = [x.requires_grad_() for x in rows_of()]
    assert counts(FUNCTIONS[name], calls, "eager")[0] == 2


def outcome(f: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor | str:
    """What it returns, or the exception in words."""
    try:
        return f(x)
    except (RuntimeError, IndexError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_sizes(name: str) -> None:
    """Among them those for which it raises."""
    f = FUNCTIONS[name]
    compiled = jitpkg.compile(f)
    for n in (7, 5, 3, 2, 1, 0, 4):
        x = torch.randn(n, 3)
        expected, found = outcome(f, x), outcome(compiled, x)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected
            continue
        assert (found.shape, found.stride()) == (expected.shape, expected.stride())
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@examples(12)
@given(data=st.data())
def test_any_transforms(backend: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["fft", "ifft", "rfft", "irfft"]))
    rank = data.draw(st.integers(1, 4))
    order = list(range(rank))
    if rank < 4:
        order = data.draw(st.permutations(order))
    dim = data.draw(st.integers(-rank, rank - 1))
    varying = data.draw(st.integers(0, rank - 1))
    n = data.draw(st.sampled_from([None, None, 1, 4, 9]))
    lead = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    given_complex = name == "irfft" or (name != "rfft" and data.draw(st.booleans()))
    norm = data.draw(st.sampled_from([None, "ortho", "forward"]))
    calls = []
    for size in (6, 7, 10, 13):
        shape = tuple(size if k == varying else each for k, each in enumerate(lead))
        x = image(shape, order, grad=False)
        calls.append(torch.complex(x, x) if given_complex else x)
    f = getattr(torch.fft, name)
    if name == "irfft" and lead[dim] == 1 and varying != dim % rank and n is None:
        n = 2  # else it would have no elements
    counts_parts(lambda x: f(x, n, dim, norm), calls, backend)


def counts_parts(f: Callable[..., torch.Tensor], calls: list[torch.Tensor], backend: str) -> None:
    compiled = jitpkg.compile(f, backend=backend)
    for x in calls:
        expected, found = f(x), compiled(x)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@examples(12)
@given(data=st.data())
def test_any_patches(backend: str, data: st.DataObject) -> None:
    kernel = data.draw(st.one_of(st.integers(1, 3), st.tuples(st.integers(1, 3), st.just(2))))
    settings: list[Any] = [data.draw(st.integers(1, 2)) for _ in range(3)]
    settings = settings[: data.draw(st.integers(0, 3))]
    rank = data.draw(st.integers(3, 4))
    order = data.draw(st.permutations(range(rank)))
    lead = (2, 3)[4 - rank :]
    calls = [image((*lead, n, 6), order, grad=False) for n in (7, 8, 11, 14)]
    counts_parts(lambda x: F.unfold(x, kernel, *settings), calls, backend)
    counts_parts(
        lambda x: F.fold(F.unfold(x, kernel, *settings), x.shape[-2:], kernel, *settings),
        calls,
        backend,
    )


@pytest.mark.parametrize("which", ["triu_indices", "tril_indices"])
@examples(20)
@given(data=st.data())
def test_any_triangles(which: str, data: st.DataObject) -> None:
    make = getattr(torch, which)
    offset = data.draw(st.integers(-12, 12))
    other = data.draw(st.sampled_from([None, 1, 3, 9]))
    wide = data.draw(st.booleans())

    def f(x: torch.Tensor) -> torch.Tensor:
        n = x.size(0)
        m = n if other is None else other
        return make(*((m, n) if wide else (n, m)), offset) + 1

    compiled = jitpkg.compile(f)
    for n in (2, 3, 5, 8, 13, 1, 0):
        x = torch.ones(n)
        assert same(compiled(x), f(x))


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@examples(12)
@given(data=st.data())
def test_any_windows(backend: str, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(3)))
    dim, start = data.draw(st.integers(-3, 2)), data.draw(st.integers(-3, 3))
    first, second = data.draw(st.permutations(range(3)))[:2]
    size, step = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 4))
    calls = [image((n, 4, n + 1), order, grad=False) for n in (5, 6, 9, 12)]
    counts_parts(lambda x: x.unfold(dim, size, step), calls, backend)
    counts_parts(lambda x: x.unfold(dim, size, step) * 2, calls, backend)
    counts_parts(lambda x: x.diagonal(start, first, second), calls, backend)
    counts_parts(lambda x: x.diagonal(start, first, second).clone() * 2, calls, backend)


@torch.library.custom_op("jitpkg_same_name::kron", mutates_args=())
def kron(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


@kron.register_fake
def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(a)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_an_op_of_another_library_with_the_name_of_a_function(
    backend: str, recwarn: pytest.WarningsRecorder
) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        made = torch.ops.jitpkg_same_name.kron(x, x)
        return made * made.shape[0]

    compiled = jitpkg.compile(f, backend=backend)
    for n in SIZES:
        x = torch.randn(n, 3)
        assert same(compiled(x), f(x))
    assert not recwarn.list
