"""Graphs of AOTAutograd's whose sizes vary: torch's symbolic integers, as lengths for kernels.

What is decided about them is decided by torch's own `ShapeEnv`, so that it is among what is tested
of the inputs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch import fx

from jitpkg.codegen.ir.extents import SYMBOL, symbolic
from jitpkg.facts import sizes
from jitpkg.facts.shape_env import size_of_expression
from jitpkg.facts.sizes import Comparison, Relation, Size
from jitpkg.facts.symbolic import Decisions

Function = Callable[..., Any]


class OfTorch(Decisions):
    """Decisions that torch notes."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        super().__init__(self._values)
        self._theirs: dict[str, torch.SymInt] = {}

    def add(self, name: str, theirs: torch.SymInt) -> None:
        self._values[name] = theirs.node.hint
        self._theirs[name] = theirs

    def decide(self, relation: bool | Relation) -> bool:
        if isinstance(relation, bool):
            return relation
        compared = _COMPARED[relation.comparison](self._symint(relation.difference), 0)
        return bool(compared)

    def _symint(self, size: Size) -> Any:
        total: Any = 0
        for product, factor in size.terms:
            term: Any = factor
            for atom in product:
                term = term * self._atom(atom)
            total = total + term
        return total

    def _atom(self, atom: Any) -> Any:
        match atom:
            case sizes.Symbol():
                return self._theirs[atom.name]
            case sizes.FloorDiv():
                return self._symint(atom.left) // self._symint(atom.right)
            case sizes.Remainder():
                return self._symint(atom.left) % self._symint(atom.right)
            case _:
                pick: Any = torch.sym_min if atom.which == "min" else torch.sym_max
                return pick(self._symint(atom.left), self._symint(atom.right))


_COMPARED: Mapping[Comparison, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)


class TorchSymbols:
    """The symbols of one graph."""

    def __init__(self, graph: fx.Graph) -> None:
        """`graph` gets a placeholder more for each symbol that is no input itself."""
        self._decisions = OfTorch()
        self._ours: dict[sympy.Symbol, Size] = {}
        self.more: list[tuple[int, Function, int]] = []
        """Where the values of further placeholders are: inputs, what reads them, and dims."""
        placeholders = graph.find_nodes(op="placeholder")
        for node in placeholders:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
                self._add(value, node)
        last = placeholders[-1]
        for k, node in enumerate(placeholders):
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            rank = value.dim()
            for n, length in enumerate((*value.shape, *value.stride())):
                is_symbol = isinstance(length, torch.SymInt) and length.node.expr.is_Symbol
                if not is_symbol or length.node.expr in self._ours:
                    continue
                read = torch.Tensor.size if n < rank else torch.Tensor.stride
                with graph.inserting_after(last):
                    last = graph.placeholder(f"{read.__name__}_{k}_{n % rank}")
                last.meta["val"] = length
                self._add(length, last)
                self.more.append((k, read, n % rank))

    def _add(self, value: torch.SymInt, node: fx.Node) -> None:
        if value.node.expr in self._ours:
            return
        node.meta[SYMBOL] = True
        env: Any = value.node.shape_env
        lower = env.var_to_range[value.node.expr].lower
        least = int(lower) if lower.is_Integer else None
        self._ours[value.node.expr] = sizes.symbol(node.name, least)
        self._decisions.add(node.name, value)

    def length(self, value: Any) -> int:
        """An int, or what stands for a symbolic one.

        Raises:
            NeedsNumbers: it is made of what no symbol stands for.
        """
        if not isinstance(value, torch.SymInt):
            return int(value)
        size = size_of_expression(value.node.expr, self._ours)
        return symbolic(sizes.plain(size), self._decisions)

    def replace_nodes(self, graph: fx.Graph) -> None:
        """Put lengths in place of nodes that are symbolic integers."""
        known: dict[fx.Node, int] = {}
        for node in graph.nodes:
            value = node.meta.get("val")
            node.args, node.kwargs = fx.map_arg(
                (node.args, node.kwargs), lambda used: known.get(used, used)
            )
            if isinstance(value, torch.SymInt):
                known[node] = self.length(value)
            elif isinstance(value, torch.SymFloat | torch.SymBool):
                raise NotImplementedError("a number made of sizes that vary")
        for node in reversed(graph.nodes):
            if node in known and node.op != "placeholder":
                graph.erase_node(node)

    def called(self, function: Function) -> Function:
        """A function of the graph's own placeholders."""
        if not self.more:
            return function
        more = tuple(self.more)
        return lambda *given: function(*given, *[read(given[k], dim) for k, read, dim in more])
