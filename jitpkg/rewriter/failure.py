"""A graph that fails at run time.

If nothing that anyone can see has happened before the op that failed, the ops run one by one. Where
one of them is to blame, the original code runs and raises the exception itself; else it is the
compiled code's failure, which is said. So it is where numbers were drawn, once the random streams
are set back. Otherwise the effects that come before the op are replayed, and the exception goes on
as if raised at the op's own line. The tracer has seen to it that the program's handlers on its way
let it pass: what they do is replayed, too. A handler inside of which the region began, but not the
op, must not get it: see `Past`.

An exception from outside (a signal handler's, say) is nobody's failure: what has happened has
happened, and the exception goes on in that way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, NoReturn

import torch
from torch import fx

from jitpkg import listing
from jitpkg.attempts import Attempts, words
from jitpkg.dataclass import dataclass
from jitpkg.errors import BackendError, Location
from jitpkg.facts.random_streams import RandomStreams
from jitpkg.facts.thread_state import (
    Contexts,
    attention_switches,
    contexts,
    contexts_but_of_attention,
    mode_switches,
    put_back,
    setters,
    snapshot,
)
from jitpkg.guards.numbers import number_text
from jitpkg.guards.sources import Source
from jitpkg.guards.text import Text
from jitpkg.interrupts import from_outside, of_handler
from jitpkg.living import Living
from jitpkg.marks import IN_ITS_PLACE
from jitpkg.rewriter.gains import Meter
from jitpkg.rewriter.rebuild import Rebuilder
from jitpkg.rewriter.references import (
    attributes_of_made,
    can_rebuild,
    gradients_of_made,
    needed,
)
from jitpkg.tracer.differentiation import accumulate_reached
from jitpkg.tracer.effects import Effect, effect_operands, lasting
from jitpkg.tracer.heap import Heap, values_of
from jitpkg.tracer.look import source_of
from jitpkg.tracer.reached import reachable
from jitpkg.tracer.region import Left
from jitpkg.tracer.trace import Trace
from jitpkg.tracer.values import Lazy, Object, Reading, Tensor, Value
from jitpkg.tracer.vm import Failure

_NESTING = (torch.autocast_increment_nesting, torch.autocast_decrement_nesting)


def _contexts_of(targets: Set[object]) -> Callable[[], Contexts] | None:
    if not targets.isdisjoint(attention_switches()):
        return contexts
    nests = not targets.isdisjoint({*_NESTING, *mode_switches()})
    return contexts_but_of_attention if nests else None


class Failures:
    """Decides what happens when a graph raises."""

    def __init__(
        self,
        name: str,
        trace: Trace,
        module: fx.GraphModule,
        compiled: Callable[..., Any],
        parameters: Mapping[Source, str],
        meter: Meter | None = None,
    ) -> None:
        """
        Args:
            parameters: of the entry.
            meter: what the entry calls in place of the graph, at first.
        """
        ops = [node for node in module.graph.nodes if node.op.startswith("call")]
        self._ops = tuple((node.name, trace.failures.get(node.name)) for node in ops)
        self._restore = snapshot(nested=False)
        targets = {node.target for node in ops}
        self.passes = any(f is not None and f.escape.past for _, f in self._ops)
        """Whether `decide` may return a `Past`."""
        self.contexts = _contexts_of(targets)
        """What tells at each call what contexts have set, if the graph enters or leaves any."""
        self.leaves_state = isinstance(trace.exit, Left) and not targets.isdisjoint(setters())
        """Whether Python may go on inside of a context that the graph has entered."""
        self.streams = RandomStreams(trace.rewinds) if trace.rewinds else None
        codes = (type(module).forward.__code__, getattr(compiled, "__code__", None))
        names = {node.name for node in ops}
        self._codes = {code for code in codes if code and names <= {*code.co_varnames}}
        """Of functions that compute one op after the other, by its name."""
        self._title = type(module).__name__
        late = any(
            f is not None and (f.effects or f.escape.effects) and (f.half_done or not f.may_restart)
            for _, f in self._ops
        )
        self._replay = Replay(trace, parameters) if late else None
        self._attempts = Attempts(name)
        self._forward = module.forward
        self._compiled = compiled
        self._meter = meter
        self._entries: Living[FunctionType] = Living()

    def decide(
        self,
        error: BaseException,
        arguments: Sequence[object],
        inputs: Sequence[Any],
        drawn: Sequence[torch.Tensor] = (),
        entered: Contexts | None = None,
    ) -> Any:
        """The graph's results after all; None to run the original code; what the entry returns to
        raise `error` past the handlers around it; or raises `error`, as the program would.

        Args:
            arguments: the hook's.
            inputs: the graph's.
            drawn: where the random streams were before the graph, if they may be set back.
            entered: what contexts had set, if the graph enters or leaves any.

        A `BackendError` says that a part of the graph's writes may have happened, in any order.
        """
        frame = self._frame(error)
        computed: dict[str, Any] = {} if frame is None else frame.f_locals
        failure = None if frame is None else self._failure(frame.f_code, computed)
        self.put_back(entered)
        if isinstance(error, BackendError):
            raise error
        if isinstance(error, Exception) and not from_outside(error) and self._may_restart(failure):
            if self.streams is not None:
                self.streams.restore(drawn)
            if frame is not None:
                return None
            return self._op_by_op(words(error), arguments, inputs, drawn, entered)
        if failure is None or not failure.where.stack:
            raise error
        if self._replay is not None:
            self._replay.run(failure, arguments, computed)
        accumulate_reached(error)
        if failure.escape.leave is not None:
            failure.escape.leave()
        called = of_handler(error) or _called_by(frame, error)
        if failure.escape.past:
            return Past(error, failure.where.stack, called)
        raise_at(error, failure.where.stack, called)

    def _may_restart(self, failure: Failure | None) -> bool:
        """Whether nothing has happened that could not happen again, whichever op has failed."""
        if failure is not None and failure.half_done:
            return False
        failed = [f for _, f in self._ops if f is not None] if failure is None else [failure]
        if self.streams is not None and all(each.may_rewind for each in failed):
            return True
        return all(each.may_restart for each in failed)

    def _op_by_op(
        self, why: str, arguments: Sequence[object], inputs: Sequence[Any], *state: Any
    ) -> Any:
        """Run the ops one by one: so it is seen whether one of them is to blame."""
        try:
            results = self._forward(*inputs)
        except BaseException as error:
            if self._frame(error) is None:
                return None
            return self.decide(error, arguments, inputs, *state)
        self._attempts.note(why)
        if self._attempts.given_up:
            self._give_up()
        return results

    def runs_in(self, entry: FunctionType) -> None:
        """Note a function that calls the graph."""
        self._entries.add(entry)

    def _give_up(self) -> None:
        """Let the entries run the graph's ops one by one."""
        graphs: tuple[object, ...] = (self._compiled,)
        if self._meter is not None:
            self._meter.abandon()
            graphs = self._compiled, self._meter.graph
        for entry in self._entries:
            held = entry.__defaults__ or ()
            held = tuple(
                self._forward if any(each is graph for graph in graphs) else each for each in held
            )
            entry.__defaults__ = held

    def undo(self, drawn: Sequence[torch.Tensor], entered: Contexts | None) -> None:
        """Let it be as if the graph had not run: what it writes to, nobody has."""
        self.put_back(entered)
        if self.streams is not None:
            self.streams.restore(drawn)

    def put_back(self, entered: Contexts | None = None) -> None:
        """Leave the contexts that the graph may have entered."""
        if entered is not None:
            put_back(entered)
        self._restore()

    def _failure(self, code: CodeType, computed: Mapping[str, Any]) -> Failure | None:
        """What is known of the op that failed: the first that has not been computed."""
        names = code.co_varnames  # without what a backend has computed already, of numbers
        return next((f for name, f in self._ops if name in names and name not in computed), None)

    def _frame(self, error: BaseException) -> FrameType | None:
        """The graph's: the innermost, for a backend's code may run it as it is."""
        frame = None
        traceback = error.__traceback__
        while traceback is not None:
            if self._runs_ops(traceback.tb_frame):
                frame = traceback.tb_frame
            traceback = traceback.tb_next
        return frame

    def _runs_ops(self, frame: FrameType) -> bool:
        """Whether it computes one op after the other: of this graph, or of a copy of it that a
        backend has made with numbers in place of symbols."""
        code = frame.f_code
        if code in self._codes or listing.is_of(code.co_filename, f"{self._title}.graph"):
            return True
        if code.co_varnames[:1] != ("self",):
            return False  # a frame that is asked for its locals keeps them: the error, too
        module = type(frame.f_locals.get("self"))
        return (
            issubclass(module, fx.GraphModule)
            and module.__name__ == self._title
            and getattr(module.forward, "__code__", None) is code
        )


