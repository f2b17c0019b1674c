"""Folds: sums, extremes, truths, norms, moments. bfloat16 and float16 are folded in float32.

Where a float differs from ATen's, it is by the order of additions only. Moments are taken in two
passes, the mean first, where ATen goes once over the data by Welford's formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jitpkg.codegen.ir.builder import INDEX
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.promotion import as_float, computed_in, summed_in
from jitpkg.codegen.lowering.table import (
    Lowering,
    NotLowered,
    Row,
    Scalar,
    Tensor,
    dim_of,
    dims_of,
    named,
    product,
    reduced_sizes,
    require,
)
from jitpkg.codegen.lowering.views import view

Dims = Sequence[int] | int | None


def _in(k: Lowering, x: Tensor, dtype: torch.dtype) -> Tensor:
    """As what is folded to get a result of a dtype."""
    return k.cast(k.cast(x, dtype), computed_in(dtype))


# Sums and products


def sum_(
    k: Lowering,
    x: Tensor,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    return _total(k, "sum", x, dims, keepdim, dtype)


def _total(
    k: Lowering, op: str, x: Tensor, dims: Dims, keepdim: bool, dtype: torch.dtype | None
) -> Tensor:
    dtype = summed_in(x.dtype) if dtype is None else dtype
    require(dtype is not torch.bool, f"a {op} of truths as one")
    folded = k.fold(op, _in(k, x, dtype), dims_of(dims, x.rank), keepdim=keepdim)
    return k.cast(folded, dtype)


def _sum_all(k: Lowering, x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return sum_(k, x, dtype=dtype)


def _nansum(
    k: Lowering,
    x: Tensor,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    if x.dtype.is_floating_point:
        x = k.pointwise(lambda v: v.is_nan().where(0, v), [x])
    return sum_(k, x, dims, keepdim, dtype=dtype)


def mean(
    k: Lowering,
    x: Tensor,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    dtype = x.dtype if dtype is None else dtype
    require(dtype.is_floating_point, "a mean of integers")
    dims = dims_of(dims, x.rank)
    total = k.fold("sum", _in(k, x, dtype), dims, keepdim=keepdim)
    count = product([x.sizes[d] for d in dims])
    return k.cast(k.pointwise(lambda v: v / count, [total]), dtype)


def _mean_all(k: Lowering, x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return mean(k, x, dtype=dtype)


def _prod(
    k: Lowering,
    x: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    return _total(k, "prod", x, dim, keepdim, dtype)


def _prod_all(k: Lowering, x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return _prod(k, x, dtype=dtype)


def _count(k: Lowering, x: Tensor, dims: Dims = None) -> Tensor:
    return k.fold("sum", x, dims_of(dims, x.rank), of=lambda v: v.cast(torch.bool).cast(INDEX))


def _trace(k: Lowering, x: Tensor) -> Tensor:
    require(x.rank == 2, "no matrix")
    dtype = summed_in(x.dtype)
    along = k.axis(min(x.sizes))
    value = x.get(along, along).cast(computed_in(dtype))
    return k.define((), dtype, lambda: value.fold("sum", [along]))


# Extremes


def extreme(k: Lowering, op: str, x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    require(all(x.sizes[d] for d in dims), "an extreme of nothing")
    return k.cast(k.fold(op, k.wide(x), dims, keepdim=keepdim), x.dtype)


def _extreme(op: str) -> Row:
    def row(k: Lowering, x: Tensor, dims: Dims = None, keepdim: bool = False) -> Tensor:
        return extreme(k, op, x, dims_of(dims, x.rank), keepdim)

    return row


def _aminmax(
    k: Lowering, x: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    dims = dims_of(dim, x.rank)
    return extreme(k, "min", x, dims, keepdim), extreme(k, "max", x, dims, keepdim)


def _place_of(op: str) -> Row:
    """The position of the first extreme; without a dim, among all elements in order."""

    def row(k: Lowering, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        require(x.numel > 0, "an extreme of nothing")
        if x.rank == 0:
            return k.define((), INDEX, lambda: k.index(0))
        if dim is not None:
            return k.fold(op, k.wide(x), [dim_of(dim, x.rank)], keepdim=keepdim)
        found = k.fold(op, k.wide(view(k, x, [x.numel])), [0])
        return view(k, found, [1] * x.rank) if keepdim else found

    return row


def _with_place(op: str) -> Row:
    place_of = _place_of(f"arg{op}")

    def row(k: Lowering, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        dims = dims_of(dim, x.rank)
        return extreme(k, op, x, dims, keepdim), place_of(k, x, dim, keepdim)

    return row


def _truth(op: str) -> Row:
    """Of bytes it is a byte. Of no dims, each element is one of its own."""

    def row(k: Lowering, x: Tensor, dims: Dims = None, keepdim: bool = False) -> Tensor:
        result = torch.uint8 if x.dtype is torch.uint8 else torch.bool
        if isinstance(dims, list | tuple) and not dims:
            return k.cast(k.cast(x, torch.bool), result)
        found = k.fold(
            op, x, dims_of(dims, x.rank), keepdim=keepdim, of=lambda v: v.cast(torch.bool)
        )
        return k.cast(found, result)

    return row


# Moments


def moments(
    k: Lowering, x: Tensor, dims: Sequence[int], correction: float
) -> tuple[Tensor, Tensor]:
    """Variance and mean with their dims kept, in the dtype of arithmetic."""
    x = k.wide(x)
    require(x.dtype.is_floating_point, "moments of integers")
    center = mean(k, x, dims, True) if dims else x
    count = product([x.sizes[d] for d in dims])
    distances = k.pointwise(lambda v, m: v - m, [x, center])
    squares = k.fold("sum", distances, dims, keepdim=True, of=lambda v: v * v)
    freedom = max(float(count) - correction, 0.0)
    variance = k.pointwise(lambda v: v / freedom, [squares])
    return variance, center


def _moments_row(finish: Callable[[Expr], Expr], with_mean: bool) -> Row:
    def row(
        k: Lowering,
        x: Tensor,
        dims: Dims = None,
        *,
        correction: Scalar | None = None,
        keepdim: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        dims = dims_of(dims, x.rank)
        correction = 1 if correction is None else correction
        require(product([x.sizes[d] for d in dims]) > correction, "no freedom: ATen warns of it")
        variance, center = moments(k, x, dims, correction)
        sizes = reduced_sizes(x.sizes, dims, keepdim)
        spread = view(k, k.cast(k.pointwise(finish, [variance]), x.dtype), sizes)
        return (spread, view(k, k.cast(center, x.dtype), sizes)) if with_mean else spread

    return row


def _by_bias(of: Row, with_dims: bool) -> Row:
    """The older overloads."""

    def of_dims(
        k: Lowering, x: Tensor, dims: Dims, unbiased: bool = True, keepdim: bool = False
    ) -> Any:
        return of(k, x, dims, correction=int(unbiased), keepdim=keepdim)

    def of_all(k: Lowering, x: Tensor, unbiased: bool = True) -> Any:
        return of(k, x, None, correction=int(unbiased))

    return of_dims if with_dims else of_all


_VAR = _moments_row(lambda v: v, with_mean=False)
_STD = _moments_row(Expr.sqrt, with_mean=False)
_VAR_MEAN = _moments_row(lambda v: v, with_mean=True)
_STD_MEAN = _moments_row(Expr.sqrt, with_mean=True)
_MOMENTS = {"var": _VAR, "std": _STD, "var_mean": _VAR_MEAN, "std_mean": _STD_MEAN}


# Norms


def norm(
    k: Lowering, x: Tensor, order: Scalar, dims: Sequence[int], keepdim: bool, dtype: torch.dtype
) -> Tensor:
    require(dtype.is_floating_point and x.dtype.is_floating_point, "a norm of integers")
    x = _in(k, x, dtype)
    finish: Callable[[Expr], Expr] = lambda v: v  # noqa: E731
    match order:
        case math.inf:
            require(all(x.sizes[d] for d in dims), "an extreme of nothing")
            found = k.fold("max", x, dims, keepdim=keepdim, of=abs)
        case float() if order == -math.inf:
            require(all(x.sizes[d] for d in dims), "an extreme of nothing")
            found = k.fold("min", x, dims, keepdim=keepdim, of=abs)
        case 0:
            found = k.fold("sum", x, dims, keepdim=keepdim, of=lambda v: v.ne(0).cast(v.dtype))
        case 1:
            found = k.fold("sum", x, dims, keepdim=keepdim, of=abs)
        case 2:
            found = k.fold("sum", x, dims, keepdim=keepdim, of=lambda v: v * v)
            finish = Expr.sqrt
        case _:
            by = float(order)
            found = k.fold("sum", x, dims, keepdim=keepdim, of=lambda v: abs(v).apply("pow", by))

            def finish(v: Expr) -> Expr:
                return v.apply("pow", 1 / by)

    return k.cast(k.pointwise(finish, [found]), dtype)


def _vector_norm(
    k: Lowering,
    x: Tensor,
    order: Scalar = 2,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    return norm(k, x, order, dims_of(dims, x.rank), keepdim, x.dtype if dtype is None else dtype)


def _norm(
    k: Lowering,
    x: Tensor,
    order: Scalar | None = 2,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    order = 2 if order is None else order
    return _vector_norm(k, x, order, dims, keepdim, dtype=dtype)


def _logsumexp(k: Lowering, x: Tensor, dims: Dims, keepdim: bool = False) -> Tensor:
    dtype = as_float(x.dtype)
    dims = dims_of(dims, x.rank)
    if not all(x.sizes[d] for d in dims):
        raise NotLowered("an extreme of nothing")
    x = _in(k, x, dtype)
    most = k.fold("max", x, dims, keepdim=True)
    shift = k.pointwise(lambda m: abs(m).eq(math.inf).where(0, m), [most])
    total = k.fold("sum", k.pointwise(lambda v, m: (v - m).exp(), [x, shift]), dims, keepdim=True)
    made = k.pointwise(lambda t, m: t.log() + m, [total, shift])
    return view(k, k.cast(made, dtype), reduced_sizes(x.sizes, dims, keepdim))


_NORMS = "norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype"

ROWS: Mapping[str, Any] = named(
    {
        "sum": _sum_all,
        "sum.dim_IntList": sum_,
        "nansum": _nansum,
        "mean": _mean_all,
        "mean.dim": mean,
        "prod": _prod_all,
        "prod.dim_int": _prod,
        "count_nonzero count_nonzero.dim_IntList": _count,
        "trace": _trace,
        "amax max": _extreme("max"),
        "amin min": _extreme("min"),
        "aminmax": _aminmax,
        "max.dim": _with_place("max"),
        "min.dim": _with_place("min"),
        "argmax": _place_of("argmax"),
        "argmin": _place_of("argmin"),
        "any any.dim any.dims": _truth("any"),
        "all all.dim all.dims": _truth("all"),
        **{f"{name}.correction": row for name, row in _MOMENTS.items()},
        **{f"{name}.dim": _by_bias(row, with_dims=True) for name, row in _MOMENTS.items()},
        **{f"{name}.default": _by_bias(row, with_dims=False) for name, row in _MOMENTS.items()},
        "linalg_vector_norm": _vector_norm,
        _NORMS: _norm,
        "logsumexp": _logsumexp,
    }
)
