"""Runs a program on stand-ins and writes down its ATen ops as a functional graph.

Each memory has a base, the tensor that it was made for, and views of it. A view is a node only
when it is read. A write makes a new value of the base; views that are read afterwards are made of
that again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from operator import getitem
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.traced import (
    NO_GRAD,
    NUMBER,
    ONE_OF_SEVERAL,
    PART,
    REPLACES,
    WRITES_OVER,
    WRITTEN_TO,
    Declined,
    Log,
    Memory,
    Traced,
)
from jitpkg.codegen.aten.views import VIEWS, NoInverse, View, as_one, makes_several, writing
from jitpkg.codegen.aten.writes import check_copy, draw, drawn, hidden_writes, without_writing
from jitpkg.codegen.ir.extents import symbolic, with_expressions
from jitpkg.facts.casting import Casting
from jitpkg.facts.layout import overlaps
from jitpkg.facts.refused import is_differentiated_in_vain
from jitpkg.facts.rows.common import Raises, Unsure
from jitpkg.facts.rows.views import VIEWS as SYMBOLIC_VIEWS
from jitpkg.facts.rows.views import varies
from jitpkg.facts.shared import may_be_refused
from jitpkg.facts.single import Singles, Unanswered, facts_of_stand_in, is_random, stand_in
from jitpkg.facts.symbolic import Decisions, length
from jitpkg.facts.tensor import TensorFacts, contiguous_stride, facts_of, size_of
from jitpkg.internals import dispatch
from jitpkg.internals.ops import OpOverload, op_name, schema

aten = torch.ops.aten
Op = OpOverload


_OF_ITSELF: Mapping[Op, Op] = MappingProxyType(
    {
        aten.squeeze_.default: aten.squeeze.default,
        aten.squeeze_.dim: aten.squeeze.dim,
        aten.squeeze_.dims: aten.squeeze.dims,
        aten.unsqueeze_.default: aten.unsqueeze.default,
        aten.transpose_.default: aten.transpose.int,
        aten.t_.default: aten.t.default,
    }
)
"""Views that take the place of what they show, and ops that make others of the kind. Below levels
only rules for batches do that, to tensors of their own."""

_ASKING = frozenset({"aten::is_same_size", "aten::_has_same_storage_numel"})
"""What returns no tensor: forward-mode differentiation asks how tangents lie in memory."""


class Recorder:
    """Sees the ops of a program that runs on stand-ins."""

    def __init__(self, singles: Singles, decisions: Decisions | None = None) -> None:
        """`decisions` are about sizes that vary, where some do."""
        self._decisions = decisions
        self.graph = fx.Graph()
        self.placeholders: list[fx.Node] = []
        self._singles = singles
        self._traced: dict[int, Traced] = {}
        self._log = Log()
        self.part: int | None = None
        self.grad_mode = True
        """Where the program is now."""
        self.trains = False
        """Whether the graph is to be differentiated."""
        self.casting: Casting | None = None
        """What shows stand-ins to functions, where autocast is active."""
        self._listens = True
        self._follows = False
        self._number: Callable[[], int] | None = None
        self._only: str | None = None
        self._function = ""
        self._chosen = False
        """Whether each op is what was asked for, and not chosen for stand-ins."""

    # What the program consists of

    def placeholder(self, name: str, index: int, facts: TensorFacts) -> Traced:
        node = self.graph.placeholder(name)
        tensor = stand_in(facts, self._decisions)
        facts = node.meta["facts"] = self._with_lengths(facts)
        self.placeholders.append(node)
        return self._register(Traced(tensor, Memory(index), facts, node=node))

    def number(self, name: str) -> fx.Node:
        """An input that is no tensor."""
        node = self.graph.placeholder(name)
        self.placeholders.append(node)
        return node

    def _facts_of(self, made: torch.Tensor) -> TensorFacts:
        return self._with_lengths(facts_of_stand_in(made))

    def _with_lengths(self, facts: TensorFacts) -> TensorFacts:
        """With ints for expressions that can be compared."""
        decisions = self._decisions
        if decisions is None:
            return facts
        size, stride = (
            tuple(symbolic(extent, decisions) for extent in lengths)
            for lengths in (facts.size, facts.stride)
        )
        return replace(facts, size=size, stride=stride)

    def stand_in(self, facts: TensorFacts) -> torch.Tensor:
        """A tensor without data, of a node's facts."""
        if self._decisions is None:
            return stand_in(facts)
        return stand_in(with_expressions(facts), self._decisions)

    def _plain(self, value: Any) -> Any:
        """Arguments without stand-ins, with ints for those that vary."""
        if self._decisions is None:
            return value
        match value:
            case torch.SymInt():
                return symbolic(length(value), self._decisions)
            case torch.SymFloat() | torch.SymBool():
                raise Declined("a number made of sizes that vary")
            case list():
                return list(map(self._plain, value))
            case tuple():
                return tuple(map(self._plain, value))
            case _:
                return value

    def traced(self, tensor: torch.Tensor) -> Traced:
        """
        Raises:
            Declined: the tensor is not one of the program.
        """
        found = self._traced.get(id(tensor))
        if found is None:
            raise Declined("a tensor that comes from elsewhere")
        return found

    def check_made(self, made: Any) -> None:
        """
        Raises:
            Unanswered: a function has returned a tensor that no op was seen to make.
        """
        if isinstance(made, torch.Tensor) and id(made) not in self._traced:
            raise Unanswered("a tensor that no op has made")

    def undone_if_unanswered(self, call: Callable[[], Any]) -> Any:
        """What a call returns; what it has recorded is forgotten if it ends with `Unanswered`.

        Raises:
            Declined: it cannot be forgotten.
        """
        self._log = Log()
        try:
            return call()
        except Unanswered as error:
            if self._log.wrote:
                raise Declined(str(error)) from error
            for traced, node, version in reversed(self._log.read):
                traced.node, traced.version = node, version
            for node in reversed(self._log.nodes):
                self.graph.erase_node(node)
            for traced in self._log.made:
                del self._traced[id(traced.tensor)]
            raise

    def as_a_whole(
        self,
        target: Callable[..., Any],
        args: Any,
        kwargs: Any,
        result: Any,
        *,
        random: bool,
        meta: Mapping[str, Any] = MappingProxyType({}),
    ) -> Any:
        """Record one call of a function that returns `result`: stand-ins, or a tuple of them."""
        node = self._call(target, args, kwargs)
        node.meta.update(meta)
        if random:
            node.meta["random"] = True
        return self._new(node, result)

    def answered(self, call: Callable[..., Any]) -> Any:
        """What a call returns, of which nothing is recorded; it writes to nothing."""
        self._listens = False
        try:
            with self._mode():
                return call()
        finally:
            self._listens = True

    def _mode(self) -> AbstractContextManager[object]:
        return dispatch.mode(self._see if self.casting is None else self.casting.seeing(self._see))

    @contextmanager
    def of_function(self, name: str) -> Iterator[None]:
        """Inside, a function's ops are recorded.

        Those that it is made of need rows: there it is tested that they are the same on the CPU,
        though some choose other ops where somebody listens.
        """
        self._function = name.strip("_")
        with self._mode():
            yield

    def cast(self, function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Arguments as autocast gives them to a function that is recorded as a whole.

        Raises:
            Declined: nobody knows.
        """
        assert self.casting is not None
        found: tuple[Any, Any] | None = self.casting.cast(self._see, function, args, kwargs)
        if found is None:
            raise Declined(f"{getattr(function, '__name__', function)} as a whole, under autocast")
        return found

    @contextmanager
    def of_everything(self) -> Iterator[None]:
        """Inside, all ops are recorded: they are called as they are, and chosen by nobody."""
        self._chosen = True
        try:
            with self._mode():
                yield
        finally:
            self._chosen = False

    @contextmanager
    def at_levels(self) -> Iterator[None]:
        """Inside, ops run at levels of `torch.func`; grad mode is as it is below these."""
        before, self._follows = self.grad_mode, True
        try:
            with torch.set_grad_enabled(before), self.of_everything():
                yield
        finally:
            self.grad_mode, self._follows = before, False

    @contextmanager
    def within(self, part: int | None) -> Iterator[None]:
        """Inside, each node belongs to a part of the graph of which nothing is saved, if any."""
        before, self.part = self.part, part
        try:
            yield
        finally:
            self.part = before

    @contextmanager
    def numbered(self, number: Callable[[], int]) -> Iterator[None]:
        """Inside, each node gets what this returns when it is made."""
        self._number = number
        try:
            yield
        finally:
            self._number = None

    @contextmanager
    def only(self, name: str) -> Iterator[None]:
        """Inside, no ops but those of this name are recorded.

        Raises:
            Unanswered: there is another one.
        """
        self._only = name
        try:
            with self.of_function(name):
                yield
        finally:
            self._only = None

    # Ops

    def _see(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        name = op_name(func)
        if self._follows:
            self.grad_mode = torch.is_grad_enabled()
        if not self._listens:
            if name in VIEWS and not (self._decisions is not None and varies(args)):
                return func(*args, **kwargs)
            if name in VIEWS:
                return SYMBOLIC_VIEWS[name](func, args, kwargs)
            return self._of_op(func, args, kwargs)
        if self._only is not None and _plain_name(name) != self._only:
            raise Unanswered(f"{self._only} calls {name}")
        if name in VIEWS:
            return self._view(func, args, kwargs)
        if name in _ASKING:
            return func(*args, **kwargs)
        if name == "aten::lift_fresh" and id(args[0]) not in self._traced:
            return self._data(args[0])
        if name == "aten::_efficientzerotensor":  # has no memory, which kernels read
            func = aten.zeros.default
        if may_be_refused(func, args, kwargs):
            raise Declined("a write to what it reads: eager code may refuse it, or reads it after")
        if is_differentiated_in_vain(func, args, kwargs):
            raise Declined("gradients that eager code may refuse to compute")
        hidden = hidden_writes(func, args)
        if hidden is not None:
            return self._hidden(func, args, kwargs, *hidden)
        if self._follows and func in _OF_ITSELF:
            return self._seen_anew(func, args, kwargs)
        if schema(func).is_mutable:
            return self._in_place(func, args, kwargs)
        result = self._of_op(func, args, kwargs)
        return self._new(self._op(func, args, kwargs), result)

    def _data(self, made: torch.Tensor) -> torch.Tensor:
        """What `torch.tensor` makes of numbers: they are in the program, which is recorded anew."""
        numbers, named, stand_in = (
            made.tolist(),
            {"dtype": made.dtype},
            self.stand_in(facts_of(made)),
        )
        result: torch.Tensor = self.as_a_whole(
            torch.tensor, (numbers,), named, stand_in, random=False
        )
        return result

    def _of_op(self, func: Op, args: Any, kwargs: Any) -> Any:
        name = op_name(func)
        if name == "aten::unsafe_split" and self._decisions is not None and varies(args):
            return self._apart(SYMBOLIC_VIEWS[name](func, args, kwargs))
        is_it = _plain_name(name) == self._function
        return self._singles.of_op(func, args, kwargs, has_row=not (is_it or self._chosen))

    def _apart(self, made: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Tensors of their own, in order, for views that nobody is to know of as such."""
        facts = map(self._facts_of, made)
        return [self.stand_in(replace(each, stride=contiguous_stride(each.size))) for each in facts]

    def _view(self, func: Op, args: Any, kwargs: Any) -> Any:
        source = self.traced(args[0])
        if self._decisions is not None and varies(args):
            row = SYMBOLIC_VIEWS.get(op_name(func))
            if row is None:
                raise Unanswered(f"{func} of sizes that vary")
            try:
                made = row(func, args, kwargs)
            except Raises as error:
                raise Declined(str(error)) from error
            except Unsure as error:
                raise Unanswered(f"{func} of sizes that vary") from error
        else:
            made = func(*args, **kwargs)
        if may_be_refused(func, args, kwargs):
            raise Declined("a view of memory that may not be there: eager code refuses it")
        if func is aten.detach.default and self._has_just_made(source):
            self._register(replace(source, tensor=made))
            return made
        rest = tuple(map(self._plain, args[1:]))
        kwargs = {name: self._plain(value) for name, value in kwargs.items()}
        if not makes_several(func):
            self._seen(source, View(func, rest, kwargs), made)
            return made
        for item, each in enumerate(made):
            self._seen(source, View(func, rest, kwargs, item), each)
        return made

    def _seen_anew(self, func: Op, args: Any, kwargs: Any) -> Any:
        """The same tensor, which shows its memory in another way from now on."""
        source = self.traced(args[0])
        view = View(_OF_ITSELF[func], tuple(map(self._plain, args[1:])), dict(kwargs))
        made = func(*args, **kwargs)
        self._seen(source, view, made)
        return made

    def _has_just_made(self, traced: Traced) -> bool:
        """Whether a tensor was made by the call that is recorded, of no other: torch detaches such
        a one where somebody listens."""
        if not self._log.made or self._log.made[-1] is not traced or traced.node is None:
            return False
        return traced.node.op == "call_function" and not traced.node.all_input_nodes

    def _seen(self, source: Traced, view: View, made: torch.Tensor) -> None:
        facts = self._facts_of(made)
        self._register(Traced(made, source.memory, facts, source, view, self.grad_mode))

    def _in_place(self, func: Op, args: Any, kwargs: Any) -> Any:
        target = self.traced(args[0])
        if self.casting is not None and target.memory.input is not None:
            raise Declined("a write to an input under autocast: its stand-in would not count it")
        if any(overlaps(each.facts.size, each.facts.stride) for each in target.shown()):
            raise Declined("a write to what may overlap with itself, or to a part of that")
        drawing = drawn(func, target.facts, args)
        if drawing is not None:
            node = self._emit(draw, drawing, kwargs, target.facts)
            node.meta["random"] = True
            self._write_over(target, node)
            return args[0]
        steps = without_writing(func, args, kwargs)
        if steps is None:
            raise Unanswered(f"{func} has no form that does not write")
        op, args_of, kwargs_of, of_any_kind = steps
        if op is aten.copy.default:
            check_copy(target.facts, args_of[1])
            node = self._call(op, args_of, kwargs_of)
            node.meta["facts"] = target.facts
        else:
            result = self._of_op(op, args_of, kwargs_of)
            if tuple(result.shape) != target.facts.size:
                raise Declined("a write of another size: eager code refuses it")
            if not of_any_kind and not torch.can_cast(result.dtype, target.facts.dtype):
                raise Declined("a write of another kind of number: eager code refuses it")
            node = self._op(op, args_of, kwargs_of)
            node.meta["facts"] = self._facts_of(result)
        self._write_over(target, node)
        return args[0]

    def _hidden(self, func: Op, args: Any, kwargs: Any, op: Op, written: Sequence[int]) -> Any:
        """An op with more results: new values of arguments that it writes to."""
        result = self._of_op(func, args, kwargs)
        targets = [self.traced(args[k]) for k in written]
        given = args[: len(schema(op).arguments)]
        facts = (*map(self._facts_of, result), *(target.facts for target in targets))
        node = self._call(op, given, kwargs)
        node.meta["facts"] = facts
        new = [self._item(node, k, facts[k]) for k in range(len(facts))]
        for k, target in enumerate(targets):
            self._write(target, new[len(result) + k])
        for made, item in zip(result, new, strict=False):
            self._register(Traced(made, Memory(None), self._facts_of(made), node=item))
        return result

    # Values

    def read(self, traced: Traced) -> fx.Node:
        """The node of a tensor's value as it is now."""
        if traced.node is not None and traced.version == traced.memory.version:
            return traced.node
        assert traced.parent is not None and traced.view is not None
        op, args, kwargs = as_one(traced.view, size_of(traced.parent.facts))
        parent = self.read(traced.parent)
        self._log.read.append((traced, traced.node, traced.version))
        traced.node = self._emit(op, (parent, *args), kwargs, traced.facts, traced.grad_mode)
        traced.version = traced.memory.version
        return traced.node

    def _write_over(self, target: Traced, node: fx.Node) -> None:
        """Let the value of a call be that of the tensor that it has written to."""
        base = target.base()
        before = node.meta[WRITES_OVER] = self.read(base)
        if any(each.view is not None and makes_several(each.view.op) for each in target.shown()):
            node.meta[ONE_OF_SEVERAL] = True
        self._write(target, node)
        self.read(base).meta[REPLACES] = before

    def _write(self, target: Traced, node: fx.Node, *, unseen: bool = False) -> None:
        """Let a node's value be that of a tensor.

        Args:
            unseen: whether it was written through a view that autograd does not know.
        """
        self._log.wrote = True
        before = self.read(target)
        unseen = unseen or not self.grad_mode or any(each.is_unrecorded for each in target.shown())
        if unseen:
            self.read(target.base()).meta[WRITTEN_TO] = True
        if not _alike(node.meta["facts"], target.facts):
            node = self._emit(aten.copy.default, (before, node), {}, target.facts)
        if target.parent is None:
            target.memory.version += 1
        else:
            assert target.view is not None
            whole = self._through(target.parent, target.view, node)
            self._write(target.parent, whole, unseen=unseen)
            if unseen and self.trains:
                return  # it is read from its base, which has the history
        target.node, target.version = node, target.memory.version

    def _through(self, parent: Traced, view: View, node: fx.Node) -> fx.Node:
        """The value of `parent` where its view has the value of `node`."""
        try:
            how = writing(view, size_of(parent.facts))
        except NoInverse as error:
            raise Declined(str(error)) from error
        if how.op is None:
            return node
        if how.scatters:
            arguments = (self.read(parent), node, *how.args)
            return self._emit(how.op, arguments, {}, parent.facts)
        try:
            made = how.op(self.stand_in(node.meta["facts"]), *how.args)
        except RuntimeError as error:
            raise Declined(f"a write through {view.op}") from error
        return self._emit(how.op, (node, *how.args), {}, self._facts_of(made))

    def _new(self, node: fx.Node, result: Any) -> Any:
        """Register what a call has made."""
        if result is None:  # it only raises, for some data
            return None
        if isinstance(result, torch.Tensor):
            facts = self._facts_of(result)
            node.meta["facts"] = facts
            self._register(Traced(result, Memory(None), facts, node=node))
            return result
        if not isinstance(result, tuple | list) or not all(
            isinstance(made, torch.Tensor | None) for made in result
        ):
            raise Unanswered(f"{node.target} returns more than tensors")
        made = [(k, each) for k, each in enumerate(result) if each is not None]
        known = {k: self._facts_of(each) for k, each in made}
        node.meta["facts"] = tuple(map(known.get, range(len(result))))
        for k, each in made:
            item = self._item(node, k, known[k])
            self._register(Traced(each, Memory(None), known[k], node=item))
        return result

    def _item(self, node: fx.Node, k: int, facts: TensorFacts) -> fx.Node:
        return self._emit(getitem, (node, k), {}, facts)

    def _op(self, func: Op, args: Any, kwargs: Any) -> fx.Node:
        node = self._call(func, args, kwargs)
        if is_random(func, args, kwargs):
            node.meta["random"] = True
        return node

    def _call(self, target: Callable[..., Any], args: Any, kwargs: Any) -> fx.Node:
        """A call with nodes in place of stand-ins."""
        args = tuple(self._argument(arg) for arg in args)
        kwargs = {name: self._argument(arg) for name, arg in kwargs.items()}
        return self._emit(target, args, kwargs, None)

    def _argument(self, arg: Any) -> Any:
        match arg:
            case torch.Tensor():
                return self.read(self.traced(arg))
            case list() | tuple():
                items = [self._argument(item) for item in arg]
                return items if isinstance(arg, list) else tuple(items)
            case dict():
                return {key: self._argument(value) for key, value in arg.items()}
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return self._plain(arg)
            case torch.device(type="meta"):
                return torch.device("cpu")
            case _:
                return arg

    def _emit(
        self,
        target: Any,
        args: tuple[Any, ...],
        kwargs: Any,
        facts: TensorFacts | None,
        grad_mode: bool | None = None,
    ) -> fx.Node:
        """
        Args:
            grad_mode: in which it runs, where that is not the program's now: a view is a node when
                it is read.
        """
        node = self.graph.create_node("call_function", target, args, dict(kwargs))
        node.meta["facts"] = facts
        if not (self.grad_mode if grad_mode is None else grad_mode):
            node.meta[NO_GRAD] = True
        if self.part is not None:
            node.meta[PART] = self.part
        if self._number is not None:
            node.meta[NUMBER] = self._number()
        self._log.nodes.append(node)
        return node

    def _register(self, traced: Traced) -> Traced:
        self._traced[id(traced.tensor)] = traced
        self._log.made.append(traced)
        return traced


def _plain_name(name: str) -> str:
    return name.rpartition("::")[2].strip("_")


def _alike(a: TensorFacts, b: TensorFacts) -> bool:
    return a.size == b.size and a.dtype is b.dtype and a.stride == b.stride
