"""How results lie in memory, by rows or by FakeTensor put right, against the real ops: in all dims,
those of one element included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from jitpkg.facts.answers import Facts
from jitpkg.facts.outcome import NeedsNumbers, NoFacts, WouldRaise
from jitpkg.facts.tensor import facts_of
from jitpkg.testing.strategies import shapes, tensors
from tests.facts import varying

aten = torch.ops.aten
SHAPES = shapes(max_dims=5, max_size=3)

UNARY: dict[str, Callable[[torch.Tensor], Any]] = {
    **{
        name: getattr(torch, name)
        for name in """
            abs neg exp sin sigmoid round isnan isinf isposinf isneginf isfinite signbit logit
            nan_to_num square clone zeros_like empty_like ones_like relu sgn i0 erfinv
            logical_not
        """.split()
    },
    **{name: getattr(F, name) for name in "relu6 hardtanh gelu elu softsign logsigmoid".split()},
    "double": torch.Tensor.double,
    "flip": lambda x: x.flip(list(range(x.dim()))),
    "sort": lambda x: x.sort(),
    "add number": lambda x: x + 1,
    "number less": lambda x: 2 - x,
    "clamp": lambda x: x.clamp(0, 1),
    "full_like": lambda x: torch.full_like(x, 2),
}

BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    name: getattr(torch, name)
    for name in """
        add sub rsub mul div maximum fmax heaviside hypot copysign nextafter xlogy logaddexp atan2
        fmod remainder lt eq isclose logical_xor
    """.split()
}

OTHERS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    **{name: getattr(torch, name) for name in "isin polar complex".split()},
    "normal": lambda x, y: torch.normal(x, y.abs()),
    "normal of a number": lambda x, y: torch.normal(1.0, y.abs()),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 1),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.5),
    "lerp by a tensor": lambda x, y: torch.lerp(x, y, y),
    "addcmul": lambda x, y: torch.addcmul(x, y, y),
    "renorm": lambda x, y: x.renorm(2, 0, 1),
    "bernoulli": lambda x, y: torch.bernoulli(x.sigmoid()),
    "poisson": lambda x, y: torch.poisson(x.abs()),
    "tril": lambda x, y: x.tril(),
    "standard_gamma": lambda x, y: torch._standard_gamma(x.abs() + 1),
    "uniform": lambda x, y: aten.uniform(x),
    "number to a power": lambda x, y: 2.5**x,
    "softmax": lambda x, y: x.softmax(0),
    "cumsum": lambda x, y: x.cumsum(0),
}


WINDOWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "max_pool2d": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "max_unpool2d": lambda x: F.max_unpool2d(x, torch.zeros_like(x, dtype=torch.int64), 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "reflect in 3 dims": lambda x: F.pad(x, (1, 1, 1, 1, 1, 1), mode="reflect"),
    "replicate in 3 dims": lambda x: F.pad(x, (1, 1, 1, 1, 1, 1), mode="replicate"),
    "constant": lambda x: F.pad(x, (1, 1)),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x, 2),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, 2),
    "conv3d": lambda x: F.conv3d(x[None], torch.ones(3, x.shape[0], 1, 1, 1)),
    "trilinear": lambda x: F.interpolate(x[None], scale_factor=2, mode="trilinear"),
    "conv2d": lambda x: F.conv2d(x, torch.ones(3, 4, 1, 1)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "grid_sample": lambda x: F.grid_sample(x, torch.ones(2, 4, 4, 2), align_corners=False),
}

POOLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "max_pool1d": lambda x: F.max_pool1d(x, 2, return_indices=True),
    "max_pool2d": WINDOWS["max_pool2d"],
    "max_pool3d": lambda x: F.max_pool3d(x, 2, return_indices=True),
    "max_pool3d of planes": lambda x: F.max_pool3d(x, (1, 2, 2)),
    "max_unpool3d": lambda x: F.max_unpool3d(x, torch.zeros_like(x, dtype=torch.int64), 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "avg_pool2d": WINDOWS["avg_pool2d"],
    "avg_pool3d": WINDOWS["avg_pool3d"],
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 2),
    "adaptive_avg_pool2d": WINDOWS["adaptive_avg_pool2d"],
    "adaptive_avg_pool3d": WINDOWS["adaptive_avg_pool3d"],
    "adaptive_avg_pool of one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_pool3d of one": lambda x: F.adaptive_avg_pool3d(x, 1),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 2, return_indices=True),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, 2, return_indices=True),
    "lp_pool1d": lambda x: F.lp_pool1d(x, 2, 2),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2, 2),
    "lp_pool3d": lambda x: F.lp_pool3d(x, 2, 2),
}

ROLLED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "no dims": lambda x: x.roll(1),
    "no step": lambda x: x.roll(0, 0),
    "all around": lambda x: x.roll(x.shape[0], 0),
    "one dim": lambda x: x.roll(1, 0),
    "channels": lambda x: x.roll(-1, 1),
    "two dims": lambda x: x.roll((1, 1), (-1, 0)),
    "two dims, one by no step": lambda x: x.roll((1, 0), (0, 1)),
    "fftshift": torch.fft.fftshift,
}

TRANSFORMED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rfft": torch.fft.rfft,
    "rfft of the first dim": lambda x: torch.fft.rfft(x, dim=0),
    "rfft2": torch.fft.rfft2,
    "rfftn": torch.fft.rfftn,
    "rfftn of two dims": lambda x: torch.fft.rfftn(x, dim=(-1, 0)),
    "rfftn of three": lambda x: torch.fft.rfftn(x, dim=(0, 2, 1)),
    "fft": torch.fft.fft,
    "ifft of the first dim": lambda x: torch.fft.ifft(x, dim=0),
    "fft2": torch.fft.fft2,
    "irfft": torch.fft.irfft,
    "irfft2": torch.fft.irfft2,
}

BACKWARD: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    **{
        name: getattr(aten, f"{name}_backward")
        for name in "gelu hardsigmoid hardswish logit mish sigmoid silu tanh".split()
    },
    "huber": lambda g, x: aten.huber_loss_backward(g, x, x, 0, 1.0),
    "mse": lambda g, x: aten.mse_loss_backward(g, x, x, 0),
    "smooth_l1": lambda g, x: aten.smooth_l1_loss_backward(g, x, x, 0, 1.0),
    "binary_cross_entropy": lambda g, x: aten.binary_cross_entropy_backward(
        g, x.sigmoid(), x.sigmoid()
    ),
    "threshold": lambda g, x: aten.threshold_backward(g, x, 0),
    "hardtanh": lambda g, x: aten.hardtanh_backward(g, x, 0, 1),
    "leaky_relu": lambda g, x: aten.leaky_relu_backward(g, x, 0.1, False),
    "elu": lambda g, x: aten.elu_backward(g, 1, 1, 1, False, x),
    "softplus": lambda g, x: aten.softplus_backward(g, x, 1, 20),
    "softshrink": lambda g, x: aten.softshrink_backward(g, x, 0.5),
    "hardshrink": lambda g, x: aten.hardshrink_backward(g, x, 0.5),
    "glu": lambda g, x: aten.glu_backward(g[:1], x[:2], 0),
    "log_sigmoid": lambda g, x: aten.log_sigmoid_backward(g, x, x),
    "log_sigmoid forward": lambda g, x: aten.log_sigmoid_forward(x),
    "softmax": lambda g, x: aten._softmax_backward_data(g, x, 0, x.dtype),
    "log_softmax": lambda g, x: aten._log_softmax_backward_data(g, x, 0, x.dtype),
    "dropout": lambda g, x: aten.native_dropout_backward(g, x > 0, 2.0),
    "rrelu": lambda g, x: aten.rrelu_with_noise_backward(g, x, x, 0.1, 0.3, True, False),
    "prelu": lambda g, x: aten._prelu_kernel_backward(g, x, x),
    "layer_norm": lambda g, x: aten.native_layer_norm_backward(
        g, x, [5], x[..., :1], x[..., :1], None, None, [True, False, False]
    ),
    "select": lambda g, x: aten.select_backward(g, [3, 3, 2, 5], 1, 0),
    "slice": lambda g, x: aten.slice_backward(g, [6, 2, 5], 0, 0, 3, 1),
    "diagonal": lambda g, x: aten.diagonal_backward(g, [3, 2, 5, 5], 0, 2, 3),
}

BACKWARD_OF_IMAGES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "nearest": lambda g, x: aten.upsample_nearest2d_backward(g, [6, 4], [2, 4, 3, 2]),
    "bilinear": lambda g, x: aten.upsample_bilinear2d_backward(g, [6, 4], [2, 4, 3, 2], False),
    "bicubic": lambda g, x: aten.upsample_bicubic2d_backward(g, [6, 4], [2, 4, 3, 2], False),
    "reflect": lambda g, x: aten.reflection_pad2d_backward(g, inner(x), [1, 1, 1, 1]),
    "replicate": lambda g, x: aten.replication_pad2d_backward(g, inner(x), [1, 1, 1, 1]),
    "reflect in 3 dims": lambda g, x: aten.reflection_pad3d_backward(g, deep(x), [1] * 6),
    "replicate in 3 dims": lambda g, x: aten.replication_pad3d_backward(g, deep(x), [1] * 6),
    "max_pool": lambda g, x: aten.max_pool2d_with_indices_backward(
        g[:, :, :3, :2], x, [2, 2], [2, 2], [0, 0], [1, 1], False, 0 * g[:, :, :3, :2].long()
    ),
    "max_pool of a volume": lambda g, x: aten.max_pool3d_with_indices_backward(
        g[:, :2, :3, :2], x, [2] * 3, [2] * 3, [0] * 3, [1] * 3, False, 0 * g[:, :2, :3, :2].long()
    ),
    "avg_pool of a volume": lambda g, x: aten.avg_pool3d_backward(
        g[:, :2, :3, :2], x, [2] * 3, [2] * 3, [0] * 3, False, True, None
    ),
    "avg_pool": lambda g, x: aten.avg_pool2d_backward(
        g[:, :, :3, :2], x, [2, 2], [2, 2], [0, 0], False, True, None
    ),
    "batch_norm": lambda g, x: aten.native_batch_norm_backward(
        g, x, None, None, None, x[0, :, 0, 0], x[0, :, 0, 0], True, 1e-5, [True, False, False]
    ),
    "group_norm": lambda g, x: aten.native_group_norm_backward(
        g, x, x[:, :2, 0, 0], x[:, :2, 0, 0], None, 2, 4, 24, 2, [True, False, False]
    ),
}


def inner(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, 1:-1, 1:-1].clone()


def deep(x: torch.Tensor) -> torch.Tensor:
    return inner(x)[:, 1:-1].clone()


def agrees(
    name: str,
    call: Callable[..., Any],
    *given: torch.Tensor,
    idle: bool = True,
    varies: bool = False,
) -> None:
    try:
        real = call(*given)
    except (RuntimeError, IndexError):
        return
    facts = tuple(map(facts_of, given))
    values: dict[str, int] = {}
    if varies:
        values = {varying.name_of(n): n for each in given for n in each.shape}
        facts = tuple(map(varying.in_symbols, facts))
    try:
        made = Facts().of_call(name, call, facts, {}, values).result
    except NoFacts:
        return
    except (NeedsNumbers, WouldRaise):  # FakeTensor can less where sizes vary
        assert varies
        return
    every = [real] if isinstance(real, torch.Tensor) else list(real)
    known = [made] if isinstance(real, torch.Tensor) else list(made)
    for one, other in zip(known, every, strict=True):
        if other is None:
            continue
        one = varying.with_values(one, values)
        assert (one.dtype, one.size) == (other.dtype, other.shape)
        seen = [k for k, n in enumerate(other.shape) if idle or n > 1]
        assert not other.numel() or all(one.stride[k] == other.stride(k) for k in seen)


def any_tensor(shape: st.SearchStrategy[tuple[int, ...]]) -> st.SearchStrategy[torch.Tensor]:
    return tensors(dtype=torch.float32, shape=shape, requires_grad=False)


@pytest.mark.parametrize("name", UNARY)
@settings(deadline=None)
@given(any_tensor(SHAPES))
def test_of_one_tensor(name: str, x: torch.Tensor) -> None:
    agrees(name, UNARY[name], x)


@settings(deadline=None)
@given(any_tensor(SHAPES))
def test_isinf_of_booleans(x: torch.Tensor) -> None:
    agrees("isinf", torch.isinf, x > 0)


@pytest.mark.parametrize("name", BINARY)
@settings(deadline=None)
@given(st.data())
def test_of_two_tensors(name: str, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    smaller = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)
    missing = data.draw(st.integers(0, len(shape)))
    x = data.draw(any_tensor(st.just(shape)))
    y = data.draw(any_tensor(st.just(smaller[missing:])))
    agrees(name, BINARY[name], *data.draw(st.permutations([x, y])))


def orders(*size: int) -> Iterator[torch.Tensor]:
    """Tensors of this size, with dims in each order in memory."""
    for order in permutations(range(len(size))):
        made = torch.randn([size[dim] for dim in order])
        yield made.permute([order.index(dim) for dim in range(len(size))])
    yield torch.randn(*size[:-1], 2 * size[-1])[..., ::2]


@pytest.mark.parametrize("name", [*BINARY, *OTHERS])
def test_of_dims_in_each_order(name: str) -> None:
    call = (BINARY | OTHERS)[name]
    for x in orders(3, 2, 5):
        for y in (x, x.contiguous(), x[:1], x[:, :1], x[..., :1], x[1], x[0, 0]):
            agrees(name, call, x, y, idle=False)
            agrees(name, call, y, x, idle=False)


@pytest.mark.parametrize("name", WINDOWS)
def test_of_images_in_each_order(name: str) -> None:
    for x in orders(2, 4, 6, 4):
        agrees(name, WINDOWS[name], x, idle=False)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize(
    "size", [(4, 6, 4), (2, 4, 6, 4), (2, 1, 4, 4), (1, 4, 4, 2), (2, 3, 4, 4, 2)]
)
def test_of_pools_in_each_order(name: str, size: tuple[int, ...]) -> None:
    for x in orders(*size):
        agrees(name, POOLS[name], x, idle=False)


@pytest.mark.parametrize("name", ROLLED)
@pytest.mark.parametrize("size", [(4, 3, 2), (2, 3, 4, 5), (2, 1, 4, 4), (0, 3, 2, 2)])
def test_of_what_is_rolled_in_each_order(name: str, size: tuple[int, ...]) -> None:
    for x in orders(*size):
        agrees("roll", ROLLED[name], x, idle=False)


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("size", [(4, 3, 2), (2, 3, 4, 5), (2, 1, 4, 3), (3, 4, 1)])
def test_of_what_is_transformed_in_each_order(name: str, size: tuple[int, ...]) -> None:
    for x in orders(*size):
        agrees("fft", TRANSFORMED[name], x, idle=False)


@pytest.mark.parametrize("name", BACKWARD)
def test_of_gradients_in_each_order(name: str) -> None:
    for g in orders(3, 2, 5):
        for x in orders(3, 2, 5):
            agrees(f"{name}_backward", BACKWARD[name], g, x, idle=False)


@pytest.mark.parametrize("name", BACKWARD_OF_IMAGES)
def test_of_gradients_of_images(name: str) -> None:
    every = list(orders(2, 4, 6, 4))
    some = [every[0], every[-1], torch.randn(2, 4, 6, 4).to(memory_format=torch.channels_last)]
    # of gradients that cannot be viewed as groups, FakeTensor raises
    for g in some[:1] if name == "group_norm" else some:
        for x in some:
            agrees(f"{name}_backward", BACKWARD_OF_IMAGES[name], g, x, idle=False)


@pytest.mark.parametrize("name", [*OTHERS, *BACKWARD])
def test_of_sizes_that_vary(name: str) -> None:
    call = OTHERS.get(name) or BACKWARD[name]
    x = torch.randn(3, 5, 2).transpose(1, 2)
    for pair in ((x, x), (x, x.contiguous()), (x.contiguous(), x)):
        agrees(f"{name} varies", call, *pair, idle=False, varies=True)


@pytest.mark.parametrize("name", [*WINDOWS, *BACKWARD_OF_IMAGES])
def test_of_images_that_vary(name: str) -> None:
    x = torch.randn(2, 4, 6, 4)
    last = x.to(memory_format=torch.channels_last)
    if name in WINDOWS:
        agrees(name, WINDOWS[name], last, idle=False, varies=True)
    if name in BACKWARD_OF_IMAGES:
        agrees(f"{name}_backward", BACKWARD_OF_IMAGES[name], x, last, idle=False, varies=True)


CONVOLVED: dict[str, tuple[Callable[..., Any], int]] = {
    "conv1d": (F.conv1d, 1),
    "conv2d": (F.conv2d, 2),
    "conv3d": (F.conv3d, 3),
    "conv_transpose1d": (F.conv_transpose1d, 1),
    "conv_transpose2d": (F.conv_transpose2d, 2),
    "conv_transpose3d": (F.conv_transpose3d, 3),
}
FORMATS = {1: (), 2: (torch.channels_last,), 3: (torch.channels_last_3d,)}


@pytest.mark.parametrize("name", CONVOLVED)
def test_of_convolutions_in_each_format(name: str) -> None:
    """Of one channel, or with a window of one element, a weight that lies in order may suggest the
    format with the channels innermost, too."""
    call, dims = CONVOLVED[name]
    both = (torch.contiguous_format, *FORMATS[dims])
    for groups, channels, window in ((1, 1, 3), (1, 4, 1), (1, 4, 3), (4, 4, 3), (2, 4, 1)):
        size = (channels, 2) if "transpose" in name else (2 * groups, channels // groups)
        weight = torch.randn(*size, *[window] * dims)
        for batch, length in ((2, 5), (1, 5), (None, 5), (2, 3), (1, window)):
            x = torch.randn(batch or 1, channels, *[length] * dims)
            for x_format, weight_format in product(both, both):
                image = x.to(memory_format=x_format)
                agrees(
                    name,
                    partial(call, groups=groups),
                    image if batch else image[0],
                    weight.to(memory_format=weight_format),
                    idle=False,
                )


def test_of_one_hot() -> None:
    for x in orders(3, 2, 5):
        classes = x.abs().long() % 4
        made = Facts().of_call("one_hot", F.one_hot, (facts_of(classes), 4), {}).result
        assert made.stride == F.one_hot(classes, 4).stride()


WRITTEN: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "add": (lambda x, out: torch.add(x, 1, out=out), (3, 4)),
    "slice_scatter": (lambda x, out: torch.slice_scatter(x, x, out=out), (3, 4)),
    "cumsum": (lambda x, out: torch.cumsum(x, 0, out=out), (3, 4)),
    "kron": (lambda x, out: torch.kron(x, x, out=out), (9, 16)),
    "vector_norm": (lambda x, out: torch.linalg.vector_norm(x, dim=0, out=out), (4,)),
    "inv": (lambda x, out: torch.linalg.inv(x[:, :3], out=out), (3, 3)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_of_what_is_given_another_size_each_time_that_it_is_asked(name: str) -> None:
    call, size = WRITTEN[name]
    facts = Facts()
    for _ in range(3):
        x, out = facts_of(torch.randn(3, 4)), facts_of(torch.empty(0))
        outcome = facts.of_call(name, call, (x, out), {})
        assert [tuple(after.size) for after in outcome.arguments] == [(3, 4), size]
