"""Tensors of all layouts, and what of a result can be seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st


@dataclass(frozen=True)
class Layout:
    """How a tensor lies in memory."""

    size: tuple[int, ...]
    order: tuple[int, ...]
    """The dims as they lie in memory, the innermost last."""
    before: tuple[int, ...]
    """For each dim: how many elements of the memory come before it."""
    behind: tuple[int, ...]
    steps: tuple[int, ...]
    expanded: frozenset[int]
    idle: tuple[int | None, ...]
    """For dims of size 1: strides that they have in place of their own."""

    def tensor(self, seed: int, dtype: torch.dtype) -> torch.Tensor:
        """One that lies so, with numbers of its own."""
        generator = torch.Generator().manual_seed(seed)
        whole = [
            1 if dim in self.expanded else before + max(n, 1) * step + behind
            for dim, (n, before, behind, step) in enumerate(
                zip(self.size, self.before, self.behind, self.steps, strict=True)
            )
        ]
        memory = torch.randint(-8, 9, [whole[dim] for dim in self.order], generator=generator)
        back = [self.order.index(dim) for dim in range(len(self.order))]
        x = memory.to(dtype).permute(back)
        for dim, n in enumerate(self.size):
            if dim in self.expanded:
                x = x.expand(*x.shape[:dim], n, *x.shape[dim + 1 :])
            else:
                step = self.steps[dim]
                x = x.narrow(dim, self.before[dim], max(n, 1) * step)
                x = x[(slice(None),) * dim + (slice(0, n * step, step),)]
        stride = tuple(
            step if idle is None or n != 1 else idle
            for n, step, idle in zip(x.shape, x.stride(), self.idle, strict=True)
        )
        return x.as_strided(x.shape, stride, x.storage_offset())


@st.composite
def layouts(draw: Any, rank: int, least: int = 0, most: int = 5) -> Layout:
    """Layouts of tensors of so many dims: most are usual ones."""
    size = tuple(draw(st.integers(least, most)) for _ in range(rank))
    order = draw(st.just(tuple(range(rank))) | st.permutations(range(rank)).map(tuple))

    def each(usual: Any, strategy: Any) -> tuple[Any, ...]:
        if draw(st.booleans()):
            return (usual,) * rank
        return tuple(draw(strategy) for _ in range(rank))

    dims = st.integers(0, max(rank - 1, 0))
    return Layout(
        size,
        order,
        each(0, st.integers(0, 2)),
        each(0, st.integers(0, 2)),
        each(1, st.integers(1, 2)),
        draw(st.just(frozenset()) | st.frozensets(dims, max_size=2)) if rank else frozenset(),
        each(None, st.none() | st.integers(0, 40)),
    )


def seen(result: Any, given: list[torch.Tensor]) -> Any:
    """All that can be seen of a result: values, metadata, and what shares memory."""
    match result:
        case torch.Tensor():
            own = [k for k, x in enumerate(given) if x is result]
            shares = [k for k, x in enumerate(given) if _memory(x) == _memory(result)]
            offset = result.storage_offset() if shares else None
            facts = result.dtype, tuple(result.shape), result.stride(), offset, own, shares
            return (*facts, result.requires_grad, result.tolist())
        case tuple() | list():
            return type(result), [seen(item, given) for item in result]
        case _:
            return type(result), repr(result)


def difference(expected: Any, found: Any) -> str:
    """The first place in which two descriptions differ."""
    kinds = type(expected), type(found)
    if kinds[0] is kinds[1] and kinds[0] in (tuple, list) and len(expected) == len(found):
        for k, (one, other) in enumerate(zip(expected, found, strict=True)):
            if one != other:
                return f"[{k}]{difference(one, other)}"
    return f": {found!r}; eager code has {expected!r}"


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata
