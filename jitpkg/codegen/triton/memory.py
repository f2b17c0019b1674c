"""Where elements lie: offsets of tiles, and masks."""

from __future__ import annotations

from collections.abc import Sequence

from jitpkg.codegen.fusion.statements import offset
from jitpkg.codegen.ir.extents import same
from jitpkg.codegen.ir.nodes import Buffer, Load, Node, Store
from jitpkg.codegen.triton.frame import Frame, NotPrinted, Value
from jitpkg.codegen.triton.scalar_ops import constant, literal

ATOMIC_SUMS = ("float32", "float64", "int32", "int64", "float16")
ATOMIC_EXTREMES = ("int32", "int64")
"""Triton's atomic extremes of floats lose NaNs."""


def load(frame: Frame, node: Load, policy: str = "") -> Value:
    """`policy`: what the cache should do with it, if that is known."""
    if _is_empty(node.buffer):
        return Value(constant(0, node.dtype), frozenset())
    pointer, dims = place(frame, node.buffer, node.index)
    if node.mask is None:
        conditions, other = frame.masks(dims), ""
    else:
        asked = frame.of(node.mask)
        if asked.dims - dims:
            dims |= asked.dims
            pointer = f"{pointer} + {frame.zeros(dims)}"
        conditions, other = [*frame.masks(dims), asked.operand], f", other={literal(0, node.dtype)}"
    mask = f", {' & '.join(conditions)}" if conditions else ""
    rest = f', eviction_policy="{policy}"' if policy else ""
    return Value(f"tl.load({pointer}{mask}{other}{rest})", dims)


def place(frame: Frame, buffer: Buffer, index: Sequence[Node]) -> tuple[str, frozenset[str]]:
    """A pointer to an element, and its dims."""
    whole = offset(buffer, index)
    dims: frozenset[str] = frozenset()
    terms = []
    for atom, factor in whole.terms:
        value = frame.of(atom)
        dims |= value.dims
        if same(factor, 1):
            terms.append((len(value.dims), value.operand))
        elif same(factor, -1):
            terms.append((len(value.dims), f"-{value.operand}"))
        else:
            terms.append((len(value.dims), f"{value.operand} * {frame.number(factor)}"))
    terms.sort(key=lambda term: term[0])
    if not same(whole.constant, 0):
        terms.insert(0, (0, frame.number(whole.constant)))
    start = frame.pointers[buffer]
    if not terms:
        return start, dims
    text = " + ".join(text for _, text in terms).replace("+ -", "- ")
    is_name = len(terms) == 1 and text.isidentifier()
    return f"{start} + {text if is_name else f'({text})'}", dims


def store(frame: Frame, write: Store, along: frozenset[str]) -> None:
    """`along`: the dims of the axes that the write depends on, if only by name."""
    buffer = write.buffer
    if _is_empty(buffer):
        return
    pointer, dims = place(frame, buffer, write.index)
    value = frame.of(write.value)
    every = dims | value.dims if write.combine is None else dims | value.dims | along
    if every - dims:
        pointer = f"{pointer} + {frame.zeros(every)}"
    mask = " & ".join(frame.masks(every))
    if write.combine is not None:
        _combine(frame, write, pointer, frame.spread(value, every), mask)
        return
    rest = f", {mask}" if mask else ""
    frame.line(f"tl.store({pointer}, {value.text}{rest})")


def _combine(frame: Frame, write: Store, pointer: str, value: str, mask: str) -> None:
    dtype = str(write.buffer.dtype).removeprefix("torch.")
    names = {"sum": "add", "max": "max", "min": "min"}
    known = ATOMIC_SUMS if write.combine == "sum" else ATOMIC_EXTREMES
    if write.combine not in names or dtype not in known:
        raise NotPrinted(f"there is no atomic {write.combine} of {dtype}")
    assert write.combine is not None
    rest = f", mask={mask}" if mask else ""
    frame.line(f'tl.atomic_{names[write.combine]}({pointer}, {value}{rest}, sem="relaxed")')


def _is_empty(buffer: Buffer) -> bool:
    return any(same(length, 0) for length in buffer.sizes)