def can_replay(heap: Heap, values: Sequence[Value]) -> bool:
    """Whether values can be made real where a graph has failed: what it computed may be gone."""
    reached = reachable(heap, values)
    computed = (isinstance(v, Tensor | Reading) and source_of(v) is None for v in reached)
    return can_rebuild(heap, values) and not any(computed)


class Replay:
    """The effects of a trace, as far as they come before an op: written when they are needed."""

    def __init__(self, trace: Trace, parameters: Mapping[Source, str]) -> None:
        self._heap = trace.heap
        self._effects = trace.effects
        self._parameters = parameters
        escapes = [failure.escape for failure in trace.failures.values()]
        effects = [*self._effects, *(effect for escape in escapes for effect in escape.effects)]
        operands = {operand for effect in effects for operand in effect_operands(effect)}
        states = [state for escape in escapes for state in escape.states.items()]
        for value in (*self._heap.values(), *values_of(states), *operands):
            if isinstance(value, Object | Lazy):
                value.obj = None  # its path is enough, and the user's objects must not live on

    def run(
        self, failure: Failure, arguments: Sequence[object], computed: Mapping[str, Any]
    ) -> None:
        """Do what comes before the op that failed.

        Args:
            arguments: the hook's.
            computed: what the graph has computed, by node name.
        """
        heap = self._heap.as_of(failure.heap).with_states(failure.escape.states)
        before = self._effects[: failure.effects]
        effects = self._shown((*before, *failure.escape.effects), heap, computed)
        operands = [operand for effect in effects for operand in effect_operands(effect)]
        text = Text(self._parameters, reserved=["computed"])
        rebuilder = Rebuilder(text, heap, None)
        sources, tensors, numbers = needed(heap, operands)
        for source in sources:  # before an effect writes there
            text.read(source)
        for number in numbers:
            rebuilder.numbers[number] = text.variable("number")
            text.line(f"{rebuilder.numbers[number]} = {number_text(number, text)}")
        for tensor in tensors:
            rebuilder.names[tensor] = f"computed[{_name_of(tensor, heap, computed)!r}]"
        own = attributes_of_made(heap, tensors)
        rebuilder.make([*operands, *(effect.value for effect in own)])
        for effect in (*own, *effects, *gradients_of_made(heap, tensors)):
            text.line(rebuilder.effect(effect))
        signature = ", ".join([*self._parameters.values(), "computed", *text.held])
        body = "\n".join(f"    {line}" for line in (*text.lines, "return None"))
        namespace: dict[str, Any] = {}
        exec(compile(f"def replay({signature}):\n{body}\n", "<jitpkg replay>", "exec"), namespace)
        namespace["replay"](*arguments, computed, *text.held.values())

    def _shown(
        self, effects: Sequence[Effect], heap: Heap, computed: Mapping[str, Any]
    ) -> list[Effect]:
        """Those that can be replayed. What others need was freed: nothing refers to it at the
        trace's end, and nobody sees them."""
        return [
            effect
            for effect in lasting(effects)
            if all(_name_of(t, heap, computed) for t in needed(heap, effect_operands(effect))[1])
        ]


