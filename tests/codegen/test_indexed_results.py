"""What a graph returns by an index of tensors, lists and slices, of tensors of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg

INDICES: dict[str, Callable[[Tensor], Any]] = {
    "a list behind a slice": lambda x: x[:, [0]],
    "a list before one": lambda x: x[[0], :],
    "behind an ellipsis": lambda x: x[..., [0, 1]],
    "a tensor": lambda x: x[torch.tensor([0, 1])],
    "tensors apart": lambda x: x[[0, 1], :, torch.tensor([1, 0])],
    "a new dim": lambda x: x[:, [0], None],
    "a step": lambda x: x[::2, [1]],
    "an int": lambda x: x[:, 1],
}
OPERANDS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda x: x,
    "expanded": lambda x: x.expand(2, 2, 3, 2)[0],
    "of one element": lambda x: x.sum().expand(2, 3, 2),
    "without elements": lambda x: x[:0].expand(0, 3, 2),
    "turned": lambda x: x.transpose(0, 2),
    "computed": lambda x: x * 2,
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("operand", OPERANDS)
def test_as_eager_code(operand: str, index: str, grad: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        found = INDICES[index](OPERANDS[operand](x))
        return found, found + 1

    def outcome(function: Callable[[Tensor], tuple[Tensor, ...]]) -> list[Any]:
        x = torch.arange(12.0).view(2, 3, 2).requires_grad_(grad)
        try:
            first, second = function(x)
        except IndexError:
            return ["IndexError"]
        if grad:
            (first.sum() + second.sum()).backward()
        shared = first.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        return [first.tolist(), first.stride(), second.tolist(), shared, x.grad]

    compiled = jitpkg.compile(function, backend="jitpkg")
    for _ in range(2):
        *found, gradient = outcome(compiled)
        *wanted, expected = outcome(function)
        assert found == wanted
        assert gradient is expected or torch.equal(gradient, expected)
