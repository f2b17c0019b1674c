"""What a definition may look like: rules, one a row, checked without trusting who made it.

Whatever breaks one of them could make LLVM or Triton end the process; so everything is checked
before it is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import INDEX, IllegalNode, exact
from jitpkg.codegen.ir.extents import varies
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
    operands,
)

Rule = Callable[[Node], bool]


def _axis(node: Node) -> bool:
    return isinstance(node, Axis) and node.dtype is INDEX and node.extent >= 0


def _const(node: Node) -> bool:
    if not isinstance(node, Const) or node.dtype not in ops.EVERY:
        return False
    held = exact(node.value, node.dtype)
    return type(held) is type(node.value) and (held == node.value or held != held)


def _given(node: Node) -> bool:
    return isinstance(node, Given) and node.dtype is INDEX and varies(node.value)


def _load(node: Node) -> bool:
    return (
        isinstance(node, Load)
        and node.dtype is node.buffer.dtype
        and len(node.index) == len(node.buffer.sizes) == len(node.buffer.strides)
        and all(at.dtype is INDEX for at in node.index)
        and (node.mask is None or node.mask.dtype is torch.bool)
    )


def _apply(node: Node) -> bool:
    assert isinstance(node, Apply)
    given = tuple(arg.dtype for arg in node.args)
    if node.op == ops.CAST:
        return len(given) == 1 and given[0] in ops.EVERY and node.dtype in ops.EVERY
    row = ops.OPS.get(node.op)
    return row is not None and bool(given) and row.signature(given) is node.dtype


def _checked(node: Node) -> bool:
    return isinstance(node, Checked) and node.index.dtype is INDEX and node.extent >= 0


def _reduce(node: Node) -> bool:
    assert isinstance(node, Reduce)
    row = ops.REDUCTIONS.get(node.op)
    if row is None or node.value.dtype not in row.allowed or not node.over:
        return False
    if row.combine is None:
        return len(node.over) == 1 and node.dtype is INDEX
    return node.dtype is node.value.dtype and len(set(node.over)) == len(node.over)


def _scan(node: Node) -> bool:
    assert isinstance(node, Scan)
    known = node.op in ops.SCANS and node.value.dtype in ops.REDUCTIONS[node.op].allowed
    return known and node.dtype is node.value.dtype


RULES: tuple[tuple[type[Node], Rule], ...] = (
    (Axis, _axis),
    (Const, _const),
    (Given, _given),
    (Load, _load),
    (Apply, _apply),
    (Checked, _checked),
    (Reduce, _reduce),
    (Scan, _scan),
)


def check_value(value: Node, free: Sequence[Axis]) -> None:
    """A value that may depend on these axes only.

    Raises:
        IllegalNode: it breaks a rule.
    """
    for node in below(value):
        rule = next((rule for kind, rule in RULES if type(node) is kind), None)
        if rule is None or not rule(node):
            raise IllegalNode(f"{type(node).__name__} breaks its rule: {_shown(node)}")
        if node.axes != _depends_on(node):
            raise IllegalNode(f"{_shown(node)} says that it depends on other axes than it does")
    if not value.axes <= frozenset(free):
        raise IllegalNode("a value depends on an axis that nothing runs along")


def _depends_on(node: Node) -> frozenset[Axis]:
    axes = frozenset[Axis]().union(*(each.axes for each in operands(node)))
    match node:
        case Axis():
            return frozenset({node})
        case Reduce(over=over):
            return axes - frozenset(over)
        case Scan(along=along):
            return axes | {along}
        case _:
            return axes


def _shown(node: Node) -> str:
    match node:
        case Apply(op=op) | Reduce(op=op) | Scan(op=op):
            given = ", ".join(str(each.dtype) for each in operands(node))
            return f"{op}({given}) -> {node.dtype}"
        case _:
            return f"{type(node).__name__} of {node.dtype}"


def check(definition: Definition) -> None:
    """A tensor's definition.

    Raises:
        IllegalNode: it breaks a rule.
    """
    sizes = tuple(axis.extent for axis in definition.axes)
    if sizes != definition.sizes or len(set(definition.axes)) != len(sizes):
        raise IllegalNode(f"the axes of {definition.buffer} do not run along its dims")
    if definition.value.dtype is not definition.dtype:
        raise IllegalNode(f"{definition.buffer} holds {definition.dtype}")
    check_value(definition.value, definition.axes)


def check_store(store: Store, axes: Sequence[Axis]) -> None:
    """A write inside of loops over these axes."""
    if store.value.dtype is not store.buffer.dtype:
        raise IllegalNode(f"{store.buffer} holds {store.buffer.dtype}")
    if len(store.index) != len(store.buffer.sizes):
        raise IllegalNode(f"{len(store.index)} indices for {store.buffer}")
    if store.combine is not None and store.combine not in ops.REDUCTIONS:
        raise IllegalNode(f"there is no fold {store.combine}")
    for node in (*store.index, store.value):
        check_value(node, axes)
    if any(at.dtype is not INDEX for at in store.index):
        raise IllegalNode(f"an index of {store.buffer} is no int64")
