"""The counter-based stream: known answers, and what is made of its words."""

import pytest
import torch

from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Const
from jitpkg.codegen.lowering import philox
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.table import Lowering

ONES = 0xFFFFFFFF

KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Counter, key and words, of the authors' library Random123."""


def number(x: Expr) -> bool | int | float:
    assert isinstance(x.node, Const)
    return x.node.value


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    k = Lowering(Builder())
    a, b, c, d = map(k.index, counter)
    one, two = map(k.index, key)
    assert tuple(map(number, philox.philox((a, b, c, d), (one, two)))) == words


def word(k: Lowering, value: int) -> philox.Words:
    return (k.index(value),) * 4  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(torch.float64, 53), (torch.float32, 24), (torch.float16, 11), (torch.bfloat16, 8)],
)
def test_uniform_numbers_lie_from_0_to_below_1(dtype: torch.dtype, bits: int) -> None:
    k = Lowering(Builder())
    least, most = (number(philox.uniform(word(k, w), dtype).cast(dtype)) for w in (0, ONES))
    assert (least, most) == (0, 1 - 2.0**-bits)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("value", [0, 1, 1 << 31, ONES])
def test_all_words_give_finite_numbers(dtype: torch.dtype, value: int) -> None:
    k = Lowering(Builder())
    normal = torch.tensor(number(philox.normal(word(k, value), dtype)))
    exponential = torch.tensor(number(philox.exponential(word(k, value), dtype)))
    assert normal.abs() < 10
    assert 0 < exponential < 40


def test_chances() -> None:
    k = Lowering(Builder())
    for chance in (0.0, 0.25, 1.0):
        for w in (0, (1 << 30) - 1, 1 << 30, ONES):
            assert number(philox.happens(word(k, w), chance)) is (w < chance * 2**32)
