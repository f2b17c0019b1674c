"""Rows of the ops that autograd's formulas call, compared with those ops on real tensors."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from jitpkg.facts.elsewhere import elsewhere
from jitpkg.facts.rows import ROWS, gradients
from jitpkg.facts.rows.common import META, Raises, Unsure
from jitpkg.internals import trees
from jitpkg.internals.ops import op_name
from tests.facts.examples import LAYOUTS


def stand_in(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)


def facts(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    # Of a dim with one element, and of nothing, a stride says nothing.
    idle = value.numel() == 0
    strides = [
        s if n > 1 and not idle else 0 for n, s in zip(value.shape, value.stride(), strict=True)
    ]
    return tuple(value.shape), tuple(strides), value.dtype


class Compared(TorchDispatchMode):
    """Runs each op for real, and asks its row about stand-ins of its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: Counter[str] = Counter()
        self.wrong: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        row = gradients.ROWS.get(op_name(func))
        given = trees.mapped(stand_in, (args, kwargs))
        result = func(*args, **kwargs)
        if row is None:
            return result
        try:
            said = row(func, *map(elsewhere, given))
        except (Unsure, Raises):
            return result
        self.answered[op_name(func).removeprefix("aten::")] += 1
        said, found = trees.mapped(facts, said), trees.mapped(facts, result)
        if list(said) != list(found):
            self.wrong.append(f"{func} of {given}: {said}, really {found}")
        return result


Call = Callable[[torch.Tensor], torch.Tensor]


def images(call: Call) -> Call:
    return lambda x: call(x) if x.dim() == 4 and x.numel() else x.sum()


def weights(*size: int) -> torch.Tensor:
    return torch.ones(size, requires_grad=True)


def _attention(x: torch.Tensor, **named: Any) -> torch.Tensor:
    if x.dim() != 4 or x.numel() == 0:
        return x.sum()
    return F.scaled_dot_product_attention(x, x * 2, x + 1, **named)


def _mask(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape[2], x.shape[2], dtype=x.dtype) if x.dim() == 4 else torch.zeros(())


CALLS: dict[str, Call] = {
    **{
        name: getattr(F, name)
        for name in """
        relu gelu sigmoid tanh silu elu leaky_relu hardtanh hardswish hardsigmoid softplus mish
        relu6 celu selu
        """.split()
    },
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "dropout": lambda x: torch.native_dropout(x, 0.5, True)[0],
    "softmax": lambda x: x.softmax(-1) if x.dim() else x,
    "softmax 0": lambda x: x.softmax(0) if x.dim() else x,
    "log_softmax": lambda x: x.log_softmax(-1) if x.dim() else x,
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]) if x.dim() else x,
    "layer_norm affine": lambda x: (
        F.layer_norm(x, x.shape[1:], weights(*x.shape[1:]), weights(*x.shape[1:]))
        if x.dim() > 1
        else x
    ),
    "group_norm": images(lambda x: F.group_norm(x, 1)),
    "group_norm affine": images(
        lambda x: F.group_norm(x, 1, weights(x.shape[1]), weights(x.shape[1]))
    ),
    "batch_norm": images(
        lambda x: F.batch_norm(
            x, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), weights(x.shape[1]), training=True
        )
    ),
    "batch_norm functional": images(
        lambda x: torch.ops.aten._native_batch_norm_legit_functional(
            x,
            weights(x.shape[1]),
            weights(x.shape[1]),
            torch.zeros(x.shape[1]),
            torch.ones(x.shape[1]),
            True,
            0.1,
            1e-5,
        )[0]
    ),
    "conv2d": images(lambda x: F.conv2d(x, weights(5, x.shape[1], 1, 1), weights(5))),
    "conv2d of its dtype": images(
        lambda x: F.conv2d(x, weights(5, x.shape[1], 1, 1).to(x.dtype), weights(5).to(x.dtype))
    ),
    "conv2d strided": images(
        lambda x: F.conv2d(x, weights(4, x.shape[1], 3, 3), stride=2, padding=1)
    ),
    "conv2d grouped": images(
        lambda x: F.conv2d(x, weights(x.shape[1], 1, 1, 1), None, 1, 0, 1, x.shape[1])
    ),
    "conv_transpose2d": images(lambda x: F.conv_transpose2d(x, weights(x.shape[1], 4, 2, 2))),
    "max_pool2d": images(lambda x: F.max_pool2d(x, min(2, x.shape[-1]))),
    "avg_pool2d": images(lambda x: F.avg_pool2d(x, min(2, x.shape[-1]))),
    "adaptive_avg_pool2d": images(lambda x: F.adaptive_avg_pool2d(x, 2)),
    "of a layout": lambda x: (
        x * torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).zero_() if x.numel() else x
    ),
    "slice": lambda x: x[1:] if x.dim() else x,
    "select": lambda x: x.select(0, 0) if x.dim() and x.shape[0] else x,
    "diagonal": lambda x: x.diagonal() if x.dim() > 1 else x,
    "nll_loss": lambda x: (
        F.nll_loss(x, torch.zeros(len(x), dtype=torch.int64)) if x.dim() == 2 and x.numel() else x
    ),
    "cross_entropy": lambda x: (
        F.cross_entropy(x, torch.zeros(len(x), dtype=torch.int64), reduction="none")
        if x.dim() == 2 and x.numel()
        else x
    ),
    "embedding": lambda x: (
        F.embedding(torch.zeros(2, 3, dtype=torch.int64), x) if x.dim() == 2 and x.numel() else x
    ),
    "attention": _attention,
    "attention with dropout": lambda x: _attention(x, dropout_p=0.5),
    "causal attention": lambda x: _attention(x, is_causal=True),
    "masked attention": lambda x: _attention(x, attn_mask=_mask(x)),
}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.mark.filterwarnings("ignore")
def test_as_the_ops_on_real_tensors() -> None:
    """Backward passes of many functions, of many layouts: of gradients, too."""
    compared = Compared()
    for call, layout, dtype in itertools.product(CALLS.values(), LAYOUTS.values(), DTYPES):
        x = layout().to(dtype).detach().requires_grad_()
        for turned in (False, True):
            with compared:
                try:
                    made = call(x * 1)
                    gradient = torch.ones_like(made)
                    if turned and made.dim() > 1:
                        gradient = gradient.transpose(0, 1).contiguous().transpose(0, 1)
                    made.backward(gradient)
                except (RuntimeError, ValueError):  # the real one raises: nothing to compare
                    continue
    assert not compared.wrong, "\n".join(compared.wrong[:8])
    names = {name.removeprefix("aten::") for name in gradients.ROWS}
    assert names - set(compared.answered) == set()
    assert set(gradients.ROWS) <= set(ROWS)
