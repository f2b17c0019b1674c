"""Sample calls of every row that is not elementwise, against ATen, over dtypes and layouts."""

import contextlib
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from jitpkg import config
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.codegen.lowering.calls import ROWS, is_fused, lower
from jitpkg.codegen.lowering.table import Lowering, NotLowered
from jitpkg.codegen.triton.frame import NotPrinted
from jitpkg.errors import InternalError
from tests.codegen.lowering import calls, values
from tests.codegen.lowering.oracle import Facts, by_printer, compare, compare_by, lowered, same
from tests.codegen.printers import Printer, each_printer

ATEN = torch.ops.aten

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool)


class Samples:
    """Makes the tensors of a sample call."""

    def __init__(self, dtype: torch.dtype, layout: str) -> None:
        self.rng = random.Random(f"{dtype} {layout}")
        self.dtype, self.layout = dtype, layout

    def __call__(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return values.tensor(self.rng, shape, dtype or self.dtype, self.layout)

    def smooth(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Of numbers near 0, for what is a quotient of small differences; floats only."""
        if not (dtype or self.dtype).is_floating_point:
            raise RuntimeError("no floats")
        count = torch.Size(shape).numel()
        found = [self.rng.uniform(-2, 2) for _ in range(count)]
        return values.laid_out(
            torch.tensor(found).to(dtype or self.dtype).reshape(shape), self.layout
        )

    def index(self, size: int, *shape: int) -> torch.Tensor:
        found = [self.rng.randrange(size) for _ in range(torch.Size(shape).numel())]
        return values.laid_out(torch.tensor(found, dtype=torch.int64).reshape(shape), self.layout)

    def distinct(self, size: int, *shape: int) -> torch.Tensor:
        """Indices without one that is there twice along the first dim."""
        columns = [self.rng.sample(range(size), shape[0]) for _ in range(shape[-1])]
        return (
            torch.tensor(columns).t().contiguous() if len(shape) == 2 else torch.tensor(columns[0])
        )


def sampled(name: str, dtype: torch.dtype, layout: str) -> Iterator[tuple[Any, Any, Any]]:
    for args, kwargs in calls.CALLS[name](Samples(dtype, layout)):
        packet, _, overload = name.partition(".")
        yield getattr(getattr(ATEN, packet), overload or "default"), args, kwargs


@pytest.mark.parametrize("turn", [0, 2])
@pytest.mark.parametrize("name", calls.CALLS)
def test_calls(name: str, turn: int) -> None:
    """Each dtype has another layout in each turn."""
    count = 0
    for dtype, layout in zip(DTYPES, (*values.LAYOUTS[turn:], *values.LAYOUTS), strict=False):
        for target, args, kwargs in sampled(name, dtype, layout):
            try:
                target(*args, **kwargs)
            except (RuntimeError, NotImplementedError, IndexError):
                continue
            try:
                compare(target, *args, **kwargs)
                count += 1
            except NotLowered:
                pass
    assert count


@each_printer
@pytest.mark.parametrize("name", calls.CALLS)
def test_calls_by_printers(name: str, printer: Printer) -> None:
    """In float32, float16, and another dtype."""
    others = (torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    k = sum(map(ord, name))
    count = 0
    for n, dtype in enumerate((torch.float32, torch.float16, others[k % len(others)])):
        for target, args, kwargs in sampled(name, dtype, values.LAYOUTS[(k + n) % 4]):
            try:
                target(*args, **kwargs)
            except (RuntimeError, NotImplementedError, IndexError):
                continue
            with contextlib.suppress(NotLowered, NotPrinted):
                compare_by(by_printer(printer), target, *args, **kwargs)
                count += 1
    assert count


def test_a_divisor_of_0_makes_the_kernel_fail() -> None:
    """The original call then raises what ATen raises."""
    x, y = torch.tensor([1, 2]), torch.tensor([3, 0])
    with pytest.raises(IndexError):
        lowered(ATEN.remainder.Tensor, (x, y), {}, x)
    compare(ATEN.remainder.Tensor, torch.arange(-7, 7), torch.tensor(-1))
    compare(ATEN.div.Tensor_mode, torch.arange(-7, 7), torch.tensor(3), rounding_mode="floor")


def test_rms_norm_backward() -> None:
    """ATen has it on CUDA only."""
    x, weight = torch.randn(4, 3, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    grad = torch.randn(4, 3, 8)
    expected = torch.autograd.grad(torch.rms_norm(x, [8], weight, 1e-5), [x, weight], grad)
    scale = (x.detach().square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    args = (grad, x.detach(), [8], scale, weight.detach(), [True, True])
    same(lowered(ATEN._fused_rms_norm_backward.default, args, {}, expected), expected, "rms")


def test_soft_margin_loss_overflows_where_aten_does() -> None:
    """exp(12) is no float16, and its logarithm would be one."""
    x = torch.tensor([-12.0, 3.0, -11.0], dtype=torch.float16)
    for reduction in (0, 1, 2):
        compare(ATEN.soft_margin_loss.default, x, torch.ones_like(x), reduction)


def test_all_rows_have_sample_calls_or_are_elementwise() -> None:
    """Under one of their names."""
    named = {name.partition(".")[0] for name in (*calls.CALLS, *calls.ELEMENTWISE)}
    tested = {id(row) for name, row in ROWS.items() if name.partition(".")[0] in named}
    missing = {name for name, row in ROWS.items() if id(row) not in tested}
    assert missing <= {"_fused_rms_norm_backward", "contiguous", "to.dtype"} | calls.EMPTY


# What is left to ATen


def of(*tensors: torch.Tensor) -> tuple[Lowering, list[Any]]:
    k = Lowering(Builder())
    made = [k.of_buffer(Buffer("x", t.dtype, tuple(t.shape), tuple(t.stride()))) for t in tensors]
    return k, made


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a matrix product": lambda k, x: lower(k, ATEN.mm.default, (x, x), {}),
    "what writes": lambda k, x: lower(k, ATEN.add_.Tensor, (x, x), {}),
    "an overload that no row is for": lambda k, x: lower(k, ATEN.view.dtype, (x, torch.int32), {}),
    "a complex number": lambda k, x: lower(k, ATEN.mul.Tensor, (x, 2j), {}),
    "an integer that does not fit": lambda k, x: lower(
        k, ATEN.add.Tensor, (k.cast(x, torch.uint8), 300), {}
    ),
    "a divisor of 0": lambda k, x: lower(
        k, ATEN.floor_divide.default, (k.cast(x, torch.int64), 0), {}
    ),
    "a mask as index": lambda k, x: lower(k, ATEN.index.Tensor, (x, [k.cast(x, torch.bool)]), {}),
    "another device": lambda k, x: lower(k, ATEN._to_copy.default, (x,), {"device": "meta"}),
    "another layout": lambda k, x: lower(
        k, ATEN.zeros.default, ([2],), {"layout": torch.sparse_coo}
    ),
    "an extreme of nothing": lambda k, x: lower(
        k, ATEN.amax.default, (k.nothing([0], torch.float32), [0]), {}
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_left_to_aten(what: str) -> None:
    k, (x,) = of(torch.ones(3, 3))
    with pytest.raises(NotLowered):
        REFUSED[what](k, x)


def test_complex_tensors_are_left_to_aten() -> None:
    with pytest.raises(NotLowered):
        of(torch.ones(3, dtype=torch.complex64))


@pytest.mark.parametrize("strict", [False, True])
def test_results_that_are_not_what_they_must_be(strict: bool) -> None:
    k, (x,) = of(torch.ones(3, 3))
    expected = pytest.raises(InternalError if strict else NotLowered, match=r"returns .*float64")
    with config.patch(strict=strict), expected:
        lower(k, ATEN.exp.default, (x,), {}, Facts(torch.ones(3, 3, dtype=torch.float64)))


def test_what_a_graph_calls_is_not_kept() -> None:
    """A node's target may be a function of the program."""

    def function() -> None:
        pass

    known = weakref.ref(function)
    assert not is_fused(function)
    del function
    assert known() is None


def test_products_are_calls_to_others() -> None:
    assert is_fused(ATEN.gelu.default)
    assert not is_fused(ATEN.mm.default)
