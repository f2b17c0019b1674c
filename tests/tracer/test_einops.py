"""einops as programs use it: one graph from the first call on, also with sizes that vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import einops
import pytest
import torch
from einops import _backends
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import Tensor

import jitpkg
from jitpkg.testing import Comparison, call
from tests.api.support import Counts


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """As in a process that has not called einops."""
    caches = [found for found in vars(einops.einops).values() if hasattr(found, "cache_clear")]
    _backends._type2backend.clear()
    _backends._loaded_backends.clear()
    for cache in caches:
        cache.cache_clear()


def heads(x: Tensor) -> Any:
    y = einops.rearrange(x, "b n (h d) -> b h n d", h=2)
    return einops.rearrange(y * 2, "b h n d -> b n (h d)")


def means(x: Tensor) -> Any:
    return (
        einops.reduce(x, "b n d -> b d", "mean"),
        einops.reduce(x, "b (n s) d -> b n", "max", s=2),
        einops.reduce(x, "... d -> d", "sum"),
        einops.reduce(x, "b n d -> () n d", "min"),
    )


def repeated(x: Tensor) -> Any:
    first = einops.repeat(x[0, 0], "d -> b n d", b=x.shape[0], n=3)
    return first, einops.repeat(x, "b n d -> b (n r) d", r=2)


def packed(x: Tensor) -> Any:
    together, shapes = einops.pack([x, x[:, 0], x[:, :, None]], "b * d")
    parts = einops.unpack(together * 2, shapes, "b * d")
    return together, parts, shapes


def products(x: Tensor) -> Any:
    return einops.einsum(x, x, "b i d, b j d -> b i j").softmax(-1)


def shapes(x: Tensor) -> Any:
    found = einops.parse_shape(x, "b _ d")
    return x * found["d"] + found["b"], found


def patches(x: Tensor) -> Any:
    split, mix, pool = Rearrange("b (n s) d -> b n (s d)", s=2), MIX, Reduce("b n d -> b d", "mean")
    return pool(mix(split(x)))


torch.manual_seed(0)
MIX = EinMix("b n i -> b n o", weight_shape="i o", bias_shape="o", i=8, o=3)


def written_before(x: Tensor) -> Any:
    """Batch norm in training writes to its buffers, and einops handles what ops raise."""
    norm = torch.nn.BatchNorm1d(4)
    y = norm(einops.rearrange(x, "b n d -> (b n) d"))
    together, shapes_ = einops.pack([y], "b *")
    (again,) = einops.unpack(together, shapes_, "b *")
    return einops.rearrange(again, "(b n) d -> b d n", n=4), norm.running_mean


PROGRAMS = [heads, means, repeated, packed, products, shapes, patches, written_before]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program: Callable[..., Any], backend: str) -> None:
    ignored = ("version", "grad_fn") if backend == "jitpkg" else ()
    same = Comparison(fullgraph=True, backend=backend, relative=1e-5, absolute=1e-6, ignore=ignored)
    given = [call(torch.rand(n, 4, 4, requires_grad=True)) for n in (2, 3, 4, 2)]
    same.assert_same_calls(program, *given)


@pytest.mark.parametrize("program", [heads, means, products, packed])
def test_sizes_that_vary_are_one_graph(program: Callable[..., Any]) -> None:
    backend = Counts()
    compiled = jitpkg.compile(program, backend=backend, fullgraph=True)
    for n in (2, 3, 4, 5, 6, 7):
        compiled(torch.rand(n, 4, 4))
    assert len(backend.graphs) <= 3  # the backends that are loaded are looked for once


@pytest.mark.parametrize(
    "pattern", ["b n (h d) -> b h n d", "b n d -> b n", "b n -> n b", "b n d d -> b", "b n (d -> b"]
)
def test_what_fits_no_tensor(pattern: str) -> None:
    def program(x: Tensor) -> Any:
        return einops.rearrange(x, pattern)

    compiled = jitpkg.compile(program)
    for _ in range(2):
        with pytest.raises(einops.EinopsError) as theirs:
            program(torch.ones(2, 3, 4))
        with pytest.raises(einops.EinopsError) as ours:
            compiled(torch.ones(2, 3, 4))
        assert str(ours.value) == str(theirs.value)
