"""What contexts do to samples.

A change gets an op and a sample, and yields samples in its place, none where it does not fit. Each
is a tuple of versions: the arguments of one call after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.opinfo.samples import Call, tensors

Versions = tuple[Call, ...]
Change = Callable[[Any, Call], Iterator[Versions]]


def nothing(op: Any, call: Call) -> Iterator[Versions]:
    yield (call,)


def bare(op: Any, call: Call) -> Iterator[Versions]:
    """Without `dtype=`, which the database gives to each function that makes a tensor."""
    if "dtype" in call[1]:
        yield (_bare(call),)


def bare_or_not(op: Any, call: Call) -> Iterator[Versions]:
    yield (_bare(call),)


def _bare(call: Call) -> Call:
    args, kwargs = call
    return args, {name: value for name, value in kwargs.items() if name not in _DEFAULTS}


_DEFAULTS = ("dtype", "device", "requires_grad", "layout")


def _plain(x: torch.Tensor) -> bool:
    return type(x) is torch.Tensor and x.layout is torch.strided and not x.is_nested


def each(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """The sample with something else for each tensor: the same for the same one."""
    known: dict[int, torch.Tensor] = {}

    def of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = change(leaf)
        return known[id(leaf)]

    changed: Call = pytree.tree_map(of, call)
    return changed


def mapped(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """The same, where what requires grad goes on requiring it, as a leaf."""

    def of(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return change(x.detach()).detach().requires_grad_(x.requires_grad)

    return each(call, of)


def _of_tensors(
    change: Callable[[torch.Tensor], torch.Tensor], fits: Callable[[torch.Tensor], bool]
) -> Change:
    """A change of each tensor, for samples of which at least one changes."""

    def of(op: Any, call: Call) -> Iterator[Versions]:
        given = tensors(call)
        if all(map(_plain, given)) and any(map(fits, given)):
            yield (mapped(call, lambda x: change(x) if fits(x) else x),)

    return of


# How tensors lie in memory


def _expanded(x: torch.Tensor) -> torch.Tensor:
    dim = next(k for k, size in enumerate(x.shape) if size > 1)
    return x.narrow(dim, 0, 1).clone().expand(x.shape)


def _sliced(x: torch.Tensor) -> torch.Tensor:
    shape = x.shape or (1,)
    larger = x.new_ones((*shape[:-1], shape[-1] + 3))
    view = larger[..., 2:-1]
    view = view if x.dim() else view[0]
    return view.copy_(x)


def _spaced(x: torch.Tensor) -> torch.Tensor:
    larger = x.new_ones((*x.shape[:-1], 2 * x.shape[-1] + 1))
    return larger[..., 1::2].copy_(x)


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1)


expanded = _of_tensors(_expanded, lambda x: any(size > 1 for size in x.shape))
sliced = _of_tensors(_sliced, lambda x: True)
spaced = _of_tensors(_spaced, lambda x: x.dim() > 0)
transposed = _of_tensors(_transposed, lambda x: x.dim() > 1)


def images(op: Any, call: Call) -> Iterator[Versions]:
    """Channels last: tensors of 4 or 5 dims as they are, and where there are none of these all with
    dims in front, so that there are two images of one channel."""
    given = tensors(call)
    if not all(map(_plain, given)):
        return
    if any(x.dim() in _FORMATS for x in given):
        yield (mapped(call, _channels_last),)
    elif all(1 < x.dim() < 4 for x in given) and given:
        yield (mapped(call, lambda x: _channels_last(_as_images(x))),)


_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    if x.dim() not in _FORMATS:
        return x
    # `contiguous` leaves one that is both as it is
    made = torch.empty(x.shape, dtype=x.dtype, memory_format=_FORMATS[x.dim()])
    return made.copy_(x)


def _as_images(x: torch.Tensor) -> torch.Tensor:
    x = x.reshape((1,) * (4 - x.dim()) + x.shape)
    return x.repeat(2, 1, 1, 1) if x.shape[0] == 1 else x


def aliased(op: Any, call: Call) -> Iterator[Versions]:
    """One tensor in place of those that look like it."""
    known: dict[Any, torch.Tensor] = {}

    def of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return known.setdefault((leaf.shape, leaf.dtype), leaf)

    given = tensors(call)
    if all(map(_plain, given)):
        made = pytree.tree_map(of, call)
        if len(known) < len(given):
            yield (made,)


# Sizes


def _first(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1)[0].clone() if x.numel() else x.new_ones(())


scalars = _of_tensors(_first, lambda x: x.dim() > 0)


def empty(op: Any, call: Call) -> Iterator[Versions]:
    """One size is zero, wherever it occurs; once the first size, once the last one."""
    given = tensors(call)
    sizes = [x.shape for x in given if x.dim() and x.numel()]
    if not sizes or not all(map(_plain, given)):
        return
    for gone in dict.fromkeys((sizes[0][0], sizes[0][-1])):

        def emptied(x: torch.Tensor, gone: int = gone) -> torch.Tensor:
            return x.new_ones([0 if size == gone else size for size in x.shape])

        yield (mapped(call, lambda x, change=emptied: change(x) if x.dim() else x),)


def growing(op: Any, call: Call) -> Iterator[Versions]:
    """All sizes from 2 on grow; then only the first one of each tensor; then with ints that are
    such sizes."""
    given = tensors(call)
    if not all(map(_plain, given)) or not any(size > 1 for x in given for size in x.shape):
        return
    yield tuple(mapped(call, lambda x, by=by: _grown(x, by, x.dim())) for by in range(3))
    yield tuple(mapped(call, lambda x, by=by: _grown(x, by, 1)) for by in range(3))
    sizes = {size for x in given for size in x.shape if size > 1}
    yield tuple(
        _with_numbers(
            mapped(call, lambda x, by=by: _grown(x, by, x.dim())),
            lambda n, by=by: n + by if type(n) is int and n in sizes else n,
        )
        for by in range(3)
    )


def _grown(x: torch.Tensor, by: int, dims: int) -> torch.Tensor:
    for dim in range(min(dims, x.dim())):
        size = x.shape[dim]
        if size > 1:
            x = x.index_select(dim, torch.arange(size + by) % size)
    return x.clone()


def counting(op: Any, call: Call) -> Iterator[Versions]:
    """All numbers grow; then only floats; then one number after the other; without `dtype=`."""
    call = _bare(call)
    leaves = pytree.tree_leaves(call)
    numbers = [k for k, leaf in enumerate(leaves) if type(leaf) in (int, float)]
    floats = [k for k in numbers if type(leaves[k]) is float]
    every = [numbers, floats, *([k] for k in numbers[:3])]
    for chosen in [list(each) for each in dict.fromkeys(map(tuple, every)) if each]:
        yield tuple(_counted(mapped(call, torch.clone), chosen, by) for by in range(3))


def _counted(call: Call, chosen: list[int], by: int) -> Call:
    leaves, spec = pytree.tree_flatten(call)
    for k in chosen:
        leaves[k] += by if type(leaves[k]) is int else by * 0.25
    return pytree.tree_unflatten(leaves, spec)


def _with_numbers(call: Call, change: Callable[[Any], Any]) -> Call:
    return pytree.tree_map(change, call)


# One tensor that may not fit


def misfits(op: Any, call: Call) -> Iterator[Versions]:
    """One tensor after the other is of another size: its first or last dim is shorter, longer, of
    one element or of none; or it has a dim less, or more."""
    if op.name not in _UNCHECKED:
        yield from _one_after_the_other(call, _of_other_sizes)


_UNCHECKED = frozenset(
    """
    _batch_norm_with_update _native_batch_norm_legit linalg.lstsq lu_unpack native_batch_norm
    nn.functional.ctc_loss nn.functional.embedding_bag nn.functional.pdist segment_reduce
    """.split()
)
"""Ops that read or write beyond the end of what does not fit: eager code may die of it."""


def _of_other_sizes(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for dim in dict.fromkeys((0, x.dim() - 1) if x.dim() else ()):
        size = x.shape[dim]
        for other in dict.fromkeys((size - 1, size + 1, 1, 0)):
            if size and 0 <= other != size:
                yield x.index_select(dim, torch.arange(other, device=x.device) % size)
    if x.dim() and x.shape[0]:
        yield x[0].clone()
    yield x[None].clone()


def of_other_dtypes(op: Any, call: Call) -> Iterator[Versions]:
    """One tensor after the other is of another dtype."""
    yield from _one_after_the_other(call, _of_other_dtypes)


def _of_other_dtypes(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for dtype in _KINDS:
        if dtype is not x.dtype and (dtype.is_complex or not x.is_complex()):
            yield x.to(dtype)


_KINDS = (torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.complex64)


def all_of_another_dtype(op: Any, call: Call) -> Iterator[Versions]:
    """All floats are of another dtype, which the op may not have."""
    floats = {x.dtype for x in tensors(call) if x.is_floating_point()}
    for dtype in (torch.bfloat16, torch.float16, torch.complex64):
        if floats and dtype not in floats and all(map(_plain, tensors(call))):
            yield (mapped(call, lambda x, to=dtype: x.to(to) if x.is_floating_point() else x),)


def of_other_numbers(op: Any, call: Call) -> Iterator[Versions]:
    """One number after the other is another one, perhaps one that does not fit."""
    leaves, spec = pytree.tree_flatten(call)
    numbers = [k for k, leaf in enumerate(leaves) if type(leaf) in (bool, int, float)]
    if op.name in _UNCHECKED_NUMBERS or not all(map(_plain, tensors(call))):
        return
    for k in numbers[:NUMBERS]:
        for number in _others(leaves[k]):
            changed = [*leaves[:k], number, *leaves[k + 1 :]]
            yield (mapped(pytree.tree_unflatten(changed, spec), torch.clone),)


_UNCHECKED_NUMBERS = frozenset(["grid_sampler_2d", "grid_sampler_3d"])
"""Ops that take whatever an int says for a way to go."""


def _others(number: float) -> Iterator[float]:
    if isinstance(number, bool):
        yield not number
    elif isinstance(number, int):
        yield from dict.fromkeys((number - 1, number + 1, -number, 0, -number - 1, number + 7))
    else:
        yield from (0.0, -number, number + 1.5, 1.0, math.inf, math.nan)


NUMBERS = 6
"""So many numbers of a sample, the first ones, are changed one after the other."""


def _one_after_the_other(
    call: Call, change: Callable[[torch.Tensor], Iterator[torch.Tensor]]
) -> Iterator[Versions]:
    given = list({id(x): x for x in tensors(call)}.values())
    if not all(map(_plain, given)):
        return
    for chosen in given[:MISFITS]:
        with torch.no_grad():
            made = list(change(chosen.detach()))
        for other in made:
            other.requires_grad_(chosen.requires_grad and _is_inexact(other))
            yield (each(call, lambda x, a=chosen, b=other: b if x is a else x),)


MISFITS = 4
"""So many tensors of a sample, the first ones, are changed one after the other."""


# Values

SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-40, -1.0, 3e38, 0.5, 1.0)


def special(op: Any, call: Call) -> Iterator[Versions]:
    """Special values in all floats, and others beside them in each."""
    given = tensors(call)
    if not all(map(_plain, given)) or not any(map(_is_inexact, given)):
        return
    starts = count(0, 3)

    def changed(x: torch.Tensor) -> torch.Tensor:
        return _special(x, next(starts)) if _is_inexact(x) else x.clone()

    yield (mapped(call, changed),)


def _is_inexact(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _special(x: torch.Tensor, start: int) -> torch.Tensor:
    flat = x.reshape(-1).clone()
    values = (*SPECIAL[start % len(SPECIAL) :], *SPECIAL[: start % len(SPECIAL)])
    for k, value in enumerate(values[: flat.numel()]):
        flat[k] = complex(value, values[k - 1]) if x.is_complex() else value
    return flat.reshape(x.shape)


# Modes


def one_leaf(op: Any, call: Call) -> Iterator[Versions]:
    """Only the first tensor that may require grad does; then only the last one."""
    leaves = [x for x in tensors(call) if x.requires_grad and x.is_leaf]
    if len({id(x) for x in leaves}) < 2:
        return
    for kept in (leaves[0], leaves[-1]):

        def of(leaf: Any, kept: torch.Tensor = kept) -> Any:
            if leaf is kept or not isinstance(leaf, torch.Tensor):
                return leaf
            return leaf.detach()

        yield (pytree.tree_map(of, call),)


def requiring(op: Any, call: Call) -> Iterator[Versions]:
    """What may require grad does: leaves, then what is computed from some."""
    if not all(map(_plain, tensors(call))):
        return

    def leaf(x: torch.Tensor) -> torch.Tensor:
        return x.detach().clone().requires_grad_(_is_inexact(x))

    yield (each(call, leaf),)
    yield (each(call, lambda x: leaf(x) * 1),)


def inference(op: Any, call: Call) -> Iterator[Versions]:
    if all(map(_plain, tensors(call))):
        with torch.inference_mode():
            yield (mapped(call, torch.clone),)


def given_out(op: Any, call: Call) -> Iterator[Versions]:
    """With `out=` of the right size, and one that has to be resized."""
    args, kwargs = call
    if not op.supports_out or "out" in kwargs:
        return
    try:
        result = op.op(*args, **kwargs)
    except Exception:
        return
    results = tensors(result)
    if not results or not all(map(_plain, results)):
        return
    out = torch.empty_like(result) if isinstance(result, torch.Tensor) else _like(result)
    yield ((args, {**kwargs, "out": out}),)
    if isinstance(result, torch.Tensor) and not any(x is result for x in tensors(call)):
        yield ((args, {**kwargs, "out": result.new_empty(0)}),)


def _like(results: Any) -> Any:
    return tuple(torch.empty_like(x) for x in results)
