"""Makes a functional graph of ATen ops of a graph of torch functions, for inference.

The graph runs once on stand-ins (see `recorder`), 100 µs an op; nothing of torch's compiler is
imported for the functions that `facts` has rows for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import getitem, setitem
from types import FunctionType, MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor, fx

from jitpkg.codegen.aten.opened import IsLowered, opens
from jitpkg.codegen.aten.parts import Part, parts_written
from jitpkg.codegen.aten.prepared import (
    Constant,
    Input,
    Prepared,
    Result,
    Same,
    Value,
    ViewOf,
    Write,
)
from jitpkg.codegen.aten.recorder import Recorder
from jitpkg.codegen.aten.traced import Declined, Traced
from jitpkg.codegen.graph.autocast import casts
from jitpkg.codegen.graph.grad_modes import GradModes, has_backward, is_switch, makes_leaf
from jitpkg.codegen.ir.extents import SYMBOL, symbolic
from jitpkg.codegen.sizes.symbols import Symbols
from jitpkg.facts.casting import Casting, is_active, state
from jitpkg.facts.heard import Heard
from jitpkg.facts.layout import gradient_of, overlaps
from jitpkg.facts.rows.lengths import LENGTH_ROWS
from jitpkg.facts.rows.views import varies as takes_symbols
from jitpkg.facts.single import (
    FUNCTIONS,
    Singles,
    Unanswered,
    elsewhere,
    of_whole_function,
    products_compare_sizes,
)
from jitpkg.facts.symbolic import length
from jitpkg.facts.tensor import TensorFacts, contiguous_stride, facts_of, why_not_plain
from jitpkg.facts.thread_state import changes_autocast
from jitpkg.internals import Missing, modes, tensors
from jitpkg.internals.ops import OpOverload, is_of_another_library
from jitpkg.internals.tensors import memory
from jitpkg.interrupts import from_outside
from jitpkg.marks import (
    ASKED,
    BODIES,
    GRADIENTS,
    LEAVES,
    OUTCOME,
    RECOMPUTED,
    TRANSFORMED,
    VIEW_LEAVES,
    WARNS,
    WRITES,
    varies,
)


def prepare(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    symbols: Symbols | None = None,
    *,
    trains: bool = False,
    is_lowered: IsLowered | None = None,
) -> Prepared | str:
    """The graph for these inputs and all of the same facts; or why it cannot be prepared.

    Args:
        symbols: what stands for sizes and numbers that vary; the graph then has a placeholder more
            for each, behind the inputs.
        trains: whether results have gradients, which the prepared graph knows nothing of.
        is_lowered: whether an op becomes kernels, for functions that are recorded as a whole where
            one of their ops does not. None leaves them whole.

    Grad mode and default dtype are the process's, now and whenever the graph is run.
    """
    try:
        why = _obstacle(gm, example_inputs, symbols)
    except Missing as missing:
        return str(missing)
    grad_modes = GradModes.trained(gm) if trains else GradModes.of(gm, example_inputs)
    if why is not None or isinstance(grad_modes, str):
        return why or str(grad_modes)
    with Heard() as heard, torch.inference_mode(False), torch.no_grad():
        casting = Casting() if casts(gm.graph) else None
        try:
            run = _Preparation(gm, example_inputs, grad_modes, symbols, casting, is_lowered, trains)
            prepared = run.prepared()
        except (Declined, Missing) as error:
            return str(error)
        except Unanswered as error:
            return f"nothing is known of an op: {error}"
        finally:
            if casting is not None:
                casting.end()
    return "an op that warns" if heard.any else prepared


def _obstacle(gm: fx.GraphModule, inputs: Sequence[Any], symbols: Symbols | None) -> str | None:
    if symbols is None and varies(gm.meta):
        return "sizes that vary"
    for given in inputs:
        if symbols is not None and type(given) is int:
            continue
        if not isinstance(given, torch.Tensor):
            return "an input that is no tensor"
        why = why_not_plain(given)
        if why is not None:
            return why
        if given.device.type != "cpu":
            return f"a tensor on {given.device}"
    if modes.ANY_AUTOCAST.get()():  # it would cast what calls of ATen get
        return "autocast from outside"
    if modes.FORWARD_LEVEL.get()() >= 0:
        return "forward-mode differentiation"
    if any(hasattr(node.target, WARNS) for node in gm.graph.nodes):
        return "an op that warns"
    return None


_LINEAR = torch.nn.functional.linear

_WHOLE: Mapping[Callable[..., Any], Any] = MappingProxyType(
    {_LINEAR: torch.ops.aten.linear.default}
)
"""Functions that stay one op: eager code runs it as such, and what it is made of costs more."""


_MORE_THAN_AN_OP = frozenset({RECOMPUTED, OUTCOME, GRADIENTS, TRANSFORMED})
"""Marks of what autocast does not enter as it does in eager code."""


class _Preparation:
    def __init__(
        self,
        gm: fx.GraphModule,
        inputs: Sequence[Any],
        modes: GradModes,
        symbols: Symbols | None,
        casting: Casting | None,
        is_lowered: IsLowered | None,
        trains: bool,
    ) -> None:
        self._symbols = symbols
        self._is_lowered = is_lowered
        self._casting = casting
        decisions = None if symbols is None else symbols.decisions
        self._gm = gm
        self._modes = modes
        self._inputs = inputs
        self._singles = Singles(decisions)
        self._recorder = Recorder(self._singles, decisions)
        self._recorder.grad_mode = modes.first
        self._recorder.trains = trains
        self._given: list[Traced | None] = []
        self._values: list[fx.Node] = []
        self._slots: dict[int, int] = {}
        self._made: dict[fx.Node, Any] = {}
        self._parts = 0
        """How many parts of the graph are to be computed again going backward."""

    def prepared(self) -> Prepared:
        before = None if self._casting is None else state()
        self._add_inputs()
        for node in self._gm.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                returned = fx.map_arg(node.args[0], self._made.__getitem__)
            else:
                self._made[node] = self._call(node)
        if self._casting is not None and state() != before:
            raise Declined("autocast that the graph does not leave as it was")
        results = self._results(returned)
        writes = self._writes()
        self._recorder.graph.output(tuple(self._values))
        graph = self._recorder.graph
        modes = self._modes
        return Prepared(
            type(self._gm).__name__,
            self._gm,
            graph,
            results,
            writes,
            without_grad=modes.off,
            grad_mode=modes.last if modes.last is not modes.first else None,
        )

    def _add_inputs(self) -> None:
        for node in self._gm.graph.find_nodes(op="placeholder"):
            self._made[node] = self._placeholder(node)
        if self._symbols is None:
            return
        for name in self._symbols.names:
            node = self._recorder.number(name)
            assert node.name == name, "the name of a symbol is taken"
            node.meta[SYMBOL] = True

    def _placeholder(self, node: fx.Node) -> Any:
        index = len(self._given)
        given = self._inputs[index]
        if self._symbols is not None and not isinstance(given, torch.Tensor):
            self._recorder.number(node.name)
            self._given.append(None)
            return self._symbols.number(index)
        facts = facts_of(given) if self._symbols is None else self._symbols.facts(index)
        traced = self._recorder.placeholder(node.name, index, facts)
        self._given.append(traced)
        if self._casting is not None and given.requires_grad and tensors.is_leaf(given):
            self._casting.leaf(traced.tensor)
        return traced.tensor

    def _call(self, node: fx.Node) -> Any:
        target: Any = node.target
        args: Any
        kwargs: Any
        if is_switch(node):
            self._recorder.grad_mode = bool(node.args[0])
            return None
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._made.__getitem__)
        if changes_autocast(target):
            return target(*args, **kwargs)
        if target is getitem and not isinstance(args[0], torch.Tensor):
            return args[0][args[1]]
        if self._casting is not None and is_active():
            if not _MORE_THAN_AN_OP.isdisjoint(node.meta):
                raise Declined("more than an op, under autocast")
            if not _is_a_write(node):
                self._recorder.casting = self._casting
                try:
                    return self._of_function(node, args, kwargs)
                finally:
                    self._recorder.casting = None
        if RECOMPUTED in node.meta:
            return self._of_part(node.meta[RECOMPUTED], args)
        if TRANSFORMED in node.meta:
            return self._of_transform(node, args)
        if OUTCOME in node.meta:
            return self._of_autograd_function(node, args)
        if ASKED in node.meta:
            return self._of_asked(node, args)
        if GRADIENTS in node.meta:
            return self._of_backward(node, args)
        return self._of_function(node, args, kwargs)

    def _of_function(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        if node.target == "requires_grad_" and has_backward(self._gm.graph):
            return self._of_leaf(node, args[0])
        if makes_leaf(node):
            raise Declined("a leaf that is made to require grad")
        target: Any = node.target
        function, name = _function_of(node, args)
        here = args, kwargs
        if self._recorder.casting is None:
            here = elsewhere(args), elsewhere(kwargs)
        try:
            if target in (getitem, setitem):
                here = self._with_tensors(*here[0]), here[1]
            return self._recorder.undone_if_unanswered(
                lambda: self._checked_by_ops(name, target, function, *here)
            )
        except Unanswered:
            return self._as_a_whole(name, function, args, kwargs)

    def _of_part(self, part: fx.Graph, args: Sequence[Any]) -> tuple[Any, ...]:
        """What a part of the graph returns, whose nodes have a number of its own."""
        self._made.update(zip(part.find_nodes(op="placeholder"), args, strict=True))
        self._parts += 1
        with self._recorder.within(self._recorder.part or self._parts):  # of the outermost
            for node in part.nodes:
                if node.op not in ("placeholder", "output"):
                    self._made[node] = self._call(node)
        returned: Any = part.output_node().args[0]
        return tuple(fx.map_arg(returned, self._made.__getitem__))

    def _of_transform(self, node: fx.Node, args: Any) -> Any:
        """The ops that it comes to, below torch's levels."""
        run: Any = node.target
        try:
            with self._recorder.at_levels():
                made = run(*args)
        except (Declined, Unanswered, Missing):
            raise
        except Exception as error:
            if from_outside(error):
                raise
            raise Declined(f"a function transform: {type(error).__name__}: {error}") from error
        for each in made:
            self._recorder.traced(each)
        return made

    def _of_autograd_function(self, node: fx.Node, args: Any) -> Any:
        """As a whole: its derivative is the program's. Nobody writes to what it shows as a view."""
        if LEAVES in node.meta:
            raise Declined(VIEW_LEAVES)
        outcome, apply = node.meta[OUTCOME], cast(Callable[..., Any], node.target)
        result = self._singles.made(outcome.result)
        # Control flow has no derivative of its own.
        meta = {} if BODIES in node.meta else {OUTCOME: outcome}
        return self._recorder.as_a_whole(apply, args, {}, result, random=outcome.random, meta=meta)

    def _of_backward(self, node: fx.Node, args: Any) -> Any:
        """As a whole: it is recorded when autograd is on."""
        *_, leaves, _ = args
        facts = [gradient_of(self._recorder.traced(leaf).base().facts) for leaf in leaves]
        made = tuple(self._singles.made(each) for each in facts)
        gradients = cast(Callable[..., Any], node.target)
        return self._recorder.as_a_whole(
            gradients, args, {}, made, random=False, meta={GRADIENTS: True}
        )

    def _of_asked(self, node: fx.Node, args: Any) -> Any:
        """The same: whose memory a gradient lies in is known where it is recorded."""
        outcome = node.meta[ASKED]
        if any(each is not None for each in outcome.shares):
            raise Declined("a gradient that shares memory")
        asked = cast(Callable[..., Any], node.target)
        by = [args[2][k] for k, _ in args[3]]
        made = tuple(map(self._gradient, outcome.result, by))
        meta = {GRADIENTS: True, ASKED: outcome}
        return self._recorder.as_a_whole(asked, args, {}, made, random=False, meta=meta)

    def _gradient(self, facts: TensorFacts, by: torch.Tensor) -> torch.Tensor:
        """Where sizes vary it lies in order."""
        if facts.is_symbolic:
            size = self._recorder.traced(by).facts.size
            facts = replace(facts, size=size, stride=contiguous_stride(size))
        made: torch.Tensor = self._singles.made(facts)
        return made

    def _of_leaf(self, node: fx.Node, made: torch.Tensor) -> Any:
        """The same tensor, which gradients go to from here on: in the graph, another value."""
        if any(node.name in each.meta.get(WRITES, ()) for each in self._gm.graph.nodes):
            raise Declined("a write to a leaf that the graph has made")
        leaf = self._singles.made(self._recorder.traced(made).facts)
        return self._recorder.as_a_whole(as_leaf, (made,), {}, leaf, random=False)

    def _checked_by_ops(self, *call: Any) -> Any:
        made = self._by_ops(*call)
        self._recorder.check_made(made)
        return made

    def _by_ops(self, name: str, target: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """Run a function on stand-ins, where the ops that it comes to are those on the CPU."""
        casting = self._recorder.casting
        call = function if casting is None else casting.calling(function)
        try:
            if target in _WHOLE and casting is None:
                return self._as_one_op(_WHOLE[target], function, args, kwargs)
            if name in LENGTH_ROWS and takes_symbols([*args, *kwargs.values()]):
                with suppress(Unanswered):
                    result = of_whole_function(name, args, kwargs)
                    return self._recorder.as_a_whole(function, args, kwargs, result, random=False)
            if self._symbols is not None and name == "matmul" and products_compare_sizes():
                raise Unanswered("a product that takes sizes for numbers")
            if name == "matmul" and casting is None and not kwargs and _is_row_by_matrix(args):
                call = _row_by_matrix
            if name in FUNCTIONS:
                with self._recorder.of_function(name):
                    return call(*args, **kwargs)
            if not name or isinstance(function, FunctionType):
                raise Unanswered(f"no row for {name}")
            with self._recorder.only(name.strip("_")):  # then it is that op, on any device
                return call(*args, **kwargs)
        except (Declined, Unanswered):
            raise
        except Exception as error:
            if name not in FUNCTIONS:
                raise Unanswered(f"{type(error).__name__}: {error}") from error
            raise Declined(f"{name} raises {type(error).__name__}: {error}") from error

    def _with_tensors(self, indexed: Any, index: Any, *value: Any) -> tuple[Any, ...]:
        """The operands of an indexing with a tensor for each list of ints, as torch makes one where
        nobody sees it."""
        several = type(index) is tuple
        items = [self._listed(item) for item in (index if several else (index,))]
        return indexed, tuple(items) if several else items[0], *value

    def _listed(self, item: Any) -> Any:
        if type(item) is not list or not item or any(type(each) is not int for each in item):
            return item
        result = of_whole_function("tensor", (item,), {})
        return self._recorder.as_a_whole(torch.tensor, (item,), {}, result, random=False)

    def _as_one_op(self, op: Any, function: Any, args: Any, kwargs: Any) -> Any:
        result = self._recorder.answered(lambda: function(*args, **kwargs))
        return self._recorder.as_a_whole(op, args, kwargs, result, random=False)

    def _as_a_whole(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        if self._recorder.casting is not None:
            args, kwargs = self._recorder.cast(function, args, kwargs)
        result, random = self._singles.of_function(name, function, args, kwargs)
        if not random and self._opens(name, function, args, kwargs, result):
            with suppress(Unanswered):
                return self._recorder.undone_if_unanswered(
                    lambda: self._opened(name, function, args, kwargs)
                )
        return self._recorder.as_a_whole(function, args, kwargs, result, random=random)

    def _opens(self, name: str, function: Any, args: Any, kwargs: Any, result: Any) -> bool:
        if self._is_lowered is None or self._symbols is not None or self._casting is not None:
            return False
        return opens(name, function, args, kwargs, result, self._is_lowered)

    def _opened(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        try:
            with self._recorder.of_function(name):
                made = function(*elsewhere(args), **elsewhere(kwargs))
        except Declined as error:
            raise Unanswered(str(error)) from error
        self._recorder.check_made(made)
        return made

    # What comes out

    def _results(self, returned: Sequence[Any]) -> tuple[Result, ...]:
        results: list[Result] = []
        first: dict[int, int] = {}
        for k, value in enumerate(returned):
            if isinstance(value, torch.SymInt) and self._symbols is not None:
                results.append(Constant(symbolic(length(value), self._symbols.decisions)))
                continue
            if isinstance(value, int | float | str | torch.Size | torch.dtype | None):
                results.append(Constant(value))
                continue
            if not isinstance(value, torch.Tensor):
                raise Declined(f"a result of the class {type(value).__name__}")
            known = first.setdefault(id(value), k)
            results.append(Same(known) if known != k else self._result(value))
        return tuple(results)

    def _result(self, tensor: torch.Tensor) -> Result:
        traced = self._recorder.traced(tensor)
        base, views = traced.base(), traced.views()
        of: Input | Value
        if base.memory.input is not None:
            of = Input(base.memory.input)
            if views and self._modes.changes:
                raise Declined("a view of an input, and changes of grad mode")
            if views and base.memory.version and self._is_watched(base.memory.input):
                raise Declined("a view of an input that is written to, while grad mode is off")
        else:
            of = Value(self._slot(base))
        # eager code lets nobody write to a view taken while grad mode is off what requires grad
        taken = all(each.grad_mode for each in traced.shown() if each.view is not None)
        return ViewOf(of, views, None if taken is self._modes.first else taken) if views else of

    def _is_watched(self, k: int) -> bool:
        """Whether an input requires grad where grad mode is off: of its views autograd knows
        whether they were taken before writes to it, or after."""
        return not self._modes.first and self._inputs[k].requires_grad

    def _slot(self, base: Traced) -> int:
        """Where the graph returns the value of a tensor."""
        if id(base) not in self._slots:
            self._slots[id(base)] = len(self._values)
            self._values.append(self._recorder.read(base))
        return self._slots[id(base)]

    def _writes(self) -> tuple[Write, ...]:
        traced = {k: given for k, given in enumerate(self._given) if given is not None}
        written = [k for k, given in traced.items() if given.memory.version]
        memories = Counter(memory(self._inputs[k]) for k in traced if self._inputs[k].numel())
        for k in written:
            if memories[memory(self._inputs[k])] > 1 and self._inputs[k].numel():
                raise Declined("a write to inputs that share memory")
            if overlaps(traced[k].facts.size, traced[k].facts.stride):
                raise Declined("a write to what may overlap with itself")
        return tuple(write for k in written for write in self._writes_to(k))

    def _writes_to(self, k: int) -> list[Write]:
        given = self._given[k]
        assert given is not None
        parts = parts_written(self._recorder.placeholders[k], self._recorder.read(given))
        bumps = tensors.VERSION.get()(given.tensor)
        if not bumps or len(parts) > bumps:
            parts = [Part((), self._recorder.read(given))]
        if self._inputs[k].is_inference():  # it counts nothing
            bumps = len(parts)
        writes: list[Write] = []
        for n, part in enumerate(parts):
            last = n == len(parts) - 1
            slot = len(self._values)
            self._values.append(part.value)
            writes.append(Write(k, part.views, slot, bumps - n if last else 1))
        return writes


def _is_a_write(node: fx.Node) -> bool:
    """Whether it writes to its first argument: autocast has no such op."""
    name = getattr(node.target, "__name__", str(node.target))
    return node.target is setitem or WRITES in node.meta or (name[-1:] == "_" and name[-2:] != "__")


def as_leaf(made: torch.Tensor) -> torch.Tensor:
    """In a prepared graph: what `made.requires_grad_()` returns."""
    raise NotImplementedError("it is recorded when autograd is on")


def _is_row_by_matrix(args: Sequence[Any]) -> bool:
    return [each.dim() for each in args if isinstance(each, torch.Tensor)] == [1, 2]


def _row_by_matrix(row: Tensor, matrix: Tensor) -> Tensor:
    """Torch makes a matrix with one row of it, which it changes to a vector in place."""
    return torch.mv(matrix.t(), row)


def _function_of(node: fx.Node, args: Sequence[Any]) -> tuple[Callable[..., Any], str]:
    """What a node calls, and the name that `facts` knows it by: none for what is not torch's."""
    target: Any = node.target
    if node.op == "call_method":
        return getattr(torch.Tensor, target), target
    if target is getattr:
        return target, args[1]
    return target, known_name(target)


def known_name(target: Any) -> str:
    """The name of a function that is torch's; none for others."""
    module = getattr(target, "__module__", None) or "torch"
    known = module.split(".")[0] in ("torch", "_operator") and not is_of_another_library(target)
    name: str = getattr(target, "__name__", "") if known else ""
    return name.partition(".")[0] if isinstance(target, OpOverload) else name
