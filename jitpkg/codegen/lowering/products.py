"""Matrix products that read each element of the larger matrix once: of one row, or by one column.

Memory decides how fast they are, not registers. So a fold is as fast as a library's product, or
faster, and what comes before and after is computed along with it. Floats differ from ATen's by the
order of additions only; bfloat16 and float16 are added up in float32, as there.
"""

from __future__ import annotations

from collections.abc import Callable

from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.promotion import computed_in
from jitpkg.codegen.lowering.table import Lowering, Scalar, Tensor, named, product, require

Element = Callable[..., Expr]
"""Of a product, by its index."""


def _folded(along: Expr, a: Expr, b: Expr) -> Expr:
    """The sum of products of two elements along an axis."""
    wide = computed_in(a.dtype)
    return (a.cast(wide) * b.cast(wide)).fold("sum", [along])


def _by(k: Lowering, rows: int, inner: int, columns: int) -> Expr:
    """The axis along which a row and a column are multiplied.

    Raises:
        NotLowered: a library's product may be faster.
    """
    require(k.device.type == "cpu", "products are the library's on this device")
    require(any(same(n, 1) for n in (rows, inner, columns)), "a product in registers")
    require(not same(inner, 0), "a product of nothing")
    return k.axis(inner)


def _element(k: Lowering, a: Tensor, b: Tensor) -> Element:
    """Of the product of two matrices, or of batches of them."""
    *_, rows, inner = a.sizes
    along = _by(k, rows, inner, b.sizes[-1])

    def element(*at: Expr) -> Expr:
        *batch, i, j = at
        return _folded(along, a.get(*batch, i, along), b.get(*batch, along, j))

    return element


def _sizes(a: Tensor, b: Tensor) -> tuple[int, ...]:
    return (*a.sizes[:-1], b.sizes[-1])


def _of_matrices(k: Lowering, a: Tensor, b: Tensor) -> Tensor:
    return k.define(_sizes(a, b), a.dtype, _element(k, a, b))


def _added(
    k: Lowering, added: Tensor, a: Tensor, b: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    require(beta == alpha == 1, "weighted summands")
    element = _element(k, a, b)
    wide = computed_in(a.dtype)
    return k.define(_sizes(a, b), a.dtype, lambda *at: element(*at) + k.operand(added, at, wide))


def _by_vector(k: Lowering, matrix: Tensor, vector: Tensor) -> Tensor:
    rows, inner = matrix.sizes
    along = _by(k, rows, inner, 1)
    return k.define(
        (rows,), matrix.dtype, lambda i: _folded(along, matrix.get(i, along), vector.get(along))
    )


def _dot(k: Lowering, a: Tensor, b: Tensor) -> Tensor:
    along = _by(k, 1, a.sizes[0], 1)
    return k.define((), a.dtype, lambda: _folded(along, a.get(along), b.get(along)))


def _linear(k: Lowering, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    require(weight.rank == 2, "no matrix")
    *rows, inner = x.sizes
    along = _by(k, product(rows), inner, weight.sizes[0])

    def element(*at: Expr) -> Expr:
        *row, column = at
        found = _folded(along, x.get(*row, along), weight.get(column, along))
        return found if bias is None else found + k.operand(bias, at, computed_in(x.dtype))

    return k.define((*rows, weight.sizes[0]), x.dtype, element)


ROWS = named(
    {
        "mm bmm": _of_matrices,
        "addmm baddbmm": _added,
        "mv": _by_vector,
        "dot": _dot,
        "linear": _linear,
    }
)
PRODUCTS = frozenset(ROWS)
"""Ops that are the library's, but for some sizes."""
