"""Random graphs with views, writes and results that share memory, through AOTAutograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from torch import Tensor

from jitpkg.testing import Comparison, call
from jitpkg.testing.strategies import aliasing_tensors, dtypes, shapes, tensors
from tests.codegen.examples import examples
from tests.portions import share

Op = Callable[[Tensor, Tensor], Tensor]

OPS: dict[str, Op] = {
    "add": lambda a, b: a + b.sum(),
    "mul": lambda a, b: a * b.mean(),
    "sin": lambda a, b: a.sin(),
    "exp": lambda a, b: a.exp().clamp(max=9),
    "sum": lambda a, b: a.sum(),
    "flat": lambda a, b: a.reshape(-1),
    "first": lambda a, b: a[:1] if a.dim() else a,
    "transposed": lambda a, b: a.transpose(0, -1) if a.dim() else a.unsqueeze(0),
    "expanded": lambda a, b: a.unsqueeze(0).expand(2, *a.shape),
    "detached": lambda a, b: a.detach(),
    "cloned": lambda a, b: a.clone(),
    "add_": lambda a, b: a.add_(1.5),
    "mul_": lambda a, b: a.mul_(2),
    "zero_": lambda a, b: a.zero_(),
    "sigmoid_": lambda a, b: a.sigmoid_(),
    "scaled_": lambda a, b: a.mul_(b.mean()),
    "squared": lambda a, b: a * a,
    "one of several": lambda a, b: a.unbind()[0] if a.dim() and len(a) else a,
    "a part": lambda a, b: a.split(1)[-1] if a.dim() else a,
    "copy_": lambda a, b: a.copy_(b.sum()),
    "dropout": lambda a, b: torch.nn.functional.dropout(torch.cat([a.reshape(-1), b.new_ones(1)])),
    "like": lambda a, b: a + torch.rand_like(b).sum(),
}


@dataclass(frozen=True)
class Step:
    """An op on values that are there already, by their number."""

    op: str
    a: int
    b: int
    no_grad: bool


@dataclass(frozen=True)
class Chain:
    """A function of tensors: some steps, and which values it returns."""

    steps: tuple[Step, ...]
    returned: tuple[int, ...]

    def __str__(self) -> str:
        return f"{[(s.op, s.a, s.b, s.no_grad) for s in self.steps]} -> {self.returned}"

    def function(self) -> Callable[..., list[Tensor]]:
        steps, returned, ops = self.steps, self.returned, OPS

        def chain(*inputs: Tensor) -> list[Tensor]:
            values = list(inputs)
            for step in steps:
                a, b = values[step.a % len(values)], values[step.b % len(values)]
                with torch.set_grad_enabled(not step.no_grad):
                    values.append(ops[step.op](a, b))
            return [values[-1 - k % len(values)] for k in returned]

        return chain


numbers = st.integers(0, 7)
chains = st.builds(
    Chain,
    st.lists(
        st.builds(
            Step,
            st.sampled_from(sorted(OPS)),
            numbers,
            numbers,
            st.sampled_from([False] * 3 + [True]),
        ),
        min_size=1,
        max_size=6,
    ).map(tuple),
    st.lists(numbers, min_size=1, max_size=3).map(tuple),
)

HOW = ("version", "grad_fn", "view", "traceback", "idle strides")
"""What only says how a result was computed."""


@examples(share(60, 2))
@given(
    chains,
    aliasing_tensors(min_size=1, max_size=3, dtype=dtypes([torch.float32, torch.float64])),
)
def test_chains(chain: Chain, inputs: list[Tensor]) -> None:
    Comparison(backend="aot_eager", relative=1e-4, absolute=1e-5, ignore=HOW).assert_same(
        chain.function(), *inputs
    )


@st.composite
def inputs_of_sizes(draw: DrawFn) -> list[list[Tensor]]:
    """The inputs of four calls, which differ in their sizes and layouts."""
    ranks = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    needs = [draw(st.booleans()) for _ in ranks]
    return [
        [
            draw(
                tensors(
                    dtype=torch.float64,
                    shape=shapes(min_dims=rank, max_dims=rank, min_size=0 if k == 3 else 2),
                    requires_grad=needed,
                )
            )
            for rank, needed in zip(ranks, needs, strict=True)
        ]
        for k in range(4)
    ]


@examples(12)
@given(chains, inputs_of_sizes(), st.booleans())
def test_chains_of_sizes_that_vary(chain: Chain, inputs: list[list[Tensor]], dynamic: bool) -> None:
    same = Comparison(
        backend="aot_eager", relative=1e-4, absolute=1e-5, ignore=HOW, dynamic=dynamic or None
    )
    same.assert_same_calls(chain.function(), *(call(*given) for given in inputs))
