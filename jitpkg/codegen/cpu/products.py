"""Matrix products by the library that is faster on this processor, for float32.

ATen's products are MKL's, which keeps to AVX2 on processors that are not Intel's: measured on one
of AMD's with AVX-512, 110 GFLOP/s, and oneDNN's, which torch has as well, 230. Both add up in
float32, in orders of their own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.purity import name_of
from jitpkg.codegen.ir.extents import example, varies
from jitpkg.facts.tensor import TensorFacts, contiguous_stride, size_of
from jitpkg.internals import ops

aten = torch.ops.aten

WORTHWHILE = 1 << 20
"""Multiplications from which on oneDNN makes up for its call, which takes 10 µs more."""
NARROW = 8
"""Rows or columns below which a product is no work for registers, but for memory."""


def onednn_is_faster(cpu: str, capability: str) -> bool:
    """By LLVM's name of the processor, and what torch says that its own kernels use."""
    return cpu.startswith("znver") and capability == "AVX512"


def use_onednn(graph: fx.Graph) -> int:
    """Let oneDNN compute the products that are worthwhile; returns how many."""
    mkldnn: Any = torch.backends.mkldnn
    linear = ops.LINEAR_OF_ONEDNN.found() if mkldnn.is_available() and mkldnn.enabled else None
    if linear is None:
        return 0
    replaced = 0
    for node in list(graph.nodes):
        parts = _parts(node) if node.op == "call_function" and not node.kwargs else None
        if parts is None:
            continue
        with graph.inserting_before(node):
            made = _product(graph, node, linear, *parts)
        if made is None:
            continue
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        replaced += 1
    return replaced


def _parts(node: fx.Node) -> tuple[Any, Any, Any, bool] | None:
    """What is multiplied, by what, what is added, and whether the second is turned."""
    args = node.args
    match name_of(node):
        case "linear":
            return args[0], args[1], args[2] if len(args) > 2 else None, True
        case "mm":
            return args[0], args[1], None, False
        case "addmm":
            return args[1], args[2], args[0], False
    return None


def _product(
    graph: fx.Graph,
    node: fx.Node,
    linear: Any,
    left: fx.Node,
    right: fx.Node,
    bias: Any,
    turned: bool,
) -> fx.Node | None:
    """The same product by oneDNN's `linear`; None where that is not worthwhile, or cannot be."""
    wanted = node.meta["facts"]
    a, b = _facts(left), _facts(right)
    if a is None or b is None or not _is_worthwhile(a, b, turned):
        return None
    if bias is not None and not _is_row(_facts(bias), wanted.size[-1]):
        return None
    if not turned:
        right = _turned(graph, right)
    made = graph.call_function(linear, (left, right, bias, "none", [], ""))
    made.meta["facts"] = wanted
    return made


def _facts(value: Any) -> TensorFacts | None:
    """Of a float32 tensor in main memory."""
    facts = value.meta.get("facts") if isinstance(value, fx.Node) else None
    if not isinstance(facts, TensorFacts) or facts.dtype is not torch.float32:
        return None
    known = all(type(length) is int or varies(length) for length in (*facts.size, *facts.stride))
    return facts if known and facts.device.type == "cpu" else None


def _is_worthwhile(a: TensorFacts, b: TensorFacts, turned: bool) -> bool:
    if len(b.size) != 2 or any(map(varies, b.size)) or not _is_dense(b):
        return False
    inner, columns = size_of(b)[::-1] if turned else size_of(b)
    rows = math.prod(map(example, size_of(a)[:-1]))
    return min(rows, columns) >= NARROW and rows * inner * columns >= WORTHWHILE


def _is_dense(matrix: TensorFacts) -> bool:
    """Whether its elements lie one behind the other, by rows or by columns."""
    by_columns = contiguous_stride(matrix.size[::-1])[::-1]
    return matrix.stride in (contiguous_stride(matrix.size), by_columns)


def _is_row(facts: TensorFacts | None, length: int) -> bool:
    return facts is not None and facts.size == (length,) and facts.stride == (1,)


def _turned(graph: fx.Graph, matrix: fx.Node) -> fx.Node:
    """Its transpose; of a transpose, what that was made of."""
    if name_of(matrix) == "t" or (name_of(matrix) == "permute" and matrix.args[1] == [1, 0]):
        (source, *_) = matrix.args
        assert isinstance(source, fx.Node)
        return source
    facts = matrix.meta["facts"]
    made = graph.call_function(aten.t.default, (matrix,))
    made.meta["facts"] = replace(facts, size=facts.size[::-1], stride=facts.stride[::-1])
    return made
