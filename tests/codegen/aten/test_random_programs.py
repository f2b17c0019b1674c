"""Random programs with views, writes and results that share memory, against eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jitpkg.testing.strategies import aliasing_tensors, dtypes
from tests.codegen.aten.support import OpByOp
from tests.codegen.examples import examples

Op = Callable[[Tensor, Tensor], Tensor]


def to_each_part(a: Tensor, b: Tensor) -> Tensor:
    parts = a.split(2, 0) if a.dim() else (a,)
    for k, part in enumerate(parts):
        part.add_(k)
    return parts[-1]


def set_item(a: Tensor, b: Tensor) -> Tensor:
    a[..., :1] = b.sum()
    return a


OPS: dict[str, Op] = {
    "add": lambda a, b: a + b.sum(),
    "less": lambda a, b: a.sub(b.amax()) if b.numel() else a + 1,
    "relu": lambda a, b: a.relu(),
    "double": lambda a, b: a.double() * 0.5,
    "to itself": lambda a, b: a.to(a.dtype).contiguous(),
    "sum": lambda a, b: a.sum(-1) if a.dim() else a.sum(),
    "softmax": lambda a, b: a.float().softmax(0),
    "mean": lambda a, b: a.float().mean(),
    "more": lambda a, b: (a > 0).to(a.dtype),
    "flat": lambda a, b: a.reshape(-1),
    "first": lambda a, b: a[:1] if a.dim() else a,
    "item": lambda a, b: a[0] if a.dim() and a.shape[0] else a,
    "steps": lambda a, b: a[..., ::2] if a.dim() else a,
    "transposed": lambda a, b: a.transpose(0, -1) if a.dim() else a.unsqueeze(0),
    "squeezed": lambda a, b: a.squeeze(),
    "part": lambda a, b: a.chunk(2, -1)[0] if a.dim() else a,
    "diagonal": lambda a, b: a.diagonal() if a.dim() == 2 else a,
    "expanded": lambda a, b: a.unsqueeze(0).expand(2, *a.shape),
    "detached": lambda a, b: a.detach(),
    "cloned": lambda a, b: a.clone(),
    "ones": lambda a, b: torch.ones_like(a),
    "stacked": lambda a, b: torch.stack([a, a]),
    "add_": lambda a, b: a.add_(1.5) if a.is_floating_point() else a.add_(2),
    "relu_": lambda a, b: a.relu_(),
    "sub_": lambda a, b: a.sub_(a.clone() * 2),
    "zero_": lambda a, b: a.zero_(),
    "copy_": lambda a, b: a.copy_(b.sum()),
    "set": set_item,
    "parts_": to_each_part,
    "fill_": lambda a, b: a.masked_fill_(a > 1, 2.0) if a.is_floating_point() else a,
    "dropout": lambda a, b: torch.nn.functional.dropout(a.float(), 0.4),
    "drawn": lambda a, b: a + torch.rand(3).sum().to(a.dtype),
    "drawn in vain": lambda a, b: (torch.rand(2), a)[1],
}


@dataclass(frozen=True)
class Step:
    """An op on values that are there already, by their number."""

    op: str
    a: int
    b: int


@dataclass(frozen=True)
class Program:
    """A function of tensors: some steps, and which values it returns."""

    steps: tuple[Step, ...]
    returned: tuple[int, ...]

    def __str__(self) -> str:
        return f"{[(s.op, s.a, s.b) for s in self.steps]} -> {self.returned}"

    def function(self) -> Callable[..., list[Tensor]]:
        steps, returned, ops = self.steps, self.returned, OPS

        def program(*inputs: Tensor) -> list[Tensor]:
            values = list(inputs)
            for step in steps:
                a, b = values[step.a % len(values)], values[step.b % len(values)]
                values.append(ops[step.op](a, b))
            return [values[-1 - k % len(values)] for k in returned]

        return program


numbers = st.integers(0, 7)
programs = st.builds(
    Program,
    st.lists(
        st.builds(Step, st.sampled_from(sorted(OPS)), numbers, numbers), min_size=1, max_size=8
    ).map(tuple),
    st.lists(numbers, min_size=1, max_size=4).map(tuple),
)


@examples(100)
@given(
    programs,
    aliasing_tensors(
        min_size=1, max_size=3, dtype=dtypes([torch.float32, torch.float64, torch.int64])
    ),
)
def test_programs(program: Program, inputs: list[Tensor]) -> None:
    inputs = [x.detach() for x in inputs]
    OpByOp().assert_same(program.function(), *inputs)
