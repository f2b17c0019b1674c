"""Forward and backward of a functional graph as one graph, by torch's own derivative formulas.

The graph's ops run on tensors without data, with autograd on; then torch's engine is asked for the
gradients of what they return. The formulas, which are C++, call ATen ops like any code, and these
are written down as the forward's are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import getitem
from typing import Any, TypeVar

import torch
from torch import fx

from jitpkg.codegen.aten.prepare import as_leaf, known_name
from jitpkg.codegen.aten.prepared import Prepared, ViewOf
from jitpkg.codegen.aten.reach import root_of
from jitpkg.codegen.aten.recorder import Recorder
from jitpkg.codegen.aten.traced import (
    NO_GRAD,
    NUMBER,
    ONE_OF_SEVERAL,
    PART,
    REPLACES,
    WRITES_OVER,
    WRITTEN_TO,
    Declined,
    Traced,
)
from jitpkg.codegen.autograd.unseen import is_unseen, with_history_of
from jitpkg.codegen.ir.extents import Symbolic, with_expressions
from jitpkg.dataclass import dataclass
from jitpkg.facts.layout import overlaps
from jitpkg.facts.rows.functions import flash_is_on
from jitpkg.facts.single import RECORDED, Singles, Unanswered, elsewhere, of_whole_function
from jitpkg.facts.symbolic import Decisions
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals import ops, trees
from jitpkg.internals.ops import OpOverload
from jitpkg.internals.tensors import gradients, next_number, number_of_formula
from jitpkg.interrupts import from_outside
from jitpkg.marks import ASKED, OUTCOME

T = TypeVar("T")

TANGENT = "tangents_{}"
"""What a gradient of a result is called: parts of a backward pass are found by that."""


@dataclass(frozen=True, eq=False, slots=True)
class Joint:
    """Forward and backward in one graph, whose nodes have `meta["facts"]`."""

    graph: fx.Graph
    """Its placeholders are the forward's, and then the tangents. It returns nothing yet."""
    values: tuple[fx.Node, ...]
    """What the forward returns."""
    differentiable: tuple[int, ...]
    """Which of these have a tangent."""
    gradients: tuple[fx.Node | None, ...]
    """For each placeholder of the forward."""
    backward: frozenset[fx.Node]
    """What the backward pass has computed."""


def joint(
    prepared: Prepared, inputs: Sequence[Any], decisions: Decisions | None = None
) -> Joint | str:
    """Forward and backward of a graph whose inputs are these, or why they cannot be recorded.

    Args:
        decisions: what is decided about sizes that vary, where some do.
    """
    return recorded_or_why(lambda: _Joint(prepared, inputs, decisions).recorded())


def recorded_or_why(record: Callable[[], T]) -> T | str:
    """What `record` returns, with autograd on; or why it cannot."""
    with torch.inference_mode(False), torch.enable_grad():
        try:
            return record()
        except Declined as error:
            return str(error)
        except Unanswered as error:
            return f"nothing is known of an op: {error}"
        except Exception as error:  # a formula that asks for data, or that torch has not written
            if from_outside(error):
                raise
            return f"its gradient cannot be recorded: {type(error).__name__}: {error}"


