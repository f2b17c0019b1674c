"""The backend `jitpkg`, on programs of which it is known what they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import jitpkg
from jitpkg import events
from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared
from jitpkg.codegen.kernels.compile import compile_graph
from jitpkg.codegen.kernels.reference import Interpreted

ROWS, COLUMNS = 13, 37


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return F.layer_norm(torch.tanh(x), (x.shape[-1],), w, b)


def add_and_norm(x: Tensor, w: Tensor, b: Tensor) -> Any:
    total = x + b
    return total, F.layer_norm(total, (x.shape[-1],), w, b)


def rms_norm(x: Tensor, w: Tensor) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def cross_entropy(x: Tensor, target: Tensor) -> Any:
    return F.cross_entropy(x, target)


def linear(x: Tensor) -> Any:
    return F.gelu(x @ x.t()) + 1


def by_a_column(x: Tensor, w: Tensor) -> Any:
    return F.gelu(x.relu() @ w.unsqueeze(1)) + 1


def of_one_row(x: Tensor, w: Tensor) -> Any:
    """What all of a product is needed for does not compute it again."""
    made = F.gelu(w) @ x.t()
    return made / made.norm()


def folded_twice(x: Tensor) -> Any:
    made = x.square().sum(1)
    return made, made.sqrt().sum()


def moments(x: Tensor) -> Any:
    return x.mean(0), x.var(1), x.sum()


def rows_of_columns(x: Tensor) -> Any:
    centred = (x.reshape(ROWS, 1, COLUMNS) - x.mean()).expand(ROWS, 2, COLUMNS)
    positive = torch.relu(centred - centred.mean((0, 2), keepdim=True))
    return positive, positive.mean(2)


def joined(x: Tensor, w: Tensor) -> Any:
    return torch.cat([x, x.flip(0) * w], 1).relu()


def row() -> Tensor:
    return torch.randn(COLUMNS)


Case = tuple[Callable[..., Any], list[Tensor], int, int]

CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Tensor]], int, int]] = {
    # function, arguments besides x, kernels, calls that are left to ATen
    "pointwise": (lambda x: (x.sin() * 2).exp() - x, list, 1, 0),
    "softmax": (lambda x: x.softmax(-1), list, 1, 0),
    "softmax of columns": (lambda x: x.softmax(0), list, 1, 0),
    "layer norm": (layer_norm, lambda: [row(), row()], 1, 0),
    "add and norm": (add_and_norm, lambda: [row(), row()], 1, 0),
    "rms norm": (rms_norm, lambda: [row()], 1, 0),
    "cross entropy": (cross_entropy, lambda: [torch.randint(0, COLUMNS, (ROWS,))], 1, 0),
    "linear": (linear, list, 1, 2),
    "product by a column": (by_a_column, lambda: [row()], 1, 0),
    "product of one row": (of_one_row, lambda: [row()], 1, 0),
    "folded twice": (folded_twice, list, 1, 0),
    "moments": (moments, list, 3, 0),
    "rows of columns": (rows_of_columns, list, 1, 0),
    "joined": (joined, lambda: [row()], 1, 0),
    "running sums": (lambda x: (x.cumsum(0), x.cumsum(1)), list, 2, 0),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    torch.manual_seed(0)
    function, others, kernels, calls = CASES[request.param]
    return function, [torch.randn(ROWS, COLUMNS), *others()], kernels, calls


def compiled_count(function: Callable[..., Any], inputs: list[Tensor]) -> tuple[int, int]:
    """How many kernels, and how many calls of ATen."""
    reports = []

    def backend(gm: torch.fx.GraphModule, given: list[Any]) -> Callable[..., Any]:
        prepared = prepare(gm, given)
        assert isinstance(prepared, Prepared), prepared
        reports.append(compile_graph("graph", prepared.graph, Interpreted()).report)
        return gm.forward

    jitpkg.compile(function, backend=backend, fullgraph=True)(*inputs)
    (report,) = reports
    return len(report.kernels), len(report.calls)


def test_kernels_are_counted(case: Case) -> None:
    function, inputs, kernels, calls = case
    assert compiled_count(function, inputs) == (kernels, calls)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (of_one_row, [torch.randn(64, 512), torch.randn(512)]),
        (folded_twice, [torch.randn(64, 512)]),
    ],
    ids=["product of one row", "folded twice"],
)
def test_what_is_long_to_fold_is_folded_once(
    function: Callable[..., Any], given: list[Tensor]
) -> None:
    """One kernel would fold it for a fold of the results, and again for each of them."""
    assert compiled_count(function, given) == (2, 0)
    got = jitpkg.compile(function, backend="jitpkg", fullgraph=True)(*given)
    torch.testing.assert_close(got, function(*given))


def check_inference(case: Case, dtype: torch.dtype = torch.float32, **tolerance: float) -> None:
    function, inputs, *_ = case
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    got = jitpkg.compile(function, backend="jitpkg", fullgraph=True)(*inputs)
    torch.testing.assert_close(got, function(*inputs), **tolerance)


@pytest.mark.usefixtures("by_each_printer")
def test_inference(case: Case) -> None:
    check_inference(case)


def test_inference_by_the_reference_interpreter(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JITPKG_DEBUG", "interpret")
    check_inference(case)


@pytest.mark.usefixtures("by_triton")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_inference_in_narrow_floats(case: Case, dtype: torch.dtype) -> None:
    """Each op is rounded as eager's is, but for what eager keeps wider inside of one."""
    off = 2e-3 if dtype is torch.float16 else 2e-2
    check_inference(case, dtype, rtol=off, atol=off)


