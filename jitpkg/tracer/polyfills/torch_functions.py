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


def assert_async(tensor: torch.Tensor, assert_msg: str = "", /) -> None:
    """`torch._assert_async(tensor, assert_msg)`"""
    if not tensor:
        check_that_fails(RuntimeError, tensor, assert_msg)
        raise RuntimeError  # so that the condition is guessed to hold


def is_in_onnx_export() -> bool:
    """`torch.onnx.is_in_onnx_export()`"""
    return exports()


def exports() -> bool:
    """The tracer asks torch, with a guard."""
    raise NotImplementedError


def variable(data: Any, requires_grad: bool, volatile: bool, /) -> torch.Tensor:
    """`torch.autograd.Variable(data, requires_grad)`"""
    made: torch.Tensor = data.detach()
    return made.requires_grad_() if requires_grad else made


def check(condition: Any, message: Any = None) -> None:
    """`torch._check(condition, message)`"""
    check_with(RuntimeError, condition, message)


def check_with(error_type: type[Exception], condition: Any, message: Any = None) -> None:
    """`torch._check_with(error_type, condition, message)`"""
    if type(condition) is not bool:
        check_that_fails(error_type, condition, message)
    if not condition:
        check_that_fails(error_type, condition, message)
        raise error_type  # so that a condition on data is guessed to hold


def check_that_fails(error_type: type[Exception], condition: Any, message: Any) -> None:
    """Call torch's function for real, which raises: the tracer ends the trace here."""
    raise NotImplementedError


def tensor_of_number(number: float, /, **kwargs: Any) -> torch.Tensor:
    """`torch.tensor(number)`"""
    return torch.fill(torch.zeros((), **kwargs), number)
