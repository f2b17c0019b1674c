"""Ops of torch that compute with sizes, or test a Python value."""

from __future__ import annotations

from typing import Any

import torch


def sym_size(x: Any, dim: int, /) -> Any:
    """`torch.ops.aten.sym_size.int`"""
    return x.size(dim)


def sym_stride(x: Any, dim: int, /) -> Any:
    """`torch.ops.aten.sym_stride.int`"""
    return x.stride(dim)


def sym_numel(x: Any, /) -> Any:
    """`torch.ops.aten.sym_numel`"""
    return x.numel()


def assert_scalar(condition: Any, message: str, /) -> None:
    """`torch.ops.aten._assert_scalar`"""
    if not condition:
        raise RuntimeError(message)


def tensor_of_number(number: float, /, **kwargs: Any) -> torch.Tensor:
    """`torch.tensor(number)`"""
    return torch.fill(torch.zeros((), **kwargs), number)
