"""Graphs in which Python numbers are made of tensors: `x.item()`, and arithmetic with that.

Backends compile what computes with tensors. The numbers are read when that has run: no write comes
in between, for what would be written to is copied at the read's own place. A graph that needs a
number in an op is cut there. So no read waits for a GPU that eager code would not wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from operator import getitem
from typing import Any

import torch
from torch import fx

from jitpkg import listing
from jitpkg.codegen.graph import scalars
from jitpkg.codegen.graph.copies import copied
from jitpkg.codegen.graph.fallback import as_it_is
from jitpkg.codegen.graph.grad_modes import has_backward
from jitpkg.codegen.graph.python import straight_line
from jitpkg.codegen.parts.stages import Cut, can_be_cut
from jitpkg.codegen.sizes.by_size import BySize
from jitpkg.codegen.sizes.by_symbols import OneMore
from jitpkg.codegen.sizes.specialise import ARITHMETIC
from jitpkg.dataclass import dataclass
from jitpkg.marks import DIMS, MEMORY, READING, SCALAR, TRAINS, VARIES, WRITES, Dims, varies

Function = Callable[..., Any]
Compile = Callable[[fx.GraphModule, list[Any]], Function]


def reads_numbers(graph: fx.Graph) -> bool:
    """Whether a graph makes numbers of tensors."""
    return any(READING in node.meta for node in graph.nodes)


def around_reads(
    backend: str,
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    compile_: Compile,
    *,
    takes_floats: bool = True,
) -> Function:
    """The graph, of which the parts that compute with tensors are compiled.

    Args:
        compile_: compiles a graph without such numbers for such inputs.
        takes_floats: whether floats that vary may be among these.
    """
    whole = _Whole.of(gm)
    takes_floats = takes_floats and not any(map(_is_elsewhere, inputs))
    parts = list(whole.parts(takes_floats=takes_floats))
    name = type(gm).__name__
    if not any(part.is_compiled for part in parts):
        return straight_line(name, gm.graph)
    why = _obstacle(whole.graph, parts)
    if why is not None:
        return as_it_is(backend, gm, why)
    joined = _Joined(backend, name, whole, compile_)
    function = joined.function(parts, inputs)
    return straight_line(name, gm.graph) if joined.runs_op_by_op else function


def _is_elsewhere(value: Any) -> bool:
    """Whether it is a tensor whose ops take no tensor of the CPU for a number."""
    return isinstance(value, torch.Tensor) and value.device.type != "cpu"


MOST = 12
"""Compiled parts of one graph; what has more is not cut."""


def _obstacle(graph: fx.Graph, parts: Sequence[_Part]) -> str | None:
    """Why a graph is not cut."""
    count = sum(part.is_compiled for part in parts)
    at = [k for k, part in enumerate(parts) if part.has_op and not part.is_compiled]
    if count + len(at) == 1:
        return None
    what = "a number made of a tensor's data is an operand"
    if has_backward(graph):
        return f"{what}, beside a backward pass"
    if count > MOST or not can_be_cut(graph, [list(part.nodes) for part in parts]):
        return f"{what}, where the graph cannot be cut"
    before = (node for part in parts[: max(at, default=0)] for node in part.nodes)
    if any(WRITES in node.meta for node in before):
        return f"{what} of an op that may fail, after a write"
    return None


# What is read


def _prepared(graph: fx.Graph) -> fx.Graph:
    """A copy of the graph without numbers that nobody uses, where what is read stays as it is."""
    graph = copied(graph)
    for node in reversed(graph.nodes):
        if READING in node.meta and not node.users:
            graph.erase_node(node)
    returned = set(graph.output_node().all_input_nodes)
    written = False
    for node in reversed(graph.nodes):
        written = written or WRITES in node.meta
        read = node.args[0] if node.args else None
        if READING not in node.meta or not isinstance(read, fx.Node) or READING in read.meta:
            continue
        if written or not _is_returned(read, returned):
            node.args = (_copy(graph, node, read), *node.args[1:])
    return graph


def _is_returned(read: fx.Node, returned: Container[fx.Node]) -> bool:
    """Whether a tensor is there when the graph has run, or may be a result as it is."""
    if read.op == "placeholder" or read in returned:
        return True
    return TRAINS not in read.meta and MEMORY not in read.meta


def _copy(graph: fx.Graph, before: fx.Node, read: fx.Node) -> fx.Node:
    """A tensor of its own, that no gradient goes through."""
    with graph.inserting_before(before):
        if TRAINS in read.meta:
            memory = read.meta.get(MEMORY, read.name)
            read = graph.call_method("detach", (read,))
            read.meta[MEMORY] = memory
        return graph.call_method("clone", (read,))


# Parts


@dataclass(frozen=True, eq=False, slots=True)
class _Whole:
    """A graph, and what varies in it."""

    graph: fx.Graph
    dims: Mapping[fx.Node, Dims | None]
    """Of what is known before the graph runs: None for a number."""

    @classmethod
    def of(cls, gm: fx.GraphModule) -> _Whole:
        graph = _prepared(gm.graph)
        given = graph.find_nodes(op="placeholder")
        varying = gm.meta.get(VARIES) or [Dims()] * len(given)
        dims: dict[fx.Node, Dims | None] = dict(zip(given, varying, strict=True))
        for node in graph.nodes:
            of_sizes = (dims.get(each, _A_TENSOR) is None for each in node.all_input_nodes)
            if node.target in ARITHMETIC and READING not in node.meta and all(of_sizes):
                dims[node] = None
        return cls(graph, dims)

    def dims_of(self, node: fx.Node) -> Dims | None:
        """What varies of a value; None for a number."""
        if node in self.dims or READING in node.meta:
            return self.dims.get(node)
        found: Dims = node.meta.get(DIMS, _A_TENSOR)
        return found

    def parts(self, *, takes_floats: bool) -> Iterator[_Part]:
        """Ops that are compiled, and in between what makes numbers of their results, in turn. What
        computes with sizes is in none of them."""
        known: set[fx.Node] = set()
        alone: set[Any] = set()
        ops: list[fx.Node] = []
        numbers: list[fx.Node] = []
        for node in self.graph.nodes:
            if not node.op.startswith("call") or node in self.dims:
                continue
            if READING in node.meta:
                numbers.append(node)
                continue
            needs = {each for each in node.all_input_nodes if READING in each.meta}
            by_itself = node.target is getitem and node.args[0] in alone
            by_itself |= bool(needs) and not (takes_floats and _may_be_tensors(node, needs))
            if by_itself or not needs <= known:
                yield from _both(ops, numbers)
                known.update(numbers)
                ops, numbers = [], []
            if by_itself:
                alone.add(node)
                yield _Part([node], is_compiled=False)
            else:
                ops.append(node)
        yield from _both(ops, numbers)

    def with_sizes(self, part: Sequence[fx.Node]) -> list[fx.Node]:
        """A part, and what it needs that computes with sizes."""
        found = set(part)
        todo = list(part)
        while todo:
            for each in todo.pop().all_input_nodes:
                if each in self.dims and each.op != "placeholder" and each not in found:
                    found.add(each)
                    todo.append(each)
        return sorted(found)


_A_TENSOR = Dims()


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """Some nodes in a row."""

    nodes: Sequence[fx.Node]
    is_compiled: bool
    """Whether a backend gets them; else they are called as they are."""

    @property
    def has_op(self) -> bool:
        """Whether it has an op on tensors."""
        return READING not in self.nodes[-1].meta


def _both(ops: Sequence[fx.Node], numbers: Sequence[fx.Node]) -> Iterator[_Part]:
    if ops:
        yield _Part(ops, is_compiled=True)
    if numbers:
        yield _Part(numbers, is_compiled=False)


def _may_be_tensors(op: fx.Node, numbers: Container[fx.Node]) -> bool:
    """Whether an op takes tensors in place of these numbers; a backend gives them to it."""
    if SCALAR not in op.meta:
        return False
    return all(each.meta[READING] is float for each in op.all_input_nodes if each in numbers)


# Together


class _Joined:
    """Writes the function that calls the parts, and makes the numbers itself."""

    def __init__(self, backend: str, name: str, whole: _Whole, compile_: Compile) -> None:
        self._backend = backend
        self._name = name
        self._whole = whole
        self._compile_ = compile_
        self._graph = fx.Graph()
        self._values: dict[fx.Node, fx.Node] = {}
        self.runs_op_by_op = True
        """Whether no part is more than the ops as they are."""

    def function(self, parts: Sequence[_Part], inputs: Sequence[Any]) -> Function:
        given = self._whole.graph.find_nodes(op="placeholder")
        for node in given:
            self._values[node] = self._graph.placeholder(node.name)
        examples = dict(zip(given, inputs, strict=True))
        for part in parts:
            if part.is_compiled:
                self._call(part.nodes, examples)
                continue
            for node in self._whole.with_sizes(part.nodes):
                self._values[node] = self._graph.node_copy(node, self._values.__getitem__)
        returned: Any = self._whole.graph.output_node().args[0]
        self._graph.output(fx.map_arg(returned, self._values.__getitem__))
        return straight_line(f"{self._name}.reads", self._graph)

    def _call(self, part: Sequence[fx.Node], examples: Mapping[fx.Node, Any]) -> None:
        cut = Cut.of(self._name, self._whole.with_sizes(part), part)
        dims = tuple(map(self._whole.dims_of, cut.given))
        cut.module.meta[VARIES] = dims if any(each is None or each for each in dims) else ()
        numbers = frozenset(k for k, node in enumerate(cut.given) if READING in node.meta)
        compile_ = partial(self._compile, numbers=numbers)
        given = [examples.get(node, _UNKNOWN) for node in cut.given]
        function = self._compiled(cut.module, given, compile_)
        values = tuple(self._values[node] for node in cut.given)
        made = self._graph.call_function(function, values)
        for k, node in enumerate(cut.returned):
            self._values[node] = self._graph.call_function(getitem, (made, k))

    def _compiled(
        self, module: fx.GraphModule, examples: Sequence[Any], compile_: Compile
    ) -> Function:
        """A part, compiled now if it is given nothing that another one computes."""
        if not any(example is _UNKNOWN for example in examples):
            function = compile_(module, list(examples))
            file = getattr(getattr(function, "__code__", None), "co_filename", "")
            self.runs_op_by_op = self.runs_op_by_op and listing.is_of(file, f"{self._name}.graph")
            return function
        self.runs_op_by_op = False
        return (OneMore if varies(module.meta) else BySize)(module, compile_).run

    def _compile(
        self, module: fx.GraphModule, inputs: list[Any], *, numbers: frozenset[int]
    ) -> Function:
        """
        Args:
            numbers: which inputs are made of a tensor's data.
        """
        if numbers <= {*scalars.places(module, inputs)}:
            return self._compile_(module, inputs)
        return as_it_is(self._backend, module, "a number made of a tensor's data, on a GPU")


_UNKNOWN = object()
"""In place of an example of what a part computes."""
