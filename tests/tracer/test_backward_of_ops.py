"""Which arguments of an op get a gradient is known before the graph runs: by the op database."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree

import jitpkg
from jitpkg.tracer import differentiation
from tests.portions import portion

DIFFERENTIABLE = [
    op
    for op in op_db
    if op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
]
SAMPLES = 3


def leaves_of(given: Any) -> list[Tensor]:
    return [x for x in _pytree.tree_leaves(given) if isinstance(x, Tensor) and x.requires_grad]


def copied(given: Any) -> Any:
    def copy(x: Any) -> Any:
        trained = isinstance(x, Tensor) and x.requires_grad
        return x.detach().clone().requires_grad_() if trained else x

    return _pytree.tree_map(copy, given)


@pytest.mark.parametrize("op", portion(DIFFERENTIABLE, 12), ids=lambda op: op.formatted_name)
def test_as_autograd_has_it(op: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = differentiation.gradients

    def gradients(roots: Any, tangents: Any, leaves: Any, keep: bool) -> Any:
        asked.append(len(leaves))
        return real(roots, tangents, leaves, keep)

    monkeypatch.setattr(differentiation, "gradients", gradients)

    def program(args: Any, kwargs: Any) -> None:
        found = op.op(*args, **kwargs)
        total: Any = 0
        for each in found if isinstance(found, tuple | list) else (found,):
            if isinstance(each, Tensor) and each.requires_grad:
                total = total + (each.abs() if each.is_complex() else each).sum()
        total.backward()

    for sample in islice(op.sample_inputs("cpu", torch.float32, requires_grad=True), SAMPLES):
        given = copied(((sample.input, *sample.args), sample.kwargs))
        try:
            program(*given)
        except Exception:
            continue
        reached = [x.grad is not None for x in leaves_of(given)]
        again = copied(given)
        asked.clear()
        jitpkg.compile(program, backend="eager")(*again)
        assert [x.grad is not None for x in leaves_of(again)] == reached
        assert asked in ([], [sum(reached)])
