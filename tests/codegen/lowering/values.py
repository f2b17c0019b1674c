"""Tensors of every dtype, layout and odd value."""

import random

import torch

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16)
EVERY = (*FLOATS, *INTEGERS, torch.bool)
LAYOUTS = ("contiguous", "transposed", "expanded", "sliced", "offset")
SHAPES = ((), (0,), (1,), (7,), (3, 5), (1, 4), (2, 3, 4), (4, 1, 2), (2, 0, 3))

_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.0, -3.25, 7.75, -11.5, 21.0, 1e-3, -0.3, 0.7)
_ODD = (float("inf"), -float("inf"), float("nan"))
_WHOLE = (0, 1, 2, 3, 5, 7, 11, 100, -1, -2, -7, -100)


def tensor(
    rng: random.Random,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    layout: str = "contiguous",
    odd: bool = False,
) -> torch.Tensor:
    count = torch.Size(shape).numel()
    if dtype.is_floating_point:
        pool: tuple[float, ...] = (*_REALS, *_ODD) if odd else _REALS
    else:
        signed = dtype not in (torch.uint8, torch.bool)
        pool = tuple(v for v in _WHOLE if signed or v >= 0)
    values = torch.tensor([rng.choice(pool) for _ in range(count)], dtype=torch.float64)
    return laid_out(values.to(dtype).reshape(shape), layout)


def laid_out(t: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values, or for an expanded tensor some of them, otherwise in memory."""
    match layout:
        case "transposed" if t.dim() > 1:
            return t.transpose(0, -1).contiguous().transpose(0, -1)
        case "expanded" if t.dim() and t.shape[0]:
            return t[:1].expand(t.shape)
        case "sliced" if t.dim():
            wide = torch.stack([t, t.flip(0)], -1).flatten(-2)
            return wide[..., ::2]
        case "offset":
            return torch.cat([t.reshape(-1)[:1].repeat(3), t.reshape(-1)])[
                min(3, 3 * t.numel()) :
            ].view(t.shape)
        case _:
            return t
