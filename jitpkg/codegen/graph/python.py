"""A graph as one Python function: every op a line, every callable an object that it holds.

Unlike `GraphModule.forward`, which finds `torch.sin` by name at each call, this runs the very
functions that were traced, and pays for no look-up.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from types import FunctionType, MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg import listing
from jitpkg.codegen.graph.bindings import BINDINGS
from jitpkg.codegen.ir.extents import Symbolic, text_of
from jitpkg.internals.ops import OpOverload
from jitpkg.marks import KEEPS

_OPERATORS: Mapping[object, str] = MappingProxyType(
    {
        operator.add: "{} + {}",
        operator.sub: "{} - {}",
        operator.mul: "{} * {}",
        operator.truediv: "{} / {}",
        operator.floordiv: "{} // {}",
        operator.mod: "{} % {}",
        operator.pow: "{} ** {}",
        operator.matmul: "{} @ {}",
        operator.and_: "{} & {}",
        operator.or_: "{} | {}",
        operator.xor: "{} ^ {}",
        operator.lt: "{} < {}",
        operator.le: "{} <= {}",
        operator.eq: "{} == {}",
        operator.ne: "{} != {}",
        operator.gt: "{} > {}",
        operator.ge: "{} >= {}",
        operator.getitem: "{}[{}]",
        operator.neg: "-{}",
        operator.invert: "~{}",
    }
)
"""Operators that read better, and run faster, as such."""


def straight_line(name: str, graph: fx.Graph) -> FunctionType:
    """A function of the graph's placeholders that returns its outputs as a tuple."""
    return _Printer(name, graph).function()


class _Printer:
    def __init__(self, name: str, graph: fx.Graph) -> None:
        self.name = name
        self.graph = graph
        self.held: dict[str, object] = {}
        self.lines: list[str] = []
        self._names: dict[int, str] = {}
        self._nodes = {node.name for node in graph.nodes}

    def function(self) -> FunctionType:
        last_use = _last_uses(self.graph)
        parameters: list[str] = []
        for node in self.graph.nodes:
            if node.op == "placeholder":
                parameters.append(node.name)
                continue
            if node.op == "output":
                self.lines.append(f"return {self._text(node.args[0])}")
                continue
            dead = [n.name for n in last_use.get(node, ())]
            frees = "".join(f"; {name} = None" for name in dead)
            self.lines.append(f"{node.name} = {self._call(node)}{frees}")
        body = "\n".join(f"    {line}" for line in self.lines)
        signature = ", ".join([*parameters, *(f"{name}={name}" for name in self.held)])
        source = f"def graph({signature}):\n{body}\n"
        file = listing.file_name(f"{self.name}.graph")
        namespace: dict[str, Any] = dict(self.held)
        exec(compile(source, file, "exec"), namespace)
        function: FunctionType = namespace["graph"]
        listing.keep(function, source)
        function.__qualname__ = function.__name__ = f"{self.name}.graph"
        return function

    def _call(self, node: fx.Node) -> str:
        if node.op == "call_method":
            receiver, *rest = node.args
            return f"{self._text(receiver)}.{node.target}({self._arguments(rest, node.kwargs)})"
        assert node.op == "call_function" and callable(node.target)
        template = _OPERATORS.get(node.target)
        if template is not None and not node.kwargs:
            return template.format(*(self._operand(arg) for arg in node.args))
        name, target = getattr(node.target, "__name__", "op"), node.target
        if isinstance(target, OpOverload) and not node.kwargs:
            target = BINDINGS.get(target, target)
        return f"{self._hold(target, name)}({self._arguments(node.args, node.kwargs)})"

    def _arguments(self, args: Any, kwargs: Mapping[str, Any]) -> str:
        pieces = [self._text(arg) for arg in args]
        pieces.extend(f"{key}={self._text(value)}" for key, value in kwargs.items())
        return ", ".join(pieces)

    def _operand(self, value: Any) -> str:
        text = self._text(value)
        return f"({text})" if text.startswith("-") else text

    def _text(self, value: Any) -> str:
        match value:
            case fx.Node():
                return value.name
            case None | bool() | int() | str():
                return repr(value)
            case Symbolic():
                return f"({text_of(value)})"
            case slice():
                parts = (value.start, value.stop, value.step)
                return f"{self._hold(slice, 'slice_')}({', '.join(map(self._text, parts))})"
            case tuple() if type(value) is tuple or isinstance(value, torch.Size):
                items = "".join(f"{self._text(item)}, " for item in value)
                return f"({items})"
            case list():
                return f"[{', '.join(map(self._text, value))}]"
            case dict():
                items = ", ".join(f"{self._text(k)}: {self._text(v)}" for k, v in value.items())
                return f"{{{items}}}"
            case tuple():
                items = ", ".join(map(self._text, value))
                return f"{self._hold(type(value), type(value).__name__)}({items})"
            case _:
                return self._hold(value, type(value).__name__)

    def _hold(self, obj: object, hint: str) -> str:
        known = self._names.get(id(obj))
        if known is not None:
            return known
        stem = re.sub(r"\W+", "_", hint).strip("_") or "value"
        name, k = f"{stem}_", 1
        while name in self.held or name in self._nodes:
            k += 1
            name = f"{stem}_{k}_"
        self._names[id(obj)] = name
        self.held[name] = obj
        return name


def _last_uses(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """For each node, those whose value nobody needs behind it."""
    seen: set[fx.Node] = set()
    found: dict[fx.Node, list[fx.Node]] = {}
    nodes = {node.name: node for node in graph.nodes}
    for node in reversed(graph.nodes):
        kept = (nodes[name] for name in node.meta.get(KEEPS, ()) if name in nodes)
        for used in (*node.all_input_nodes, *kept):
            if used not in seen:
                seen.add(used)
                if node.op != "output":
                    found.setdefault(node, []).append(used)
        if node not in seen and node.op.startswith("call"):
            found.setdefault(node, []).append(node)
    return found
