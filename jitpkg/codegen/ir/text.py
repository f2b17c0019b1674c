"""Definitions and kernels as text that a person can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Checked,
    Const,
    Definition,
    Given,
    Load,
    Node,
    Reduce,
    Scan,
    Store,
    below,
)

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"} | {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
}
_LONG = 160
"""Characters of a value that gets a name and a line of its own."""

_AXES = "ijklmnpqrstuvwxyz"


def axis_names(axes: Sequence[Axis]) -> dict[Axis, str]:
    """One letter for each, in order."""
    return {a: _AXES[k] if k < len(_AXES) else f"i{k}" for k, a in enumerate(axes)}


def text_of(definition: Definition) -> str:
    """Lines, one for each value that is used more than once, and then the element."""
    names = axis_names(all_axes(definition.axes, (definition.value,)))
    index = ", ".join(names[axis] for axis in definition.axes)
    lines, root = lines_of(definition.value, names)
    head = f"{definition.buffer}[{index}] : {short(definition.dtype)}{list(definition.sizes)}"
    return "\n".join([*(f"    {line}" for line in lines), f"{head} = {root}"])


def text_of_store(store: Store, names: Mapping[Axis, str]) -> list[str]:
    lines, root = lines_of(store.value, names)
    return [*lines, f"{target_of_store(store, names, {})} {root}"]


def target_of_store(store: Store, names: Mapping[Axis, str], known: Mapping[Node, str]) -> str:
    """Where a store writes, and how: all that stands before the value."""
    index = ", ".join(inline(at, names, known) for at in store.index)
    sign = "=" if store.combine is None else f"{store.combine}="
    return f"{store.buffer}[{index}] {sign}"


def all_axes(first: Sequence[Axis], values: Sequence[Node]) -> list[Axis]:
    axes = dict.fromkeys(first)
    for node in below(*values):
        if isinstance(node, Axis):
            axes.setdefault(node)
        elif isinstance(node, Reduce):
            axes.update(dict.fromkeys(node.over))
    return list(axes)


def lines_of(root: Node, names: Mapping[Axis, str]) -> tuple[list[str], str]:
    """`name = value` for each value that is used more than once or is long, and the root's text."""
    uses: dict[Node, int] = {}
    every = below(root)
    for node in every:
        for used in set(_shown_operands(node)):
            uses[used] = uses.get(used, 0) + 1
    lines: list[str] = []
    known: dict[Node, str] = {}
    for node in every:
        if isinstance(node, Apply | Reduce | Scan | Checked | Load):
            text = known[node] = inline(node, names, known)  # of operands that are all known
            if len(text) > (12 if uses.get(node, 0) > 1 else _LONG):
                known[node] = f"v{len(lines)}"
                lines.append(f"{known[node]} = {text}")
    return lines, inline(root, names, known)


def _shown_operands(node: Node) -> tuple[Node, ...]:
    match node:
        case Load(mask=mask):
            return () if mask is None else (mask,)
        case Apply(args=args):
            return args
        case Checked(index=index):
            return (index,)
        case Reduce(value=value) | Scan(value=value):
            return (value,)
        case _:
            return ()


def inline(node: Node, names: Mapping[Axis, str], known: Mapping[Node, str]) -> str:
    """A node as an expression of those that have names."""
    if node in known:
        return known[node]
    match node:
        case Axis():
            return names.get(node, f"axis{node.serial}")
        case Const(value=value):
            return repr(value) if node.dtype in _PLAIN else f"{short(node.dtype)}({value!r})"
        case Given(value=value):
            return str(value)
        case Load(buffer=buffer, index=index, mask=mask):
            at = ", ".join(inline(each, names, known) for each in index)
            if mask is None:
                return f"{buffer}[{at}]"
            return f"({buffer}[{at}] if {inline(mask, names, known)} else 0)"
        case Apply(op=ops.CAST, args=(value,)):
            return f"{short(node.dtype)}({inline(value, names, known)})"
        case Apply(op=op, args=(a, b)) if op in _INFIX:
            return f"({inline(a, names, known)} {_INFIX[op]} {inline(b, names, known)})"
        case Apply(op=op, args=args):
            return f"{op}({', '.join(inline(arg, names, known) for arg in args)})"
        case Checked(index=index, extent=extent):
            return f"checked({inline(index, names, known)}, {extent})"
        case Reduce(op=op, value=value, over=over):
            runs = ", ".join(f"{names.get(a, f'axis{a.serial}')} < {a.extent}" for a in over)
            return f"{op}({inline(value, names, known)} for {runs})"
        case Scan(op=op, value=value, along=along):
            name = names.get(along, f"axis{along.serial}")
            return f"running_{op}({inline(value, names, known)} along {name})"
        case _:
            return "?"


_PLAIN = (torch.int64, torch.float32, torch.bool)


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
