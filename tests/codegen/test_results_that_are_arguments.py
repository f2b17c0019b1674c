"""Ops that may return their argument itself: what is written to one is written to both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jitpkg.testing import Comparison

SAME: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x, training=False),
    "dropout of nothing": lambda x: F.dropout(x, 0.0),
    "torch.dropout": lambda x: torch.dropout(x, 0.5, False),
    "nn.Dropout": lambda x: nn.Dropout().eval()(x),
    "alpha_dropout": lambda x: F.alpha_dropout(x, training=False),
    "feature_dropout": lambda x: torch.feature_dropout(x, 0.5, False),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, training=False),
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(torch.float32),
    "type_as": lambda x: x.type_as(x),
    "float": lambda x: x.float(),
    "cpu": lambda x: x.cpu(),
    "real": lambda x: x.real,
    "conj": lambda x: x.conj(),
    "resolve_conj": lambda x: x.resolve_conj(),
    "positive": lambda x: torch.positive(x),
    "atleast_1d": lambda x: torch.atleast_1d(x),
    "identity": lambda x: nn.Identity()(x),
    "pad": lambda x: F.pad(x, (0, 0)),
    "as_tensor": lambda x: torch.as_tensor(x),
    "sum of sizes": lambda x: x.sum_to_size(x.shape),
    "threshold": lambda x: F.threshold(x, -9.0, 0.0, inplace=True),
}
WRITES: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "argument": lambda x, y, w: (x.mul_(2), (y * w).sum()),
    "result": lambda x, y, w: (y.mul_(2), (x * w).sum()),
    "argument by result": lambda x, y, w: (x.mul_(y), (x * w).sum()),
    "result by argument": lambda x, y, w: (y.add_(x), (x * w + y).sum()),
    "a part": lambda x, y, w: (y[1:].zero_(), (x * w).sum()),
    "both": lambda x, y, w: (x.add_(1), y.mul_(3), (x * y * w).sum()),
}


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize(
    ("same", "write"),
    [*(("dropout", write) for write in WRITES), *((same, "both") for same in SAME)],
)
def test_writes_reach_both(same: str, write: str, backend: str) -> None:
    def of_input(x: Tensor, w: Tensor) -> Any:
        return WRITES[write](x, SAME[same](x), w)[-1]

    def of_what_was_computed(x: Tensor, w: Tensor) -> Any:
        x = x * 1
        return WRITES[write](x, SAME[same](x), w)[-1], x

    def under_no_grad(x: Tensor, w: Tensor) -> Any:
        p = nn.Parameter(torch.ones(3))
        with torch.no_grad():
            p -= WRITES[write](x, SAME[same](x), w)[-1]
        return p

    ignored = ("grad_fn", "traceback", "version", "view")
    comparison = Comparison(backend=backend, ignore=ignored, settings={"never_worse": False})
    for program in (of_input, of_what_was_computed, under_no_grad):
        for needs_grad in (False, True):
            w = torch.tensor([2.0, 3.0, 5.0], requires_grad=needs_grad)
            comparison.assert_same(program, torch.tensor([1.0, 2.0, -3.0]), w)