class Replay:
    """Runs a prepared graph on stand-ins, with autograd as in eager code."""

    def __init__(
        self, prepared: Prepared, inputs: Sequence[Any], decisions: Decisions | None
    ) -> None:
        self._prepared = prepared
        self._inputs = inputs
        self._recorder = Recorder(Singles(decisions), decisions)
        self._made: dict[fx.Node, Any] = {}
        self._written: dict[fx.Node, int] = {}
        """What is written over: the number of the first op of autograd's after that."""

    def _calls(self) -> list[fx.Node]:
        return [node for node in self._prepared.graph.nodes if node.op == "call_function"]

    def _run(self, node: fx.Node) -> None:
        if WRITES_OVER in node.meta:
            self._write_over(node.meta[WRITES_OVER])
        if ONE_OF_SEVERAL in node.meta:
            raise Declined("a write to one of several views: eager code may refuse it")
        grad = torch.set_grad_enabled(NO_GRAD not in node.meta)
        with grad, self._recorder.within(node.meta.get(PART)):
            self._made[node] = self._call(node)
        if REPLACES in node.meta:
            self._check_replaced(node)

    def _given(self) -> dict[int, Traced]:
        """The inputs that are tensors, by place."""
        placeholders = self._prepared.graph.find_nodes(op="placeholder")
        given = {}
        for k, node in enumerate(placeholders):
            if "facts" not in node.meta:
                self._recorder.number(node.name).meta.update(node.meta)
                continue
            facts = with_expressions(node.meta["facts"])
            given[k] = traced = self._recorder.placeholder(node.name, k, facts)
            traced.tensor.requires_grad_(self._inputs[k].requires_grad)
            self._made[node] = traced.tensor
        return given

    def _asked(self, picks: Any, create: bool, *what: Any, keep: bool) -> tuple[Any, ...]:
        """What `torch.autograd.grad` returns, as far as it is wanted."""
        with self._recorder.of_everything(), torch.set_grad_enabled(create):
            found = self._by_formulas(*what, keep=keep, create=create)
            if any(found[k] is None for k, _ in picks):
                raise Declined("a gradient that nothing gets")
            return tuple(laid(found[k], stride or found[k].stride()) for k, stride in picks)

    def _by_formulas(self, *what: Any, keep: bool, create: bool = False) -> Any:
        """Gradients inside of a graph, of what has not been written to since it was saved."""
        before = set(self._recorder.graph.nodes)
        with self._recorder.numbered(number_of_formula):
            found = gradients(*what, keep=keep, create=create)
        self._check_saved([each for each in self._recorder.graph.nodes if each not in before])
        return found

    def _made_leaves(self) -> list[Any]:
        """The leaves that the graph has made so far."""
        return [made for node, made in self._made.items() if node.target is as_leaf]

    def _call(self, node: fx.Node) -> Any:
        target: Any = node.target
        args: Any
        kwargs: Any
        args, kwargs = _with_symints(fx.map_arg((node.args, node.kwargs), self._made.__getitem__))
        if target is getitem and isinstance(args[0], tuple | list):
            return args[0][args[1]]
        if ASKED in node.meta:
            *what, picks, create, keep = args
            return self._asked(picks, create, *what, keep=keep)
        if target is as_leaf:
            with self._recorder.of_everything():
                return args[0].detach().requires_grad_()
        if isinstance(target, OpOverload):
            if "as_strided" in ops.op_name(target):
                raise Declined("as_strided: its gradient depends on where inputs lie in memory")
            with self._recorder.of_everything():
                return target(*elsewhere(args), **elsewhere(kwargs))
        if target is torch.nn.functional.scaled_dot_product_attention:
            with self._recorder.of_everything():
                return _attention(*args, **kwargs)
        is_function = OUTCOME in node.meta
        if is_function or any(_requires_grad(self._made[used]) for used in node.all_input_nodes):
            if not is_function and known_name(target) not in RECORDED:
                raise Declined(f"{getattr(target, '__name__', target)} as a whole")
            with self._recorder.of_everything():
                made = target(*elsewhere(args), **elsewhere(kwargs))
            self._check_layout(target, made, node.meta["facts"])
            return made
        random = "random" in node.meta
        made = self._stand_ins(node.meta["facts"])
        return self._recorder.as_a_whole(target, args, kwargs, made, random=random)

    def _stand_ins(self, facts: Any) -> Any:
        """What a call returns, of which this is known."""
        match facts:
            case TensorFacts():
                return self._recorder.stand_in(facts)
            case tuple():
                return tuple(map(self._stand_ins, facts))
            case _:
                return None

    def _check_layout(self, target: Any, made: Any, facts: Any) -> None:
        """On a CPU, a function may come to other ops: there `group_norm` keeps the channels
        innermost."""
        strides = [
            tuple(each.stride) for each in trees.leaves_of(facts) if isinstance(each, TensorFacts)
        ]
        found = [
            self._recorder.traced(each).facts.stride
            for each in trees.leaves_of(made)
            if isinstance(each, torch.Tensor)
        ]
        if strides != found:
            raise Declined(f"{target.__name__} of what lies in memory so")

    def _write_over(self, before: fx.Node) -> None:
        traced = self._recorder.traced(self._made[before])
        self._written[self._recorder.read(traced)] = next_number()

    def _check_replaced(self, node: fx.Node) -> None:
        """What requires grad does so after each write, if that leaves nothing of what it was."""
        before, after = self._made[node.meta[REPLACES]], self._made[node]
        if is_unseen(node) and before.requires_grad:
            if after.requires_grad:
                raise Declined("a write that autograd sees of a part only")
            with self._recorder.of_everything():
                self._made[node] = with_history_of(before, after)
        elif before.requires_grad and not after.requires_grad:
            raise Declined("a write that leaves nothing of what has a gradient")

    def _check_saved(self, nodes: Iterable[fx.Node]) -> None:
        """Eager code does not go backward with what was written to since it was saved. An op that
        writes saves a copy of what was there."""
        for node in nodes:
            for used in node.all_input_nodes if NUMBER in node.meta else ():
                if node.meta[NUMBER] < self._written.get(root_of(used), 0):
                    raise Declined("a write to what is saved for gradients")


