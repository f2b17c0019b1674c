"""Products of one row, by one column, or along one element, which kernels compute, in all layouts,
and with what kernels compute before and after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.nn import functional as F

import jitpkg
from tests.codegen.examples import examples
from tests.codegen.test_own import compiled_count

BATCH = 3

FORMS: dict[str, Callable[..., Tensor]] = {
    # of a matrix, one by which it is multiplied, and a row to add
    "mm": lambda a, b, c: torch.mm(a, b),
    "matmul": lambda a, b, c: a @ b + c,
    "linear": lambda a, b, c: F.linear(a, b.t()),
    "linear with a bias": lambda a, b, c: F.linear(a[None, :, None], b.t(), c)[0, :, 0],
    "addmm": lambda a, b, c: torch.addmm(c, a, b),
    "addmm of a matrix": lambda a, b, c: torch.addmm(c.expand(len(a), -1), a, b),
    "bmm": lambda a, b, c: torch.bmm(a.expand(BATCH, -1, -1), b.expand(BATCH, -1, -1)),
    "baddbmm": lambda a, b, c: torch.baddbmm(c, torch.stack([a, -a]), torch.stack([b, b])),
    "matmul of four dims": lambda a, b, c: torch.stack([a, -a])[None] @ torch.stack([b, b]),
    "mv": lambda a, b, c: torch.mv(a, b[:, 0]),
    "a row by a matrix": lambda a, b, c: a[0] @ b + c,
    "dot": lambda a, b, c: torch.dot(a[0], b[:, 0]),
    "einsum": lambda a, b, c: torch.einsum("ij,jk->ki", a, b),
}
BEFORE: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda x: x,
    "gelu": F.gelu,
    "norm": lambda x: F.rms_norm(x, x.shape[-1:]),
}
AFTER: dict[str, Callable[[Tensor], Any]] = {
    "nothing": lambda x: x,
    "silu": lambda x: F.silu(x) * x,
    "softmax": lambda x: (x, x.softmax(-1)),
    "norm": lambda x: x / (x.square().sum() + 1),
    "kept": lambda x: (x, x.exp().mean(), x + 1),
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "in order": lambda x: x,
    "turned": lambda x: x.t().contiguous().t(),
    "with gaps": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "expanded": lambda x: x[:1].expand_as(x),
}
LENGTHS = (1, 2, 3, 7, 16, 33, 64, 130, 257, 1030)
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (2e-5, 2e-5),
    torch.bfloat16: (3e-2, 6e-2),
    torch.float16: (4e-3, 8e-3),
}


@examples(60)
@given(st.data())
def test_they_are_as_in_eager_code(data: st.DataObject) -> None:
    draw = data.draw
    lengths = [draw(st.sampled_from(LENGTHS)) for _ in range(3)]
    lengths[draw(st.integers(0, 2))] = 1
    rows, inner, columns = lengths
    form, before, after = (
        table[draw(st.sampled_from(sorted(table)))] for table in (FORMS, BEFORE, AFTER)
    )
    dtype = draw(st.sampled_from(sorted(TOLERANCE, key=str)))
    trains = draw(st.booleans())
    torch.manual_seed(draw(st.integers(0, 99)))
    sizes = ((rows, inner), (inner, columns), (1, columns))
    inputs = []
    for k, size in enumerate(sizes):
        made = torch.randn(size) / (inner**0.5 if k == 1 else 1)
        made = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](made.to(dtype))
        inputs.append(made[0] if k == 2 else made)

    def function(a: Tensor, b: Tensor, c: Tensor) -> Any:
        return after(form(before(a), b, c))

    got = _run(jitpkg.compile(function, backend="jitpkg", fullgraph=True), inputs, trains)
    relative, absolute = TOLERANCE[dtype]
    torch.testing.assert_close(got, _run(function, inputs, trains), rtol=relative, atol=absolute)


def _run(function: Callable[..., Any], inputs: list[Tensor], trains: bool) -> list[Any]:
    """Results, and gradients where it is trained."""
    given = [x.detach().requires_grad_(trains) for x in inputs]
    made = function(*given)
    results = list(made) if isinstance(made, tuple) else [made]
    if not trains:
        return results
    total = sum((each * (k + 1)).float().mean() for k, each in enumerate(results))
    gradients = torch.autograd.grad(total, given, allow_unused=True)
    return [*(each.detach() for each in results), *gradients]


@pytest.mark.parametrize("form", sorted(FORMS.keys() - {"matmul of four dims", "einsum"}))
@pytest.mark.parametrize("sizes", [(1, 40, 50), (30, 40, 1), (30, 1, 50)], ids=str)
def test_they_become_kernels(form: str, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    given = [torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(columns)]
    kernels, calls = compiled_count(FORMS[form], given)
    assert kernels
    assert not calls


def test_others_are_the_library_s() -> None:
    given = [torch.randn(2, 40), torch.randn(40, 2), torch.randn(2)]
    assert compiled_count(FORMS["mm"], given) == (0, 1)