def with_gradients(function: Callable[..., Any], inputs: list[Tensor]) -> tuple[Any, list[Any]]:
    given = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    results = function(*given)
    several = results if isinstance(results, tuple) else (results,)
    sum(result.square().sum() for result in several).backward()
    return results, [x.grad for x in given]


def test_training(case: Case, by_each_printer: str) -> None:
    function, inputs, *_ = case
    compiled = jitpkg.compile(function, backend="jitpkg", fullgraph=True)
    got, want = with_gradients(compiled, inputs), with_gradients(function, inputs)
    off = (
        {"rtol": 1e-4, "atol": 1e-4} if by_each_printer == "triton" else {}
    )  # sums in another order
    torch.testing.assert_close(got, want, **off)


def test_kernel_is_text() -> None:
    heard: list[events.KernelCompiled] = []

    def listener(event: events.Event) -> None:
        if isinstance(event, events.KernelCompiled):
            heard.append(event)

    with events.STREAM.listening(listener):
        jitpkg.compile(lambda x: x.exp() + 1, backend="jitpkg")(torch.randn(4, 8))
    (kernel,) = heard
    assert "out0[i] = (exp(in0[i]) + 1.0)" in kernel.text


@pytest.mark.usefixtures("by_each_printer")
def test_index_out_of_range_is_eager_s_error() -> None:
    def pick(table: Tensor, index: Tensor) -> Tensor:
        return F.embedding(index, table) * 2

    compiled = jitpkg.compile(pick, backend="jitpkg")
    table, index = torch.randn(4, 3), torch.tensor([0, 3])
    torch.testing.assert_close(compiled(table, index), pick(table, index))
    for bad in (torch.tensor([0, 4]), torch.tensor([-1, 0])):
        with pytest.raises(IndexError) as eager:
            pick(table, bad)
        with pytest.raises(IndexError) as ours:
            compiled(table, bad)
        assert str(ours.value) == str(eager.value)


@pytest.mark.usefixtures("by_each_printer")
def test_random_numbers_are_eager_s() -> None:
    def noisy(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, training=True) + torch.rand(3) * x.sum()

    compiled = jitpkg.compile(noisy, backend="jitpkg")
    x = torch.randn(5, 3)
    for seed in range(3):
        torch.manual_seed(seed)
        want = noisy(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(x), want)