def _name_of(tensor: Tensor | Reading, heap: Heap, computed: Mapping[str, Any]) -> str | None:
    """Under which name a graph has computed a tensor or a number; None where it is not there any
    more. Ops that write to a tensor return it under other names."""
    node = heap.read(tensor, "node") or tensor.node
    names = (node.name, tensor.node.name)
    return next((name for name in names if computed.get(name) is not None), None)


@dataclass(frozen=True, slots=True)
class Past:
    """What an entry returns as `leave` (see `door.Region`) where an exception must not come to the
    handlers that cover the hook: nothing covers the code that leaves a frame."""

    error: BaseException
    stack: Sequence[Location]
    traceback: TracebackType | None

    def __call__(self, exit_: int, globals_: object, cells: object) -> Callable[..., NoReturn]:
        return lambda *frame: raise_at(self.error, self.stack, self.traceback)


def raise_at(
    error: BaseException, stack: Sequence[Location], traceback: TracebackType | None = None
) -> NoReturn:
    """Raise `error` from frames that show places in the user's source, and what the last called.

    Args:
        stack: the outermost call first.
    """
    BaseException.with_traceback(error, traceback)
    names: dict[str, Any] = {"error": error}
    text = "raise error"
    for where in reversed(stack):
        code = compile(_placed(text, where), where.file, "exec")
        code = code.replace(co_name=where.function, co_qualname=where.function)
        names, text = {"call": partial(exec, code, names)}, "call()"
    names["call"]()
    raise error


def _placed(text: str, where: Location) -> ast.Module:
    """A statement that stands there, for those who read its code's positions."""
    tree = ast.parse(text)
    line, column = max(1, where.line or 1), where.column
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno, node.end_lineno = line, max(line, where.last_line or line)
            node.col_offset, node.end_col_offset = column or 0, where.last_column
    return tree


def _called_by(frame: FrameType | None, error: BaseException) -> TracebackType | None:
    """The part of a traceback that shows what a frame called."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame is not frame:
        traceback = traceback.tb_next
    while traceback is not None and (
        traceback.tb_frame is frame or traceback.tb_frame.f_code.co_freevars == (IN_ITS_PLACE,)
    ):
        traceback = traceback.tb_next
    return traceback
