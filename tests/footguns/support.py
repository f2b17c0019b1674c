"""What the cases share."""

from collections.abc import Callable

import torch
from torch import nn


def graph_break() -> None:
    """Stands for the implementation's own, which takes its place in each file of cases."""


def floats(*values: float) -> torch.Tensor:
    return torch.tensor([float(x) for x in values])


def plain(value: object) -> object:
    """Tensors as lists of numbers, in containers too: something to compare and to print."""
    match value:
        case torch.Tensor():
            return [_number(x, value.dtype) for x in value.detach().reshape(-1)]
        case list() | tuple():
            return [plain(x) for x in value]
        case dict():
            return {str(k): plain(v) for k, v in value.items()}
        case _:
            return value


def _number(x: torch.Tensor, dtype: torch.dtype) -> float | bool | int:
    if dtype.is_floating_point:
        return round(float(x), 4)
    return bool(x) if dtype == torch.bool else int(x)


def outcome(f: Callable[..., object], *args: object, **kwargs: object) -> tuple[object, ...]:
    """The value, or the type and the message of the exception."""
    try:
        return "ok", plain(f(*args, **kwargs))
    except Exception as e:
        return "exc", type(e).__name__, str(e)[:60]


class CountingScale(nn.Module):
    """A parameter, a buffer that counts the calls, and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(floats(2))
        self.register_buffer("cnt", torch.zeros(()))
        self.k = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cnt += 1
        return x * self.w * self.k + self.cnt


def increment(x: torch.Tensor) -> torch.Tensor:
    return x + 1