@pytest.mark.parametrize("layout", ["plain", "turned", "sliced"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_dropout_is_eager_s_bit_for_bit(dtype: torch.dtype, layout: str) -> None:
    def noisy(x: Tensor, p: float) -> Tensor:
        return F.dropout(x, p) * 2

    compiled = jitpkg.compile(noisy, backend="jitpkg")
    made = {"plain": (8, 12), "turned": (12, 8), "sliced": (8, 24)}[layout]
    x = torch.randn(made, dtype=dtype)
    x = {"plain": x, "turned": x.t(), "sliced": x[:, ::2]}[layout].requires_grad_()
    weights = torch.randn_like(x)
    for p in (0.0, 0.1, 0.5, 1.0):
        found = []
        for function in (noisy, compiled):
            torch.manual_seed(1)
            y = function(x, p)
            found.append((y, *torch.autograd.grad(y, x, weights), torch.rand(2)))
        for ours, eager in zip(*found, strict=True):
            assert torch.equal(ours, eager)


@pytest.mark.usefixtures("by_each_printer")
@pytest.mark.parametrize("part", [False, True])
def test_index_out_of_range_in_what_is_not_used_is_an_error_too(part: bool) -> None:
    def pick(table: Tensor, index: Tensor) -> Tensor:
        picked = F.embedding(index, table) * 2
        return picked[0] + 1 if part else table + 1

    compiled = jitpkg.compile(pick, backend="jitpkg")
    table = torch.randn(4, 3)
    torch.testing.assert_close(
        compiled(table, torch.tensor([0, 3])), pick(table, torch.tensor([0, 3]))
    )
    with pytest.raises(IndexError):
        pick(table, torch.tensor([0, 4]))
    with pytest.raises(IndexError):
        compiled(table, torch.tensor([0, 4]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("size", "dim"), [((3, 1), 1), ((1, 3), 0), ((1,), 0), ((), 0), ((2, 3), 1), ((3, 1, 2), 1)]
)
def test_a_sum_of_one_negative_zero_is_positive(
    dtype: torch.dtype, size: tuple[int, ...], dim: int
) -> None:
    """Eager code's sums start with 0.0; running ones of a tensor without dims do not."""

    def folds(x: Tensor) -> list[Tensor]:
        sums = [x.sum(), x.sum(dim), x.sum(dim, keepdim=True), x.mean(dim), x.cumsum(dim)]
        return [*sums, x.prod(dim), x.cumprod(dim), x.amax(dim), x.cummax(dim).values]

    x = torch.full(size, -0.0, dtype=dtype)
    compiled = jitpkg.compile(folds, backend="jitpkg")
    for one, other in zip(compiled(x), folds(x), strict=True):
        assert torch.equal(one.signbit(), other.signbit())
        assert torch.equal(one, other)


def test_a_long_chain_computes_its_values_again_for_the_backward_graph() -> None:
    """Instead of keeping them all: memory, and the time to write and read it."""

    def chain(x: Tensor, y: Tensor) -> Tensor:
        x = x * y  # of which eager code, too, keeps both
        for _ in range(20):
            x = torch.sigmoid(torch.exp(torch.tanh(x * 1.25 + y) - 0.125) * y)
        return x

    seen: dict[str, events.Fused] = {}

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Fused):
            seen[event.graph.rpartition(".")[-1]] = event

    x, y = (torch.randn(64, 64, requires_grad=True) for _ in range(2))
    with events.STREAM.listening(listen):
        found = jitpkg.compile(chain, backend="jitpkg")(x, y)
        gradients = torch.autograd.grad(found.sum(), (x, y))
    wanted = chain(x, y)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(gradients, torch.autograd.grad(wanted.sum(), (x, y)))
    moved = {half: sum(k.bytes for k in seen[half].kernels) // x.nbytes for half in seen}
    assert len(seen["forward"].kernels) == 1
    assert moved["forward"] <= 8
    assert len(seen["backward"].kernels) <= 3
    assert moved["backward"] <= 30


@pytest.mark.parametrize("affine", [False, True])
def test_a_norm_of_bfloat16_by_its_statistics_goes_backward_in_kernels(affine: bool) -> None:
    """The statistics are compared with the input as they are given, not as they are computed
    with."""

    def normed(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None) -> Tensor:
        return torch.nn.functional.batch_norm(x, mean, var, weight)

    seen: list[events.Fused] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Fused):
            seen.append(event)

    x = torch.randn(4, 3, 5, dtype=torch.bfloat16, requires_grad=True)
    mean, var = torch.zeros(3, dtype=x.dtype), torch.ones(3, dtype=x.dtype)
    weight = torch.ones(3, dtype=x.dtype, requires_grad=True) if affine else None
    with events.STREAM.listening(listen):
        made = jitpkg.compile(normed, backend="jitpkg")(x, mean, var, weight)
        made.float().sum().backward()
    assert [event.calls for event in seen] == [(), ()]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.ones_like(x))
