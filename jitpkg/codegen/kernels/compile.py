"""From a graph of ATen ops to a Python function that calls kernels: the whole way as one page.

lower     each op that has a row becomes a definition; the others stay calls
fuse      definitions become kernels
make      a printer makes a function of each kernel that differs from all others
wrap      a line for each kernel and each call, as readable Python
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from operator import getitem
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import increment_version

from jitpkg import config, events
from jitpkg.codegen.fusion.groups import Limits, fuse
from jitpkg.codegen.fusion.items import Item, Opaque, Scattered
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.normal import Normal, Normaliser
from jitpkg.codegen.graph.python import straight_line
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.extents import SYMBOL, example, same, varies
from jitpkg.codegen.ir.nodes import Buffer, Definition, Store
from jitpkg.codegen.kernels.expected import as_expected, is_sure
from jitpkg.codegen.kernels.in_place import InPlace
from jitpkg.codegen.kernels.made import Made, Refused
from jitpkg.codegen.kernels.maker import Maker
from jitpkg.codegen.kernels.progress import Progress
from jitpkg.codegen.lowering import table
from jitpkg.codegen.lowering.calls import lower
from jitpkg.codegen.lowering.philox import Stream
from jitpkg.codegen.lowering.random import lower_random
from jitpkg.codegen.lowering.table import Lowering, NotLowered, Tensor
from jitpkg.codegen.options import Options
from jitpkg.dataclass import dataclass
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals.ops import OpOverload, op_name, schema
from jitpkg.interrupts import from_outside
from jitpkg.messages import warn
from jitpkg.ranges import calls_kernels

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a graph."""

    kernels: tuple[Kernel, ...]
    calls: tuple[str, ...]
    """Ops that are not in kernels."""
    event: events.Fused
    left: int = 0
    """How many ops ATen does since their kernels could not be made."""
    refused: tuple[tuple[str, str], ...] = ()
    """Kernels that were not made, and why."""


class _Failed(Exception):
    """A kernel could not be made."""

    def __init__(self, kernel: Kernel, nodes: Collection[fx.Node], why: Exception) -> None:
        super().__init__(kernel.name)
        self.kernel = kernel
        self.why = why
        self.nodes = nodes
        """What it computes."""


@dataclass(frozen=True, slots=True)
class Compiled:
    function: Function
    """Of the graph's placeholders; returns a tuple of what the graph returns."""
    report: Report
    in_place: tuple[fx.Node, ...] = ()
    """The values that it has written to inputs. The version of the first of these inputs has grown
    by one, just before."""


def compile_graph(
    name: str,
    graph: fx.Graph,
    maker: Maker,
    options: Options | None = None,
    limits: Limits | None = None,
    into: Mapping[fx.Node, fx.Node] = MappingProxyType({}),
) -> Compiled:
    """Compile a functional graph of ATen ops, whose nodes have `meta["facts"]`.

    What a kernel that cannot be made computes is left to ATen, with a warning.

    Args:
        into: for values that the graph returns, inputs that are to be changed to them. What can be
            written there at once is; from then on the function raises nothing.
    """
    maker.choose_calls(graph)
    left: set[fx.Node] = set()
    refused: dict[str, str] = {}
    while True:
        try:
            return _compiled(name, graph, maker, options or Options(), limits, into, left, refused)
        except _Failed as failed:
            error = failed.why
            if isinstance(error, Refused):
                refused[failed.kernel.name] = str(error)
                events.STREAM.emit(events.KernelFailed(failed.kernel.name, "", str(error)))
                left.update(failed.nodes)
                continue
            if config.current().raises:
                raise error from None
            warn(
                f"The kernel {failed.kernel.name} of {name} could not be made"
                f" ({type(error).__name__}: {error}), and ATen computes it instead."
                " Please report it; JITPKG_STRICT=1 raises."
            )
            left.update(failed.nodes)


