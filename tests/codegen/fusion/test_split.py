"""Long folds in parts: the kernels one after the other make what the kernel makes."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.loops import schedule
from jitpkg.codegen.fusion.normal import Normaliser
from jitpkg.codegen.fusion.split import split
from jitpkg.codegen.ir import interpreter, legality
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import symbolic, value_of
from jitpkg.codegen.ir.nodes import Buffer, Reduce, Scan, Store, below, written
from jitpkg.codegen.ir.ranges import Linear
from jitpkg.codegen.lowering.normalization import ROWS as NORMS
from jitpkg.codegen.lowering.reductions import ROWS as FOLDS
from jitpkg.codegen.lowering.table import Lowering, Tensor
from jitpkg.facts.sizes import Size, Symbol
from jitpkg.facts.symbolic import Decisions
from jitpkg.facts.tensor import contiguous_stride
from tests.codegen.cpu.test_random_kernels import Random
from tests.codegen.examples import examples

Memory = dict[Buffer, torch.Tensor]


def buffer(name: str, *sizes: int, dtype: torch.dtype = torch.float32) -> Buffer:
    return Buffer(name, dtype, sizes, contiguous_stride(sizes))


def kernel_for(b: Builder, made: Sequence[Tensor]) -> Kernel:
    """One that writes these, in normal form, as makers get it."""
    stores = [
        Store(buffer(f"y{k}", *t.sizes, dtype=t.dtype), t.axes, t.value) for k, t in enumerate(made)
    ]
    return Normaliser(b).normal(kernel_of("k", stores)).kernel


def ran(kernels: Sequence[Kernel], given: Memory, symbols: dict[str, int]) -> Memory:
    """What is in memory behind them."""
    memory = dict(given)
    for kernel in kernels:
        assert all(each in memory for each in kernel.inputs), "read before it is written"
        for buffer in kernel.outputs:
            size = [value_of(n, symbols) for n in buffer.sizes]
            memory[buffer] = torch.full(size, 7).to(buffer.dtype)
        for store in kernel.stores:
            legality.check_store(store, kernel.axes)
        interpreter.run_stores(kernel.stores, kernel.axes, memory, symbols)
    return memory


def check(
    b: Builder,
    kernel: Kernel,
    given: Memory,
    wanted: int,
    symbols: dict[str, int] | None = None,
    tolerance: float = 1e-5,
) -> tuple[Kernel, ...]:
    parts = split(kernel, b, wanted, piece=1)
    for part in parts:
        schedule(part, b)
    found, plain = (ran(each, given, symbols or {}) for each in (parts, [kernel]))
    for each in kernel.outputs:
        torch.testing.assert_close(
            found[each], plain[each], rtol=tolerance, atol=tolerance, equal_nan=True
        )
    return parts


def memory_of(kernel: Kernel, *tensors: torch.Tensor) -> Memory:
    flat = [t.contiguous().view(-1) for t in tensors]
    return dict(zip(kernel.inputs, flat, strict=True))


def folds(kernel: Kernel) -> list[str]:
    return [n.op for n in below(*written(kernel.stores)) if isinstance(n, Reduce)]


def called(row: str, k: Lowering, *args: object, **named: object) -> list[Tensor]:
    made = {**FOLDS, **NORMS}[row](k, *args, **named)
    return list(made) if isinstance(made, tuple) else [made]


def test_the_sum_of_a_tensor_is_a_sum_of_sums() -> None:
    b = Builder()
    x = Lowering(b).of_buffer(buffer("x", 1 << 20))
    kernel = kernel_for(b, called("sum", Lowering(b), x))
    parts, last = split(kernel, b, wanted=528)
    assert [axis.extent for axis in parts.axes] == [128]  # of 8192 elements each
    assert folds(parts) == folds(last) == ["sum"]
    assert last.outputs == kernel.outputs and last.inputs == parts.outputs


def test_what_is_not_worth_it_stays() -> None:
    b = Builder()
    k = Lowering(b)
    many_rows = kernel_for(b, called("sum.dim_IntList", k, k.of_buffer(buffer("x", 4096, 4096)), 1))
    short = kernel_for(b, called("sum", k, k.of_buffer(buffer("x", 4096))))
    pointwise = kernel_for(b, [k.pointwise(lambda v: v + 1, [k.of_buffer(buffer("x", 1 << 20))])])
    for kernel in (many_rows, short, pointwise):
        assert split(kernel, b, wanted=528) == (kernel,)


def test_sums_of_columns_lie_side_by_side() -> None:
    b = Builder()
    k = Lowering(b)
    kernel = kernel_for(b, called("sum.dim_IntList", k, k.of_buffer(buffer("x", 1 << 16, 256)), 0))
    parts, last = split(kernel, b, wanted=528)
    assert [axis.extent for axis in parts.axes] == [64, 256]
    (store,) = parts.stores
    (at,) = store.index
    assert Linear.of(at).factor(parts.axes[0]) == 256
    assert Linear.of(at).factor(parts.axes[1]) == 1
    assert last.axes == kernel.axes


@pytest.mark.parametrize(
    ("row", "kernels"),
    [("logsumexp", 2), ("var.correction", 2), ("_softmax", 3), ("native_layer_norm", 3)],
)
def test_pairs_are_split_together(row: str, kernels: int) -> None:
    b = Builder()
    k = Lowering(b)
    x = k.of_buffer(buffer("x", 1, 256))
    args: dict[str, tuple[object, ...]] = {
        "logsumexp": (x, [1]),
        "var.correction": (x, [1]),
        "_softmax": (x, 1, False),
        "native_layer_norm": (x, [256], None, None, 1e-5),
    }
    kernel = kernel_for(b, called(row, k, *args[row]))
    parts = check(b, kernel, memory_of(kernel, torch.randn(256) + 3), 8)
    assert len(parts) == kernels
    assert [len(folds(part)) for part in parts] == [2, 2, 0][:kernels]


@pytest.mark.parametrize("row", ["var_mean.correction", "logsumexp", "argmax", "argmin"])
@pytest.mark.parametrize("sizes", [(3, 13), (13, 3), (2, 3, 11), (7, 11, 3)], ids=str)
@pytest.mark.parametrize("wanted", [16, 41])
def test_parts_that_leave_a_rest(row: str, sizes: tuple[int, ...], wanted: int) -> None:
    b = Builder()
    k = Lowering(b)
    dims = [d for d, size in enumerate(sizes) if size != 3]
    x = k.of_buffer(buffer("x", *sizes))
    kernel = kernel_for(b, called(row, k, x, dims[0] if row.startswith("arg") else dims))
    for seed, offset in ((0, 0.0), (1, 1e3), (2, -1e3)):
        drawn = torch.randn(sizes, generator=torch.Generator().manual_seed(seed)) + offset
        assert len(check(b, kernel, memory_of(kernel, drawn), wanted, tolerance=1e-4)) == 2


HARD = [float("inf"), float("-inf"), float("nan"), 1e30, -300.0, 80.0, 0.0]


@given(st.data())
@examples(120)
def test_random_folds(data: st.DataObject) -> None:
    """Several, of some dims of a tensor, some of them by others."""
    b = Builder()
    k = Lowering(b)
    rank = data.draw(st.integers(1, 3))
    size = st.sampled_from([1, 2, 5, 8, 13])
    sizes = tuple(data.draw(st.lists(size, min_size=rank, max_size=rank)))
    dims = data.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    dtype = data.draw(st.sampled_from([torch.float32, torch.float32, torch.int64, torch.bool]))
    x = k.of_buffer(buffer("x", *sizes, dtype=dtype))
    draw = torch.Generator().manual_seed(data.draw(st.integers(0, 50)))
    tensor = torch.randint(-4, 5, sizes, generator=draw).to(dtype)
    names = ["argmax", "argmin", "amax", "amin"]
    if dtype is torch.bool:
        names = ["any.dim", "all.dim", "count_nonzero", "argmax"]
    elif dtype is torch.float32:
        names += ["sum", "prod", "var", "softmax", "log_softmax", "logsumexp", "norm", "two"]
        tensor = tensor / 2
        if data.draw(st.booleans()):
            for value in data.draw(st.lists(st.sampled_from(HARD), min_size=1, max_size=3)):
                tensor.view(-1)[data.draw(st.integers(0, tensor.numel() - 1))] = value
    else:
        names += ["sum", "prod"]
    made: list[Tensor] = []
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
        made += _fold(k, name, x, dims)
    kernel = kernel_for(b, made)
    given = memory_of(kernel, *[tensor] * len(kernel.inputs))
    check(b, kernel, given, data.draw(st.integers(4, 40)))


def _fold(k: Lowering, name: str, x: Tensor, dims: list[int]) -> list[Tensor]:
    match name:
        case "argmax" | "argmin":
            return called(name, k, x, dims[0])
        case "amax" | "amin" | "logsumexp" | "any.dim" | "all.dim" | "count_nonzero":
            return called(name, k, x, dims)
        case "sum":
            return called("sum.dim_IntList", k, x, dims)
        case "prod":
            return called("prod.dim_int", k, x, dims[0])
        case "var":
            return called("var_mean.correction", k, x, dims, correction=0)
        case "norm":
            return called("linalg_vector_norm", k, x, 2, dims)
        case "softmax":
            return called("_softmax", k, x, dims[0], False)
        case "log_softmax":
            return called("_log_softmax", k, x, dims[0], False)
        case _:  # one fold by another, which is no pair
            most = k.fold("max", x, dims, keepdim=True)
            near = k.pointwise(lambda v, m: v * m, [x, most])
            return [k.fold("sum", near, dims)]


@given(st.data())
@examples(60)
def test_random_kernels(data: st.DataObject) -> None:
    """On whole numbers: exactly the same."""
    draw = Random(data)
    sizes = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 7]), min_size=0, max_size=2)))
    axes = draw.b.axes(sizes)
    stores = []
    for number in range(data.draw(st.integers(1, 2))):
        value = draw.grown(axes, data.draw(st.integers(1, 8)))
        over = [axis for axis in axes if data.draw(st.booleans())]
        if over and value.dtype in (torch.int64, torch.float32):
            bound = {axis: draw.b.axis(axis.extent) for axis in over}
            if not any(isinstance(node, Scan) for node in below(value)):
                folded = draw.b.substitute(value, bound)
                value = draw.b.reduce("sum", folded, bound.values())
        at = tuple(draw.b.index(0) if axis not in value.axes else axis for axis in axes)
        made = buffer(f"out{number}", *sizes, dtype=value.dtype)
        stores.append(Store(made, at, value))
    kernel = kernel_of("k", stores)
    check(draw.b, kernel, draw.memory, data.draw(st.integers(4, 200)), tolerance=0)


@pytest.mark.parametrize("rows", [2, 3, 40, 100])
def test_sizes_that_vary(rows: int) -> None:
    """Parts of a length that varies; where there is less than was thought, some are empty."""
    b = Builder()
    k = Lowering(b)
    decisions = Decisions({"n": 50})
    n = symbolic(Size((((Symbol("n", 2),), 1),)), decisions)
    x = k.of_buffer(Buffer("x", torch.float32, (n, 3), (3, 1)))
    made = called("sum.dim_IntList", k, x, 0) + called("logsumexp", k, x, [0])
    made += called("argmax", k, x, 0)
    (center,) = called("mean.dim", k, x, [0], True)
    distances = k.pointwise(lambda v, m: v - m, [x, center])
    made.append(k.fold("sum", distances, [0], of=lambda v: v * v))
    kernel = kernel_for(b, made)
    before = dict(decisions.relations)
    tensor = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
    parts = check(b, kernel, memory_of(kernel, tensor), 16, {"n": rows})
    assert len(parts) > 1
    assert decisions.relations == before, "splitting is a matter of speed"