def laid(made: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """A stand-in, or a copy of it that lies otherwise."""
    if made.stride() == tuple(stride):
        return made
    return torch.empty_strided(made.shape, stride, dtype=made.dtype, device="meta").copy_(made)


class _Joint(Replay):
    def recorded(self) -> Joint:
        recorder = self._recorder
        given = self._given()
        for node in self._calls():
            self._run(node)
        self._check_unseen_writes()
        self._check_views()
        results = [self._made[node] for node in self._prepared.values]
        if len({id(result) for result in results}) < len(results):
            raise Declined("a value that is returned twice")
        if any(result is each for result in results for each in self._made_leaves()):
            raise Declined("a leaf that the graph has made is returned")
        values = tuple(recorder.read(recorder.traced(result)) for result in results)
        self._check_writes(results)
        of = [k for k, result in enumerate(results) if result.requires_grad]
        laid = (values[k].meta["facts"] for k in of)
        if any(overlaps(facts.size, facts.stride) for facts in laid):
            raise Declined("a result that overlaps with itself: its gradient cannot lie like it")
        if not of:
            raise Declined("no result that requires grad")
        forward, inputs = set(recorder.graph.nodes), len(recorder.placeholders)
        tangents = [self._tangent(k, values[n].meta["facts"]) for k, n in enumerate(of)]
        trained = [k for k, each in given.items() if each.tensor.requires_grad]
        with recorder.of_everything(), recorder.numbered(number_of_formula), torch.no_grad():
            found = gradients(
                [results[k] for k in of],
                [tangent.tensor for tangent in tangents],
                [given[k].tensor for k in trained],
            )
        self._check_saved(recorder.graph.nodes)
        returned: list[fx.Node | None] = [None] * inputs
        for k, gradient in zip(trained, found, strict=True):
            if gradient is not None:
                returned[k] = recorder.read(recorder.traced(gradient))
        if not any(returned):
            raise Declined("results that require grad, of which no input gets one")
        return Joint(
            recorder.graph,
            values,
            tuple(of),
            tuple(returned),
            frozenset(node for node in recorder.graph.nodes if node not in forward),
        )

    def _tangent(self, k: int, facts: TensorFacts) -> Traced:
        return self._recorder.placeholder(TANGENT.format(k + 1), -1, with_expressions(facts))

    def _check_unseen_writes(self) -> None:
        """Eager code changes such a value, and leaves its gradient as it is."""
        replaced = {node.meta[REPLACES] for node in self._made if REPLACES in node.meta}
        for node, made in self._made.items():
            if WRITTEN_TO in node.meta and made.requires_grad and node not in replaced:
                raise Declined("a write to what has a gradient, which autograd does not see")

    def _check_views(self) -> None:
        """Autograd knows of a view how it was taken, and of what; so it would of another one."""
        for result in self._prepared.results:
            if isinstance(result, ViewOf) and result.grad_mode is not None:
                raise Declined("a view that was taken while grad mode was off")

    def _check_writes(self, results: Sequence[torch.Tensor]) -> None:
        for write in self._prepared.writes:
            if results[write.value].requires_grad or self._inputs[write.input].requires_grad:
                raise Declined("a write to an input that is differentiated")


def _requires_grad(made: Any) -> bool:
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in trees.leaves_of(made))


def _with_symints(value: Any) -> Any:
    """Arguments with torch's symbolic ints for ours."""
    match value:
        case Symbolic():
            return value.decisions.symint(value.size)
        case list():
            return list(map(_with_symints, value))
        case tuple():
            return tuple(map(_with_symints, value))
        case dict():
            return {name: _with_symints(each) for name, each in value.items()}
        case _:
            return value


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """By the op that it is on a CPU, where it is one."""
    of_whole_function("scaled_dot_product_attention", (query, key, value, attn_mask), {})
    if enable_gqa:
        raise Declined("attention in groups")
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        nothing = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = nothing.masked_fill(attn_mask.logical_not(), -torch.inf)
    learns_mask = attn_mask is not None and attn_mask.requires_grad
    if dropout_p or learns_mask or not flash_is_on():
        by_math = ops.ATTENTION_BY_MATH.get()
        of_several: torch.Tensor = by_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale
        )[0]
        return of_several
    op = ops.ATTENTION.get()
    made: torch.Tensor = op(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]
    return made