def _compiled(
    name: str,
    graph: fx.Graph,
    maker: Maker,
    options: Options,
    limits: Limits | None,
    into: Mapping[fx.Node, fx.Node],
    left: Collection[fx.Node],
    refused: Mapping[str, str],
) -> Compiled:
    with events.timed(name, "lowering"):
        builder = Builder(rounds=options.precision == "eager")
        lowered = _Lowered(graph, builder, maker.device, left, draws=options.fused_random)
    with events.timed(name, "fusion"):
        steps = fuse(lowered.items, lowered.kept, builder, limits or maker.limits)
    wrapper = _Wrapper(lowered, maker, steps, into if maker.device.type == "cpu" else {})
    with events.timed(name, "kernels"), Progress(name, len(steps)) as progress:
        for k, step in enumerate(steps):
            wrapper.add(k, step)
            progress.step()
        wrapper.wait()
    function = straight_line(f"{name}.kernels", wrapper.finished())
    own = (made.function for made in wrapper.made)
    calls_kernels(function, own, can_be_timed=maker.device.type == "cpu")
    kernels = tuple(wrapper.kernels)
    calls = tuple(_title(step.call) for step in steps if isinstance(step, Opaque))
    event = events.Fused(name, tuple(map(_fused, kernels)), calls)
    events.STREAM.emit(event)
    report = Report(kernels, calls, event, len(left), tuple(refused.items()))
    return Compiled(function, report, tuple(wrapper.in_place))


@dataclass(frozen=True, eq=False, slots=True)
class _Call:
    """A node of the graph that is called as it is."""

    node: fx.Node
    results: Mapping[int | None, Buffer]
    """By position among its results; None is the result itself."""


