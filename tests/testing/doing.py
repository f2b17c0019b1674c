"""What the functions of `test_same` do: they raise, print, count, draw random numbers."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

COUNT = 0
KEPT: list[int] = []


class Counter:
    made = 0

    def __init__(self) -> None:
        self.n = 0


def ones(*shape: int, **settings: Any) -> torch.Tensor:
    return torch.ones(shape, **settings)


def raising(kind: type[Exception], *args: object) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        raise kind(*args)

    return function


def raising_inside(kind: type[Exception], *args: object) -> Callable[..., Any]:
    inner = raising(kind, *args)
    return lambda x: inner(x)


def with_cause(x: Any) -> Any:
    raise ValueError("no") from KeyError("why")


def printing(*words: str, file: Callable[[], Any] = lambda: sys.stdout) -> Callable[..., Any]:
    return lambda x: print("\n".join(words), file=file())


def warning(text: str, category: type[Warning] = UserWarning) -> Callable[..., Any]:
    return lambda x: warnings.warn(text, category, stacklevel=1)


def counting(by: int) -> Callable[..., Any]:
    def function(x: Any) -> None:
        global COUNT
        COUNT += by

    return function


def keeping(n: int) -> Callable[..., Any]:
    return lambda x: KEPT.append(n)


def class_counting(by: int) -> Callable[..., Any]:
    def function(x: Any) -> None:
        Counter.made += by

    return function


def drawing(draw: Callable[[], object]) -> Callable[..., Any]:
    def function(x: Any) -> None:
        draw()

    return function


def noted(note: str) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        error = ValueError("no")
        error.add_note(note)
        raise error

    return function


def while_handling(x: Any) -> Any:
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("no")  # noqa: B904  (what is tested)


def with_value(value: int) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        error = ValueError("no")
        error.value = value  # type: ignore[attr-defined]
        raise error

    return function


def in_inference_mode(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x + 1


def has_gradient(x: torch.Tensor, *strides: int) -> None:
    x.grad = torch.ones(9).as_strided(x.shape, strides)


def default_of(a: list[int] = []) -> list[int]:  # noqa: B006  (what is tested)
    return a


def nothing(_: object) -> None:
    return None


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no gradient")


def written(x: torch.Tensor) -> torch.Tensor:
    x.add_(1).sub_(1)
    return x
