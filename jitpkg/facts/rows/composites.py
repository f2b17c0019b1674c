"""Functions that compute sizes in C++: Fourier transforms, patches of images, parts of
matrices, and a few more.

See `jitpkg.facts.rows.lengths`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.asked import asked_once
from jitpkg.facts.rows.common import empty, sure
from jitpkg.facts.rows.functions import Made, one
from jitpkg.facts.rows.layers import windows
from jitpkg.facts.tensor import contiguous_stride

_FLOATS = (torch.float32, torch.float64)
_INTS = (int, torch.SymInt)
_COMPLEX_OF: Mapping[torch.dtype, torch.dtype] = MappingProxyType(
    {torch.float32: torch.complex64, torch.float64: torch.complex128}
)
_REAL_OF = MappingProxyType({made: given for given, made in _COMPLEX_OF.items()})


def _is_contiguous(x: Any) -> bool:
    """Also in dims of size 1, whose strides a result may show."""
    return all(a == b for a, b in zip(x.stride(), contiguous_stride(tuple(x.shape)), strict=True))


# Fourier transforms

_NORMS = (None, "forward", "backward", "ortho")


def _transform(
    dtype_of: Mapping[torch.dtype, torch.dtype], default: Any, size_of: Any
) -> Callable[..., tuple[Made, Any]]:
    """A transform along one dim.

    Args:
        dtype_of: the result's dtype by the input's.
        default: from the dim's size to the length `n` where it is not given.
        size_of: from `n` to the size of the result.
    """

    def row(
        input: Any,  # noqa: A002
        n: Any = None,
        dim: Any = -1,
        norm: str | None = None,
    ) -> tuple[Made, Any]:
        x = input
        sure(x.dtype in dtype_of and type(dim) is int and -x.dim() <= dim < x.dim())
        sure(norm in _NORMS and x.numel() > 0 and _transformed_dim_is_innermost())
        sure(x.dim() < 3 or _is_contiguous(x))
        dim %= x.dim()
        others = [step for k, step in enumerate(x.stride()) if k != dim]
        sure(all(a > b for a, b in pairwise(others)))  # it sorts them, and not stably
        length = default(x.shape[dim]) if n is None else n
        sure(type(length) in _INTS and length > 0)
        size = [*x.shape]
        size[dim] = size_of(length)
        return one(_with_innermost(size, dim, dtype_of[x.dtype]), x)

    return row


def _with_innermost(size: Sequence[int], dim: int, dtype: torch.dtype) -> torch.Tensor:
    """What is contiguous but for one dim, whose elements lie side by side."""
    order = [*(k for k in range(len(size)) if k != dim), dim]
    stride, step = [1] * len(size), 1
    for k in reversed(order):
        stride[k] = step
        step = step * size[k]
    made: torch.Tensor = empty(size, dtype, stride)
    return made


@asked_once
def _transformed_dim_is_innermost() -> bool:
    """Whether results lie as with MKL; another library may be built in."""
    x = torch.ones(2, 3, 4, dtype=torch.float32, device="cpu")
    made = torch.fft.rfft(x, dim=1), torch.fft.fft(x, dim=1), torch.fft.irfft(x + 0j, n=3, dim=1)
    return [t.stride() for t in made] == [(8, 1, 2), (12, 1, 3), (12, 1, 3)]


def _same(length: Any) -> Any:
    return length


_COMPLEX = MappingProxyType({**_COMPLEX_OF, **{dtype: dtype for dtype in _REAL_OF}})
_TRANSFORMS: Mapping[str, Callable[..., tuple[Made, Any]]] = MappingProxyType(
    {
        "fft_fft": _transform(_COMPLEX, _same, _same),
        "fft_ifft": _transform(_COMPLEX, _same, _same),
        "fft_rfft": _transform(_COMPLEX_OF, _same, lambda n: n // 2 + 1),
        "fft_irfft": _transform(_REAL_OF, lambda size: 2 * (size - 1), _same),
    }
)


# Patches of images


def _unfold(
    input: Any,  # noqa: A002
    kernel_size: Any,
    *settings: Any,
    **named: Any,
) -> tuple[Made, Any]:
    """`F.unfold`. `Tensor.unfold` has the same name, and three numbers as arguments."""
    x = input
    sure(type(kernel_size) in (tuple, list) or len(settings) != 2 or bool(named))
    sure(x.dtype in _FLOATS and x.dim() in (3, 4) and x.numel() > 0)
    kernel, counts = _patches(x.shape[-2:], kernel_size, *settings, **named)
    channels = x.shape[-3] * kernel[0] * kernel[1]
    return one(empty((*x.shape[:-3], channels, counts[0] * counts[1]), x.dtype), x)


def _fold(
    input: Any,  # noqa: A002
    output_size: Any,
    kernel_size: Any,
    *settings: Any,
    **named: Any,
) -> tuple[Made, Any]:
    x, lengths = input, _pair(output_size, _INTS)
    sure(x.dtype in _FLOATS and x.dim() in (2, 3) and x.numel() > 0)
    kernel, counts = _patches(lengths, kernel_size, *settings, **named)
    each = kernel[0] * kernel[1]
    sure(x.shape[-1] == counts[0] * counts[1] and x.shape[-2] % each == 0)
    return one(empty((*x.shape[:-2], x.shape[-2] // each, *lengths), x.dtype), x)


def _patches(
    lengths: Sequence[Any], kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> tuple[list[Any], list[Any]]:
    """The size of a patch, and how many there are along each dim."""
    kernel, dilation, padding, stride = map(_pair, (kernel_size, dilation, padding, stride))
    sure(min(*kernel, *dilation, *stride) > 0 and min(padding) >= 0)
    over = zip(lengths, kernel, stride, padding, dilation, strict=True)
    return kernel, [windows(*each) for each in over]


def _pair(given: Any, kinds: tuple[type, ...] = (int,)) -> list[Any]:
    pair = list(given) if isinstance(given, tuple | list) else [given] * 2
    sure(len(pair) == 2 and all(type(n) in kinds for n in pair))
    return pair


# Parts of matrices


def _trace(input: Any) -> tuple[Made, Any]:  # noqa: A002
    sure(input.dim() == 2 and input.dtype in _FLOATS)
    return one(empty((), input.dtype), input)


def _lower(rows: Any, columns: Any, offset: int) -> Any:
    """How many elements of a matrix lie on a diagonal or below it."""
    first = max(0, -offset)
    if rows <= first:
        return 0
    whole = columns - offset - 1  # from this row on, all columns
    whole = first if whole < first else rows if whole > rows else whole
    ends = first + whole + 1 + 2 * offset
    return ends * (whole - first) // 2 + (rows - whole) * columns


def _lower_indices(row: Any, col: Any, offset: Any = 0, **given: Any) -> tuple[Made, Any]:
    _check_indices(row, col, offset, given)
    return one(empty((2, _lower(row, col, offset)), torch.int64))


def _upper_indices(row: Any, col: Any, offset: Any = 0, **given: Any) -> tuple[Made, Any]:
    _check_indices(row, col, offset, given)
    return one(empty((2, row * col - _lower(row, col, offset - 1)), torch.int64))


def _check_indices(row: Any, col: Any, offset: Any, given: Mapping[str, Any]) -> None:
    sure(type(row) in _INTS and type(col) in _INTS and type(offset) is int)
    sure(row > 0 and col > 0)
    sure(given.keys() <= {"dtype", "device"} and given.get("dtype") in (None, torch.int64))


def _kron(input: Any, other: Any) -> tuple[Made, Any]:  # noqa: A002
    sure(input.dtype is other.dtype and input.dtype in _FLOATS)
    sure(input.dim() == other.dim() and _is_contiguous(input) and _is_contiguous(other))
    sure(input.numel() > 0 and other.numel() > 0)
    size = [a * b for a, b in zip(input.shape, other.shape, strict=True)]
    return one(empty(size, input.dtype), input, other)


def _take_along_dim(input: Any, indices: Any, dim: Any = None) -> tuple[Made, Any]:  # noqa: A002
    """Without broadcasting."""
    x = input
    sure(x.dtype in _FLOATS and indices.dtype is torch.int64 and x.dim() == indices.dim())
    sure(type(dim) is int and -x.dim() <= dim < x.dim() and indices.numel() > 0)
    sizes = enumerate(zip(x.shape, indices.shape, strict=True))
    sure(all(k == dim % x.dim() or a == b for k, (a, b) in sizes))
    return one(empty(indices.shape, x.dtype), x)


def _block_diag(*tensors: Any) -> tuple[Made, Any]:
    dtype = tensors[0].dtype
    sure(dtype in _FLOATS and all(t.dtype is dtype and t.dim() == 2 for t in tensors))
    rows, columns = (sum(t.shape[k] for t in tensors) for k in (0, 1))
    return one(empty((rows, columns), dtype), *tensors)


# Others


def _complex(real: Any, imag: Any) -> tuple[Made, Any]:
    """`complex` and `polar`, of tensors of one layout."""
    sure(real.dtype in _FLOATS and real.dtype is imag.dtype and real.dim() == imag.dim())
    sure(all(a == b for a, b in zip(real.shape, imag.shape, strict=True)))
    sure(_is_contiguous(real) and _is_contiguous(imag))
    return one(empty(real.shape, _COMPLEX_OF[real.dtype]), real, imag)


def _pad_sequence(
    sequences: Any,
    batch_first: Any = False,
    padding_value: Any = 0.0,
    padding_side: str = "right",
) -> tuple[Made, Any]:
    """Each order of the lengths goes a way of its own."""
    sure(type(sequences) in (list, tuple) and len(sequences) > 0)
    sure(type(batch_first) is bool and type(padding_value) in (int, float))
    sure(padding_side in ("left", "right"))
    first = sequences[0]
    sure(first.dtype in _FLOATS and first.dim() > 0)
    longest = first.shape[0]
    for each in sequences:
        sure(each.dtype is first.dtype and each.dim() == first.dim())
        sure(all(a == b for a, b in zip(each.shape[1:], first.shape[1:], strict=True)))
        longest = longest if each.shape[0] <= longest else each.shape[0]
    lead = (len(sequences), longest) if batch_first else (longest, len(sequences))
    return one(empty((*lead, *first.shape[1:]), first.dtype), *sequences)


def _affine_grid(theta: Any, size: Any, align_corners: Any = None) -> tuple[Made, Any]:
    """Where it does not warn."""
    sure(theta.dtype in _FLOATS and theta.dim() == 3 and type(align_corners) is bool)
    sure(len(size) == 4 and all(type(n) in _INTS and n > 0 for n in size))
    batch, _, *lengths = size
    sure(theta.shape[0] == batch and tuple(theta.shape[1:]) == (2, 3))
    sure(all(n > 1 for n in lengths))
    return one(empty((batch, *lengths, 2), theta.dtype), theta)


COMPOSITE_ROWS: Mapping[str, Callable[..., tuple[Made, Any]]] = MappingProxyType(
    {
        **_TRANSFORMS,
        "unfold": _unfold,
        "fold": _fold,
        "trace": _trace,
        "tril_indices": _lower_indices,
        "triu_indices": _upper_indices,
        "kron": _kron,
        "block_diag": _block_diag,
        "complex": _complex,
        "polar": _complex,
        "pad_sequence": _pad_sequence,
        "affine_grid": _affine_grid,
        "take_along_dim": _take_along_dim,
    }
)
"""By the name of the function."""
