"""Operands of several dtypes: what is known of results, and what eager code refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm
from tests.portions import portion

Tensor = torch.Tensor
Call = tuple[Callable[..., Tensor], list[tuple[int, ...]]]

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
MATRIX, TWO, THREE = (3, 4), [(3, 4)] * 2, [(3, 4)] * 3
PLACES = torch.zeros(3, dtype=torch.int64)

CALLS: dict[str, Call] = {
    "addr": (torch.addr, [MATRIX, (3,), (4,)]),
    "soft margin": (F.soft_margin_loss, TWO),
    "soft margins": (lambda x, y: F.soft_margin_loss(x, y, reduction="none"), TWO),
    "binary cross entropy": (F.binary_cross_entropy, THREE),
    "with logits": (lambda x, y, z: F.binary_cross_entropy_with_logits(x, y, pos_weight=z), THREE),
    "mse": (F.mse_loss, TWO),
    "huber": (F.huber_loss, TWO),
    "hubers": (lambda x, y: F.huber_loss(x, y, reduction="none"), TWO),
    "smooth l1": (F.smooth_l1_loss, TWO),
    "kl_div": (F.kl_div, TWO),
    "cross entropy": (lambda x, w: F.cross_entropy(x, PLACES, w), [MATRIX, (4,)]),
    "poisson": (F.poisson_nll_loss, TWO),
    "multi margin": (lambda x, w: F.multi_margin_loss(x, PLACES, weight=w), [MATRIX, (4,)]),
    "normal": (torch.normal, TWO),
    "logaddexp": (torch.logaddexp, TWO),
    "logaddexp2": (torch.logaddexp2, TWO),
    "xlogy": (torch.xlogy, TWO),
    "prelu": (F.prelu, [MATRIX, (4,)]),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.5), TWO),
    "addcmul": (torch.addcmul, THREE),
    "addcdiv": (torch.addcdiv, THREE),
    "sub": (torch.sub, TWO),
    "mv": (torch.mv, [MATRIX, (4,)]),
    "dot": (torch.dot, [(4,)] * 2),
    "mm": (torch.mm, [(4, 4)] * 2),
    "addmm": (torch.addmm, [(4, 4)] * 3),
    "linear": (F.linear, TWO),
    "layer norm": (lambda x, y, z: F.layer_norm(x, (4,), y, z), [MATRIX, (4,), (4,)]),
    "group norm": (lambda x, y, z: F.group_norm(x, 2, y, z), [MATRIX, (4,), (4,)]),
    "batch norm": (
        lambda x, y, z: F.batch_norm(x, torch.zeros(4), torch.ones(4), y, z, True),
        [MATRIX, (4,), (4,)],
    ),
    "batch norm by statistics": (F.batch_norm, [MATRIX, (4,), (4,)]),
    "rms norm": (lambda x, y: F.rms_norm(x, (4,), y), [MATRIX, (4,)]),
    "index_add": (lambda x, y: x.index_add(0, PLACES, y), TWO),
    "index_put": (lambda x, y: x.index_put((PLACES,), y), TWO),
    "scatter_add": (lambda x, y: x.scatter_add(0, PLACES[:, None].expand(3, 4), y), TWO),
    "index_fill": (lambda x, y: x.index_fill(0, PLACES, y), [MATRIX, ()]),
    "masked_fill": (lambda x, y: x.masked_fill(x > 0, y), [MATRIX, ()]),
    "where": (lambda x, y: torch.where(x > 0, x, y), TWO),
    "cat": (lambda x, y: torch.cat([x, y]), TWO),
    "clamp": (torch.clamp, THREE),
    "cosine similarity": (F.cosine_similarity, TWO),
}


def operands(dtypes: Sequence[torch.dtype], sizes: list[tuple[int, ...]]) -> Iterator[Tensor]:
    for k, (dtype, size) in enumerate(zip(dtypes, sizes, strict=True)):
        count = torch.Size(size).numel()
        yield (torch.arange(1.0 + k, 1 + k + count).view(size) / (count + 4)).to(dtype)


def mixtures(count: int) -> list[tuple[torch.dtype, ...]]:
    """Of two dtypes, in each order."""
    return [each for each in itertools.product(DTYPES, repeat=count) if len(set(each)) == 2]


@pytest.mark.parametrize("name", CALLS)
def test_what_is_known_of_a_result(name: str) -> None:
    function, sizes = CALLS[name]

    def described(*args: Tensor) -> tuple[Any, ...]:
        made = function(*args)
        return made, made.dtype, tuple(made.shape), made.stride()

    for dtypes in mixtures(len(sizes)):
        with torch.random.fork_rng():
            Comparison(backend="eager", dynamic=False, ignore=("warnings",)).assert_same_calls(
                described, call(*operands(dtypes, sizes))
            )


@needs_llvm
@pytest.mark.parametrize("backend", ["aot_eager", "jitpkg"])
@pytest.mark.parametrize("name", CALLS)
def test_gradients(name: str, backend: str) -> None:
    function, sizes = CALLS[name]
    compared = Comparison(
        backend=backend,
        dynamic=False,
        ignore=("warnings", "grad_fn", "version", "view", "storage offset"),
        relative=0.02,
        absolute=0.02,
    )
    each = mixtures(len(sizes))[:: 1 if len(sizes) < 3 else 3]
    for dtypes in portion(each, 8, name, backend):
        with torch.random.fork_rng():
            made = [
                x.requires_grad_(x.is_floating_point() or x.is_complex())
                for x in operands(dtypes, sizes)
            ]
            compared.assert_same_calls(function, call(*made))
