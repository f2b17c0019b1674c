"""PyTorch's own sample inputs: each ATen call that they make, forward and backward, is lowered and
compared with what ATen returns, by the reference interpreter. The printer's kernels, and what else
is between a program and its kernels, run the same samples in `tests/opinfo`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from jitpkg.codegen.lowering.calls import row_of
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.errors import InternalError
from tests.codegen.lowering.oracle import compare
from tests.opinfo.samples import Call, backward, database, differentiable, samples

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
SAMPLES = 3
PARTS = 8
LARGEST = 20_000

ROUNDED_IN_BETWEEN = frozenset(
    f"aten.{name}"
    for name in (
        "native_layer_norm_backward.default",  # of one element: 0 against a difference of sums
        "upsample_trilinear3d.default",
        "empty_like.default",
        "empty.memory_format",
        "new_empty.default",
        "new_empty_strided.default",
        "empty_strided.default",
    )
)
"""Known to differ by more than the tolerance, or to hold anything."""


class Calls(TorchDispatchMode):
    """Compares calls while a program makes them. Calls like earlier ones are let pass."""

    def __init__(self, seen: set[str]) -> None:
        super().__init__()
        self.seen = seen
        self.compared = 0
        self.wrong: list[str] = []

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        key = f"{func}{tree_map(_shown, (args, kwargs))}"
        leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        small = all(x.numel() <= LARGEST for x in leaves)
        if key not in self.seen and small and row_of(func) and str(func) not in ROUNDED_IN_BETWEEN:
            self.seen.add(key)
            with _disable_current_modes(), torch.no_grad():
                self._compare(func, key, *tree_map(_detached, (args, kwargs)))
        return func(*args, **kwargs)

    def _compare(self, func: OpOverload, key: str, args: Any, kwargs: Any) -> None:
        try:
            compare(func, *args, **kwargs)
            self.compared += 1
        except NotLowered:
            pass
        except (AssertionError, InternalError, IndexError) as error:
            if not isinstance(error, IndexError) or _returns(func, args, kwargs):
                self.wrong.append(f"{key[:300]}: {str(error)[-300:]}")


def _shown(x: Any) -> Any:
    return (tuple(x.shape), x.stride(), x.dtype) if isinstance(x, torch.Tensor) else x


def _detached(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, torch.Tensor) else x


def _returns(func: OpOverload, args: Any, kwargs: Any) -> bool:
    try:
        func(*args, **kwargs)
    except (RuntimeError, IndexError):
        return False
    return True


def runs(op: Any) -> Iterator[tuple[Call, bool]]:
    """Samples, and whether to go backward too."""
    for dtype in DTYPES:
        if dtype in op.supported_dtypes("cpu"):
            yield from ((s, False) for s in islice(samples(op, dtype, grad=False), SAMPLES))
        if differentiable(op, dtype):
            yield from ((s, True) for s in islice(samples(op, dtype, grad=True), SAMPLES))


def run(op: Any, call: Call, grad: bool) -> None:
    args, kwargs = call
    made = op(*args, **kwargs)
    if grad:
        backward(made, call)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_all_samples(part: int) -> None:
    seen: set[str] = set()
    wrong: list[str] = []
    compared = 0
    for op in database()[part::PARTS]:
        for call, grad in runs(op):
            with warnings.catch_warnings(), Calls(seen) as calls:
                warnings.simplefilter("ignore")
                try:
                    run(op, call, grad)
                except Exception:
                    continue  # ATen does not take it, or not on a CPU
                finally:
                    wrong += calls.wrong
                    compared += calls.compared
    assert compared > 200
    assert not wrong, "\n".join(wrong[:20])
