"""What FakeTensor gets wrong, against the real ops."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg.facts.corrected import corrected_mode
from jitpkg.facts.fake import fakes
from jitpkg.internals import fake_tensors
from jitpkg.testing import Comparison

aten = torch.ops.aten
NARROW = (torch.bfloat16, torch.float16)
P = Tensor | None


def wanted(w: P, b: P) -> list[bool]:
    return [True, w is not None, b is not None]


def layer_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    return aten.native_layer_norm(x, [2], w, b, 1e-5)


def layer_norm_backward(x: Tensor, w: P, b: P, s: P) -> Any:
    _, mean, scale = layer_norm(x, w, b, s)
    return aten.native_layer_norm_backward(x, x, [2], mean, scale, w, b, wanted(w, b))


def group_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    return aten.native_group_norm(x, w, b, 3, 2, 1, 2, 1e-5)


def group_norm_backward(x: Tensor, w: P, b: P, s: P) -> Any:
    _, mean, scale = group_norm(x, w, b, s)
    return aten.native_group_norm_backward(x, x, mean, scale, w, 3, 2, 1, 2, wanted(w, w))


def batch_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    return aten.native_batch_norm(x, w, b, s, s, True, 0.1, 1e-5)


def batch_norm_of_a_batch(x: Tensor, w: P, b: P, s: P) -> Any:
    return aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)


def functional_batch_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    s = torch.ones(2, dtype=x.dtype if w is None else w.dtype) if s is None else s
    return aten._native_batch_norm_legit_functional(x, w, b, s, s, True, 0.1, 1e-5)


def updating_batch_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    if w is None or b is None or s is None:
        raise RuntimeError("the process may die")
    return aten._batch_norm_with_update_functional(x, w, b, s, s, 0.1, 1e-5)


def batch_norm_backward(x: Tensor, w: P, b: P, s: P) -> Any:
    _, mean, scale = batch_norm(x, w, b, s)
    return aten.native_batch_norm_backward(x, x, w, s, s, mean, scale, True, 1e-5, wanted(w, b))


def evaluated(x: Tensor, w: P, b: P, s: P) -> Any:
    s = torch.ones(2, dtype=x.dtype if w is None else w.dtype) if s is None else s
    return aten._native_batch_norm_legit_no_training(x, w, b, s, s, 0.1, 1e-5)


@pytest.mark.parametrize(
    "call",
    [
        layer_norm,
        layer_norm_backward,
        group_norm,
        group_norm_backward,
        batch_norm,
        batch_norm_of_a_batch,
        functional_batch_norm,
        updating_batch_norm,
        batch_norm_backward,
        evaluated,
    ],
)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("given", ["", "w", "b", "s", "wb", "ws", "wbs"])
@pytest.mark.parametrize("wide", [False, True])
def test_statistics_of_norms(
    call: Callable[..., Any], dtype: torch.dtype, given: str, wide: bool
) -> None:
    parameter = torch.ones(2, dtype=torch.float32 if wide else dtype)
    x = torch.randn(3, 2).to(dtype)
    tensors = [parameter.clone() if name in given else None for name in "wbs"]
    try:
        real = call(x, *tensors)
    except RuntimeError:
        return  # nothing to be right about
    with corrected_mode() as mode:
        fake = call(
            mode.from_tensor(x), *(t if t is None else mode.from_tensor(t) for t in tensors)
        )
    assert [t.dtype for t in fake if t is not None] == [t.dtype for t in real if t is not None]


def described(make: Callable[..., Any], *given: Tensor) -> Any:
    """What FakeTensor says of a call, put right."""
    without_data = fakes(given)
    with without_data.mode:
        return make(*without_data.values)


def shapes(made: Any) -> Any:
    every = made if isinstance(made, tuple) else (made,)
    return [(x.dtype, tuple(x.shape), x.stride()) for x in every]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *NARROW])
@pytest.mark.parametrize("op", ["_embedding_bag", "_embedding_bag_forward_only"])
def test_bags(dtype: torch.dtype, op: str) -> None:
    at, begins = torch.arange(8), torch.tensor([0, 3, 5])
    for mode, scaled, padding, across in product((0, 1, 2), (0, 1, 2), (-1, 1), (False, True)):
        weight = torch.ones(5, 10, dtype=dtype).t() if across else torch.ones(10, 5, dtype=dtype)
        scale = torch.ones(16, dtype=dtype)[::scaled][:8] if scaled and not mode else None

        def make(weight: Tensor, *rest: Tensor, mode: int = mode, padding: int = padding) -> Any:
            at, begins, scale = (*rest, None)[:3]
            return getattr(aten, op)(weight, at, begins, False, mode, False, scale, False, padding)

        given = [x for x in (weight, at, begins, scale) if x is not None]
        assert shapes(described(make, *given)) == shapes(make(*given))


def in_place_ops(arguments: int) -> list[str]:
    """In-place ops of so many tensors, and nothing else that has to be given."""
    found = []
    for name in sorted(dir(Tensor)):
        packet = getattr(aten, name, None)
        if not name.endswith("_") or name.startswith("_") or packet is None:
            continue
        schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
        if any(is_in_place(schema.arguments, arguments) for schema in schemas):
            found.append(name)
    return found


def is_in_place(given: Any, count: int) -> bool:
    types = [str(argument.type) for argument in given if not argument.has_default_value()]
    return types == ["Tensor"] * count and given[0].is_write


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bool])
@pytest.mark.parametrize("name", [*in_place_ops(1), *in_place_ops(2)])
def test_what_cannot_hold_a_result_is_refused(name: str, dtype: torch.dtype) -> None:
    """Whatever eager code refuses is refused when it runs."""
    op = getattr(Tensor, name)
    rest = [torch.ones(3, dtype=dtype)] * (name in in_place_ops(2))
    try:
        op(torch.ones(3, dtype=dtype), *rest)
    except (RuntimeError, NotImplementedError):
        Comparison(ignore=("traceback",)).assert_same(op, torch.ones(3, dtype=dtype), *rest)


def test_of_data_alone() -> None:
    try:
        unique, _ = described(aten._unique, torch.tensor([4, 3, 2, 2, 3]))
    except fake_tensors.DYNAMIC_SHAPE.get():
        return
    assert type(unique.shape[0]) is not int


@pytest.mark.parametrize("backward", ["own", "aot"])
def test_a_gradient_by_unique_indices(backward: str) -> None:
    def filled(x: Tensor, at: Tensor, value: Tensor) -> Tensor:
        return x.index_fill(-1, at, value)

    fast = jitpkg.compile(filled, backend="jitpkg", options={"backward": backward})
    x, value = torch.randn(5, 5, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    given = x, torch.tensor([4, 3, 2, 2, 3]), value
    for function in (fast, filled):
        gradients = torch.autograd.grad(function(*given).sum(), (x, value))
        assert gradients[1] == 15
        assert gradients[0].sum() == 10


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("updates", [False, True])
def test_running_statistics_stay_narrow(device: str, updates: bool) -> None:
    name = "_batch_norm_with_update" if updates else "_native_batch_norm_legit"
    op = getattr(aten, f"{name}_functional")
    settings = (0.1, 1e-5) if updates else (True, 0.1, 1e-5)
    with corrected_mode():
        x = torch.empty(4, 2, 3, dtype=torch.bfloat16, device=device)
        w, b, mean, var = torch.empty(4, 2, dtype=torch.bfloat16, device=device)
        made = op(x, w, b, mean, var, *settings)
    kept = torch.float32 if device == "cuda" else torch.bfloat16
    assert [t.dtype for t in made[:3]] == [torch.bfloat16, kept, kept]
    assert [t.dtype for t in made[-2:]] == [torch.bfloat16] * 2
