"""`flex_attention` and its masks are part of the graph, and give what torch gives."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing import Comparison
from jitpkg.testing.programs.modes import HOW_COMPUTED
from tests.portions import runs

flex = pytest.importorskip("torch.nn.attention.flex_attention")
flex_attention, create_block_mask = flex.flex_attention, flex.create_block_mask

Program = Callable[..., Any]
BIAS = torch.linspace(-1, 1, 4)
TABLE = torch.linspace(-1, 1, 4 * 20 * 20).reshape(4, 20, 20)
DOCUMENTS = torch.tensor([0] * 5 + [1] * 7 + [2] * 8)
LENGTHS = torch.tensor([3, 20])


@pytest.fixture(autouse=True)
def _quietly() -> Iterator[None]:
    """Eager code warns that it is slow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def given(
    heads: int = 4, of_keys: int = 4, length: int = 20, of_key: int = 20, **kwargs: Any
) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    sizes = ((2, heads, length, 8), (2, of_keys, of_key, 8), (2, of_keys, of_key, 8))
    return tuple(torch.randn(size, **kwargs) for size in sizes)


# What changes scores, and masks


def alibi(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + BIAS[h] * (k - q)


def table(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + TABLE[h, q, k]


def soft_cap(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return torch.tanh(score / 2) * 2


def causal_score(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return torch.where(q >= k, score, -float("inf"))


def first_of_bias(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score * BIAS[0] + BIAS[1]


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def window(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q >= k) & (q - k <= 3)


def documents(b: Any, h: Any, q: Any, k: Any) -> Any:
    return DOCUMENTS[q] == DOCUMENTS[k]


def padded(b: Any, h: Any, q: Any, k: Any) -> Any:
    return k < LENGTHS[b]


def nothing(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q + 100 < k


SCORES = (None, alibi, table, soft_cap, causal_score, first_of_bias)
MASKS = (None, causal, window, documents, padded, nothing)

WAYS: dict[str, dict[str, Any]] = {
    "eager": {"relative": 1e-6, "absolute": 1e-6, "ignore": HOW_COMPUTED},
    "jitpkg": {"backend": "jitpkg", "relative": 1e-5, "absolute": 1e-6, "ignore": HOW_COMPUTED},
}


def mask_of(mask_mod: Any, length: int = 20, of_key: int = 20) -> Any:
    if mask_mod is None:
        return None
    return create_block_mask(mask_mod, 2, 4, length, of_key, device="cpu", BLOCK_SIZE=16)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mask_mod", MASKS, ids=lambda f: getattr(f, "__name__", "none"))
@pytest.mark.parametrize("score_mod", SCORES, ids=lambda f: getattr(f, "__name__", "none"))
def test_scores_and_masks(score_mod: Any, mask_mod: Any, way: str) -> None:
    if not runs(2, *(getattr(f, "__name__", None) for f in (score_mod, mask_mod)), way):
        pytest.skip("one in two of these")
    block_mask = mask_of(mask_mod)

    def program(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=score_mod, block_mask=block_mask) + 1

    Comparison(**WAYS[way], calls=1).assert_same(program, *given())
    jitpkg.compile(program, backend="eager", fullgraph=True)(*given())


def grouped(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k[:, :2], v[:, :2], score_mod=alibi, enable_gqa=True)


def scaled(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, scale=0.3, score_mod=soft_cap)


def turned(q: Any, k: Any, v: Any) -> Any:
    """The layout that a projection leaves."""
    made = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    return flex_attention(*made)


def innermost_last(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q.transpose(2, 3).contiguous().transpose(2, 3), k, v)


def with_sums(q: Any, k: Any, v: Any) -> Any:
    out, aux = flex_attention(q, k, v, return_aux=flex.AuxRequest(lse=True))
    return out, aux.lse, aux.max_scores


def options(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, kernel_options={"BLOCK_M": 16})


def mask_inside(q: Any, k: Any, v: Any) -> Any:
    mask = create_block_mask(documents, None, None, 20, 20, device="cpu", BLOCK_SIZE=16)
    return flex_attention(q, k, v, block_mask=mask), mask.kv_indices, mask.kv_num_blocks


def dense_mask(q: Any, k: Any, v: Any) -> Any:
    return flex.create_mask(padded, 2, None, 20, 20, device="cpu"), q + k + v


def closure(q: Any, k: Any, v: Any) -> Any:
    bias = q.mean(dim=(0, 2, 3))

    def biased(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + bias[h] * v[b, h, j, 0]

    return flex_attention(q, k, v, score_mod=biased)


PROGRAMS: tuple[Program, ...] = (
    *(grouped, scaled, turned, innermost_last, with_sums, options, mask_inside, dense_mask),
    closure,
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Program, way: str) -> None:
    if program is with_sums and not hasattr(flex, "AuxRequest"):
        pytest.skip("this PyTorch has no such argument")
    Comparison(**WAYS[way], calls=1).assert_same(program, *given())
    jitpkg.compile(program, backend="eager", fullgraph=True)(*given())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(dtype: torch.dtype) -> None:
    def program(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=causal_score)

    near = 1e-12 if dtype is torch.float64 else 1e-2
    way = {"backend": "jitpkg", "relative": near, "absolute": near, "ignore": HOW_COMPUTED}
    Comparison(**way, calls=1).assert_same(program, *given(dtype=dtype))


def test_sizes_that_vary() -> None:
    def program(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=alibi)

    compiled = jitpkg.compile(program, backend="eager", dynamic=True, fullgraph=True)
    for length in (20, 12, 7):
        q, k, v = given(length=length, of_key=length)
        torch.testing.assert_close(compiled(q, k, v), program(q, k, v))


# What raises in eager code, or is left to it


def other_heads(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k[:, :2], v[:, :2])


def other_sizes(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k[..., :4], v)


def other_lengths(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, block_mask=mask_of(causal, 16, 16))


def three_dims(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q[0], k[0], v[0])


@pytest.mark.parametrize(
    "program",
    [other_heads, other_sizes, other_lengths, three_dims],
    ids=lambda program: program.__name__,
)
def test_what_raises(program: Program) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011
        program(*given())
    with pytest.raises(type(expected.value)) as found:
        jitpkg.compile(program, backend="eager")(*given())
    assert str(found.value).splitlines()[:1] == str(expected.value).splitlines()[:1]


def test_an_exception_inside() -> None:
    """Torch's compiler runs the function that raises, and may wrap the exception."""

    def program(q: Any, k: Any, v: Any) -> Any:
        def score_mod(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            raise KeyError("score")

        return flex_attention(q, k, v, score_mod=score_mod)

    for each in (program, jitpkg.compile(program, backend="eager")):
        with pytest.raises(Exception, match="score"):
            each(*given())


def test_gradients_on_a_cpu_raise() -> None:
    def program(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v)

    q, k, v = given()
    with pytest.raises(NotImplementedError, match="backward"):
        jitpkg.compile(program)(q.requires_grad_(), k, v)


def test_torch_compiler_is_not_imported() -> None:
    text = """
import sys, torch, jitpkg
from torch.nn.attention.flex_attention import flex_attention
bias = torch.ones(4)
def score_mod(score, b, h, q, k): return score + bias[h] * (k - q)
def program(q, k, v): return flex_attention(q, k, v, score_mod=score_mod)
jitpkg.compile(program, fullgraph=True)(*torch.randn(3, 2, 4, 8, 8).unbind())
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", text], check=True)