class _Lowered:
    """The graph as items for fusion."""

    def __init__(
        self,
        graph: fx.Graph,
        builder: Builder,
        device: torch.device,
        left: Collection[fx.Node],
        *,
        draws: bool,
    ) -> None:
        """Lower all nodes of a device but those that are `left` to ATen.

        Args:
            draws: whether kernels draw random numbers.
        """
        self.graph = graph
        self.builder = builder
        self.device = device
        self.left = left
        self.draws = draws
        self.streams = 0
        """How many nodes draw their random numbers in kernels."""
        self.varies = any(SYMBOL in node.meta for node in graph.find_nodes(op="placeholder"))
        self.items: list[Item] = []
        self.nodes: dict[Buffer, fx.Node] = {}
        """What computes a tensor that is in no memory yet."""
        self.values: dict[tuple[fx.Node, int | None], Buffer] = {}
        """What is loaded for a node's result, or for one of its results."""
        self.memory: dict[tuple[fx.Node, int | None], Buffer] = {}
        """Where it lies in memory, if that is asked: for a view, a tensor of its own."""
        self.elsewhere: set[Buffer] = set()
        """Those on other devices, which no kernel may read."""
        self.kept: list[Buffer] = []
        self._lowering = Lowering(self.builder, device)
        for node in graph.nodes:
            match node.op:
                case "placeholder" | "get_attr":
                    self._given(node)
                case "call_function":
                    self._call(node)
                case "output":
                    self.kept = [
                        self.in_memory(used)
                        for used in node.all_input_nodes
                        if self._is_tensor(used)
                    ]
                case other:
                    raise NotLowered(f"a node that is a {other}")

    def _is_tensor(self, node: fx.Node) -> bool:
        return self._place(node) in self.values

    def _place(self, node: fx.Node) -> tuple[fx.Node, int | None]:
        """Of a node, or of the result that it takes out of another one's."""
        if node.target is getitem and isinstance(node.args[1], int):
            of = node.args[0]
            assert isinstance(of, fx.Node)
            if (of, None) not in self.values:
                return of, node.args[1]
        return node, None

    def _given(self, node: fx.Node) -> None:
        facts = node.meta.get("facts")
        if isinstance(facts, TensorFacts):
            self.values[node, None] = self._buffer(node.name, facts)
            self.memory[node, None] = self.values[node, None]

    def _call(self, node: fx.Node) -> None:
        if node.target is getitem and self._place(node) in self.values:
            return
        try:
            made = self._lowered(node)
        except NotLowered:
            self._as_it_is(node)
            return
        except TypeError:
            if not self.varies:
                raise
            self._as_it_is(node)  # it takes a size as a number
            return
        if not isinstance(made, tuple):
            self._define(node, None, made, node.meta["facts"])
            return
        for k, result in enumerate(made):
            if result is not None:
                self._define(node, k, result, node.meta["facts"][k])

    def _lowered(self, node: fx.Node) -> Any:
        target: Any = node.target
        random = "random" in node.meta
        if node in self.left or not (self.draws if random else isinstance(target, OpOverload)):
            raise NotLowered(f"{target} is no op of ATen")
        if not all(map(self._is_lowerable, _facts_of(node))):
            raise NotLowered("a tensor that kernels do not know")
        operand: Callable[[fx.Node], Any] = self._operand
        args, kwargs = fx.map_arg((node.args, node.kwargs), operand)
        if not random:
            self._lowering.given = [each for n in node.all_input_nodes for each in _facts_of(n)]
            return lower(self._lowering, target, args, kwargs, node.meta["facts"])
        return self._drawn(node, args, kwargs)

    def _drawn(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """Random numbers of a stream for which ATen draws the seed, once in a call."""
        (seed,) = self._seed.writes
        stream = Stream(self._lowering, self._lowering.of_buffer(seed).get(), self.streams)
        target: Any = node.target
        made = lower_random(self._lowering, stream, target, args, kwargs, node.meta["facts"])
        if not self.streams:
            self.items.append(self._seed)
        self.streams += 1
        return made

    @cached_property
    def _seed(self) -> Opaque:
        """The call that draws the seed of the random numbers in kernels, from ATen's own stream."""
        ends = torch.iinfo(torch.int64)
        args: tuple[Any, ...] = ends.min, ends.max, []
        kwargs: dict[str, Any] = {"dtype": torch.int64, "device": self.device}
        op = torch.ops.aten.randint.low
        node = fx.Graph().create_node("call_function", op, args, kwargs, name="seed")
        seed = Buffer("seed", torch.int64, (), ())
        return Opaque((), (seed,), _Call(node, {None: seed}), in_order=True)

    def _operand(self, node: fx.Node) -> Tensor:
        buffer = self.values.get(self._place(node))
        if buffer is None or buffer.dtype not in ops.EVERY or buffer in self.elsewhere:
            raise NotLowered(f"{node} is no tensor that kernels know")
        return self._lowering.of_buffer(buffer)

    def _buffer(self, name: str, facts: TensorFacts) -> Buffer:
        sizes, strides = (tuple(map(_number, each)) for each in (facts.size, facts.stride))
        buffer = Buffer(name, facts.dtype, sizes, strides)
        if facts.device != self.device:
            self.elsewhere.add(buffer)
        return buffer

    def _is_lowerable(self, facts: TensorFacts) -> bool:
        return facts.device == self.device and facts.dtype in ops.EVERY

    def _define(
        self, node: fx.Node, k: int | None, made: Tensor | table.Scattered, facts: TensorFacts
    ) -> None:
        buffer = self._buffer(node.name if k is None else f"{node.name}_{k}", facts)
        self.values[node, k] = buffer
        self.nodes[buffer] = node
        base = made if isinstance(made, Tensor) else made.base
        start = Definition(buffer, base.axes, base.value)
        if isinstance(made, Tensor) or any(same(axis.extent, 0) for axis in made.over):
            self.items.append(start)  # over an axis that no place or value names there is no loop
        else:
            store = Store(buffer, made.index, made.update, made.combine)
            self.items.append(Scattered(buffer, start, store, made.over))
        if not _is_view(node):
            self.memory[node, k] = buffer

    def computed_by(self, kernel: Kernel) -> list[fx.Node]:
        """The nodes that a kernel computes, in the order of the graph."""
        given = frozenset(kernel.inputs)
        found: set[fx.Node] = set()
        stack = [self.nodes[buffer] for buffer in kernel.outputs]
        while stack:
            node = stack.pop()
            if node in found:
                continue
            found.add(node)
            for used in node.all_input_nodes:
                buffer = self.values.get(self._place(used))
                if buffer in self.nodes and buffer not in given:
                    stack.append(self.nodes[buffer])
        return sorted(found)

    def in_memory(self, node: fx.Node) -> Buffer:
        """The buffer that a node's tensor lies in."""
        place = self._place(node)
        if place not in self.memory:  # a view, which ATen makes of what it is a view of
            self._as_it_is(place[0])
        return self.memory[place]

    def _as_it_is(self, node: fx.Node) -> None:
        reads = tuple(self.in_memory(n) for n in node.all_input_nodes if self._is_tensor(n))
        results: dict[int | None, Buffer] = {}
        facts = node.meta.get("facts")
        several = isinstance(facts, tuple | list)
        every: Any = facts if several else (facts,)
        for k, each in enumerate(every):
            if isinstance(each, TensorFacts):
                place = k if several else None
                name = node.name if place is None else f"{node.name}_{place}"
                results[place] = self.memory[node, place] = self._buffer(name, each)
                self.values.setdefault((node, place), results[place])
        in_order = "random" in node.meta or not isinstance(node.target, OpOverload)
        call = _Call(node, results)
        self.items.append(Opaque(reads, tuple(results.values()), call, in_order))


class _Wrapper:
    """Writes the graph of what is called."""

    def __init__(
        self,
        lowered: _Lowered,
        maker: Maker,
        steps: Sequence[Kernel | Opaque],
        into: Mapping[fx.Node, fx.Node],
    ) -> None:
        self._lowered = lowered
        self._maker = maker
        self._relied_on = {b for step in steps if isinstance(step, Kernel) for b in step.inputs}
        """What kernels read here, or in the graph that gets it: the backward one."""
        self._relied_on.update(lowered.kept)
        values = {lowered.in_memory(value): value for value in into}
        self._targets = InPlace(
            {buffer: lowered.in_memory(into[value]) for buffer, value in values.items()},
            lowered.kept,
            steps,
        )
        self._values = values
        self.in_place: list[fx.Node] = []
        """Values that are written where inputs lie."""
        self._normaliser = Normaliser(lowered.builder)
        self._made: dict[object, Made] = {}
        self._waiting: list[tuple[Kernel, Collection[fx.Node], Callable[[], None]]] = []
        self.kernels: list[Kernel] = []
        """Those that are called."""
        self._graph = fx.Graph()
        self._nodes: dict[Buffer, fx.Node] = {}
        """The tensors that exist."""
        self._others: dict[fx.Node, Any] = {}
        """What stands for nodes that are no tensors in memory."""
        for node in lowered.graph.nodes:
            if node.op == "placeholder":
                self._others[node] = self._graph.placeholder(node.name)
            elif node.op == "get_attr":
                self._others[node] = node.meta["value"]
            if (node, None) in lowered.memory and node in self._others:
                self._nodes[lowered.memory[node, None]] = self._others[node]

    def add(self, k: int, step: Kernel | Opaque) -> None:
        """The k-th step."""
        match step:
            case Kernel():
                self._kernel(k, step)
            case Opaque(call=_Call() as call):
                self._call(call)

    def wait(self) -> None:
        """Wait until all kernels are compiled.

        Raises:
            _Failed: one could not be.
        """
        for kernel, nodes, ready in self._waiting:
            try:
                ready()
            except Exception as error:
                if from_outside(error):
                    raise
                raise _Failed(kernel, nodes, error) from error

    def finished(self) -> fx.Graph:
        (output,) = self._lowered.graph.find_nodes(op="output")
        self._graph.output(fx.map_arg(output.args[0], self._used))
        return self._graph

    @property
    def made(self) -> Collection[Made]:
        """The kernels that differ from one another."""
        return self._made.values()

    def _used(self, node: fx.Node) -> Any:
        place = self._lowered._place(node)
        buffer = self._lowered.memory.get(place)
        return self._others[node] if buffer is None else self._nodes[buffer]

    def _kernel(self, k: int, kernel: Kernel) -> None:
        targets = self._targets.targets(k, kernel, self._normaliser, self._lowered.builder)
        for value, target in targets.items():
            if not self.in_place:
                self._graph.call_function(increment_version, (self._nodes[target],))
            self.in_place.append(self._values[value])
            self._nodes[value] = self._nodes[target]
        outputs = sorted(kernel.outputs, key=lambda buffer: buffer not in self._nodes)
        given = sum(buffer in self._nodes for buffer in outputs)
        nodes = self._lowered.computed_by(kernel)
        ops = tuple(_op(node) for node in nodes if not _is_view(node))
        name = "_".join(dict.fromkeys(ops))[:_LONGEST_NAME].strip("_") or "copy"
        kernel = replace(kernel, name=name, ops=ops, outputs=tuple(outputs))
        self.kernels.append(kernel)
        normal = self._normaliser.normal(kernel)
        key = _key(normal, given)
        made = self._made.get(key)
        if made is None:
            try:
                made = self._maker.make(normal, self._lowered.builder, given)
            except Exception as error:
                if from_outside(error):
                    raise
                raise _Failed(kernel, nodes, error) from error
            self._made[key] = made
            if made.ready is not None:
                self._waiting.append((kernel, nodes, made.ready))
        function = made.function
        args: list[Any] = [
            self._nodes[buffer] for buffer in (*normal.inputs, *normal.outputs[:given])
        ]
        args.extend(made.numbers)
        fresh = normal.outputs[given:]
        if len(fresh) == 1:
            self._nodes[fresh[0]] = self._graph.create_node(
                "call_function", function, tuple(args), name=fresh[0].name
            )
            return
        call = self._graph.create_node("call_function", function, tuple(args))
        self._take(call, dict(enumerate(fresh)))

    def _call(self, call: _Call) -> None:
        args, kwargs = fx.map_arg((call.node.args, call.node.kwargs), self._used)
        made = self._graph.create_node(
            "call_function", call.node.target, args, kwargs, name=call.node.name
        )
        self._others[call.node] = made
        if None in call.results:
            self._nodes[call.results[None]] = made
        else:
            self._take(made, {k: b for k, b in call.results.items() if k is not None})
        if self._lowered.device.type == "cpu" and is_sure(call.node.target):
            return
        for buffer in filter(self._relied_on.__contains__, call.results.values()):
            check = as_expected(str(call.node.target), buffer)
            self._nodes[buffer] = self._graph.call_function(check, (self._nodes[buffer],))

    def _take(self, call: fx.Node, results: Mapping[int, Buffer]) -> None:
        for k, buffer in results.items():
            self._nodes[buffer] = self._graph.create_node(
                "call_function", getitem, (call, k), name=buffer.name
            )


def _key(normal: Normal, given: int) -> object:
    """Equal for kernels that do the same with tensors of the same layout."""
    stores = tuple((s.buffer, s.index, s.value, s.combine) for s in normal.kernel.stores)
    layouts = tuple((b.dtype, b.sizes, b.strides) for b in normal.outputs)
    return stores, normal.kernel.axes, normal.kernel.inputs, layouts, given


def _number(length: object) -> int:
    if type(length) is not int and not varies(length):
        raise NotLowered("sizes that vary")
    return length  # type: ignore[return-value]


def _facts_of(node: fx.Node) -> Iterator[TensorFacts]:
    facts = node.meta.get("facts")
    for each in facts if isinstance(facts, tuple | list) else (facts,):
        if isinstance(each, TensorFacts):
            yield each


def _is_view(node: fx.Node) -> bool:
    """Whether eager code makes no memory for the result."""
    if not isinstance(node.target, OpOverload):
        return False
    returned = schema(node.target).returns
    return any(result.alias_info is not None for result in returned)


def _title(call: object) -> str:
    assert isinstance(call, _Call)
    return _op(call.node)


def _op(node: fx.Node) -> str:
    """An op's name, as people know it."""
    if not isinstance(node.target, OpOverload):
        return getattr(node.target, "__name__", str(node.target))
    return op_name(node.target).removeprefix("aten::").strip("_")


def _fused(kernel: Kernel) -> events.Kernel:
    moved = sum(_bytes(buffer) for buffer in (*kernel.inputs, *kernel.outputs))
    return events.Kernel(kernel.name, kernel.ops, moved)


def _bytes(buffer: Buffer) -> int:
    """Of the elements that a buffer holds: those that are expanded lie there once."""
    sizes = zip(buffer.sizes, buffer.strides, strict=True)
    long = prod(example(size) for size, stride in sizes if not same(stride, 0))
    return long * buffer.dtype.itemsize


_LONGEST_NAME = 60
