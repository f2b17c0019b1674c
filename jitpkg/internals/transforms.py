"""Running a function at a level of `torch.func`'s, as its transforms do.

The transforms themselves would do, too, but for one thing: those with derivatives import torch's
compiler, which takes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from jitpkg.internals import modes
from jitpkg.internals.row import Row

Function = Callable[..., Sequence[Tensor]]

forward_ad: Any = torch.autograd.forward_ad

_NAMES = """
    _add_batch_dim _remove_batch_dim is_batchedtensor _vmap_increment_nesting
    _vmap_decrement_nesting _wrap_for_grad _unwrap_for_grad _grad_increment_nesting
    _grad_decrement_nesting _jvp_increment_nesting _jvp_decrement_nesting
    get_inplace_requires_grad_allowed set_inplace_requires_grad_allowed
""".split()

_LOST = "calls of function transforms (torch.func) break the graph"

LEVELS = Row[Any](
    "torch._C._functorch",
    use="running what function transforms are given",
    lost=_LOST,
    works=lambda module: all(hasattr(module, name) for name in _NAMES),
)
VMAP, GRAD, GRAD_AND_VALUE, VJP, JVP = (
    Row[Callable[..., Any]](
        f"torch._functorch.{name}", use=f"knowing what {what} calls", lost=_LOST
    )
    for name, what in (
        ("vmap.vmap_impl", "vmap"),
        ("eager_transforms.grad_impl", "grad"),
        ("eager_transforms.grad_and_value_impl", "grad_and_value"),
        ("eager_transforms._vjp_with_argnums", "jacrev"),
        ("eager_transforms._jvp_with_argnums", "jacfwd"),
    )
)
DECOMPOSITIONS = Row[Callable[[], object]](
    "torch._functorch.vmap.lazy_load_decompositions",
    use="running under vmap what it knows by other ops only",
    lost=_LOST,
)


def load() -> None:
    """Let torch load what it loads at first use, and warn of that now."""
    DECOMPOSITIONS.get()()
    with forward_ad.dual_level():
        forward_ad.make_dual(torch.zeros(1), torch.zeros(1))


# vmap


def vmapped(
    function: Function,
    dims: Sequence[int | None],
    out_dims: Sequence[int | None],
    randomness: str,
    inputs: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """What `torch.func.vmap` returns of a function that takes and returns tensors.

    Args:
        dims: of the inputs, counted from 0.

    Raises:
        ValueError: what is to have no such dim has one.
    """
    levels = LEVELS.get()
    size = next(x.size(dim) for x, dim in zip(inputs, dims, strict=True) if dim is not None)
    level = levels._vmap_increment_nesting(size, randomness)
    try:
        given = [
            x if dim is None else levels._add_batch_dim(x, dim, level)
            for x, dim in zip(inputs, dims, strict=True)
        ]
        made = function(*given)
        for each, dim in zip(made, out_dims, strict=True):
            if dim is None and levels.is_batchedtensor(each):
                raise ValueError("a result has a dim that was not asked for")
        return tuple(
            [
                each if dim is None else levels._remove_batch_dim(each, level, size, dim)
                for each, dim in zip(made, out_dims, strict=True)
            ]
        )
    finally:
        levels._vmap_decrement_nesting()


# Derivatives


@contextmanager
def _level_of_gradients() -> Iterator[int]:
    levels = LEVELS.get()
    level: int = levels._grad_increment_nesting()
    try:
        with torch.enable_grad():
            yield level
    finally:
        levels._grad_decrement_nesting()


def _wrapped(
    inputs: Sequence[Tensor], wanted: Sequence[int], level: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors of a level; and those of them that require grad there."""
    levels = LEVELS.get()
    given: list[Tensor] = [levels._wrap_for_grad(x, level) for x in inputs]
    before = levels.get_inplace_requires_grad_allowed()
    levels.set_inplace_requires_grad_allowed(True)
    try:
        leaves = [given[k].requires_grad_() for k in wanted]
    finally:
        levels.set_inplace_requires_grad_allowed(before)
    return given, leaves


def _unwrapped(tensors: Sequence[Tensor], level: int) -> tuple[Tensor, ...]:
    levels = LEVELS.get()
    return tuple([levels._unwrap_for_grad(each, level) for each in tensors])


def _gradients(
    roots: Sequence[Tensor],
    leaves: Sequence[Tensor],
    tangents: Sequence[Tensor | None],
    *,
    create: bool,
) -> tuple[Tensor, ...]:
    """Zeros where nothing goes on to a leaf."""
    pairs = [(r, t) for r, t in zip(roots, tangents, strict=True) if r.requires_grad]
    if not pairs:
        return tuple([torch.zeros_like(leaf) for leaf in leaves])
    found: Any = torch.autograd.grad(
        [root for root, _ in pairs],
        list(leaves),
        [tangent for _, tangent in pairs],
        retain_graph=True,
        create_graph=create,
        allow_unused=True,
    )
    return tuple(
        [
            torch.zeros_like(leaf) if each is None else each
            for leaf, each in zip(leaves, found, strict=True)
        ]
    )


def differentiated(
    function: Function, wanted: Sequence[int], inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The gradients of the first result by some inputs, and then all results.

    Raises:
        RuntimeError: the first result is no number.
    """
    with _level_of_gradients() as level:
        given, leaves = _wrapped(inputs, wanted, level)
        made = function(*given)
        found = _gradients(made[:1], leaves, [None], create=True)
        return _unwrapped([*found, *made], level)


def at_a_level(
    function: Function, wanted: Sequence[int], inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The results, computed where some inputs require grad."""
    with _level_of_gradients() as level:
        return _unwrapped(function(*_wrapped(inputs, wanted, level)[0]), level)


def pulled_back(
    function: Function,
    wanted: Sequence[int],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """The products of cotangents and the Jacobian of the first results by some inputs."""
    with _level_of_gradients() as level:
        given, leaves = _wrapped(inputs, wanted, level)
        made = function(*given)[: len(cotangents)]
    create = torch.is_grad_enabled()
    return _gradients(made, leaves, cotangents, create=create)


def pushed_forward(
    function: Function,
    wanted: Sequence[int],
    count: int,
    inputs: Sequence[Tensor],
    tangents: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """The first results, their derivatives in the direction of tangents, and the other results."""
    levels = LEVELS.get()
    level: int = levels._jvp_increment_nesting()
    try:
        is_inside = modes.FORWARD_LEVEL.get()() >= 0
        with nullcontext() if is_inside else forward_ad.dual_level():
            given: list[Tensor] = [
                x if k in wanted else levels._wrap_for_grad(x, level) for k, x in enumerate(inputs)
            ]
            for k, tangent in zip(wanted, tangents, strict=True):
                given[k] = forward_ad.make_dual(given[k], tangent)
            made = function(*given)
            duals = [forward_ad.unpack_dual(each) for each in made[:count]]
            values = [dual.primal for dual in duals]
            found = [
                torch.zeros_like(dual.primal) if dual.tangent is None else dual.tangent
                for dual in duals
            ]
            return _unwrapped([*values, *found, *made[count:]], level)
    finally:
        levels._jvp_decrement_nesting()
