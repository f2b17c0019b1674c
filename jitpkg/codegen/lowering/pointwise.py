"""Ops that go element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from jitpkg.codegen.ir.nodes import Node
from jitpkg.codegen.lowering.table import Lowering, Row, Scalar, Tensor


def _of_one(op: str) -> Row:
    """A scalar op of floats; integers are taken as the default dtype."""

    def row(k: Lowering, x: Tensor) -> Tensor:
        dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        return k.elementwise(lambda v: k.builder.apply(op, v), [x], dtype)

    return row


def _of_two(op: str) -> Row:
    def row(k: Lowering, a: Tensor | Scalar, b: Tensor | Scalar) -> Tensor:
        return k.elementwise(lambda x, y: k.builder.apply(op, x, y), [a, b])

    return row


def _add(k: Lowering, a: Tensor, b: Tensor | Scalar, alpha: Scalar = 1) -> Tensor:
    return _with_alpha(k, "add", a, b, alpha)


def _sub(k: Lowering, a: Tensor, b: Tensor | Scalar, alpha: Scalar = 1) -> Tensor:
    return _with_alpha(k, "sub", a, b, alpha)


def _with_alpha(k: Lowering, op: str, a: Tensor, b: Tensor | Scalar, alpha: Scalar) -> Tensor:
    def element(x: Node, y: Node) -> Node:
        if alpha != 1:
            y = k.builder.apply("mul", y, k.builder.const(alpha, y.dtype))
        return k.builder.apply(op, x, y)

    return k.elementwise(element, [a, b])


def _relu(k: Lowering, x: Tensor) -> Tensor:
    def element(v: Node) -> Node:
        zero = k.builder.const(0, v.dtype)
        return k.builder.where(k.builder.apply("gt", zero, v), zero, v)  # NaN and -0.0 stay

    return k.elementwise(element, [x])


def _named(make: Callable[[str], Row], names: str) -> dict[str, Row]:
    return {f"aten.{name}": make(name) for name in names.split()}


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        **_named(_of_one, "exp sqrt sin cos tanh erf log"),
        **_named(_of_two, "mul"),
        "aten.add": _add,
        "aten.sub": _sub,
        "aten.relu": _relu,
    }
)
"""By the name of the op without its overload."""
