"""An entry: one generated Python function that tests its guards and does what a trace did.

Its source is registered with `linecache`, so that tracebacks show it and a debugger steps through.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from functools import partial
from operator import length_hint
from types import FunctionType
from typing import Any

import torch
from torch import fx

from jitpkg import events, listing, ranges
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break
from jitpkg.guards.abstract import SubclassesAre, merged
from jitpkg.guards.kinds import (
    Exists,
    Guard,
    Has,
    Is,
    LineageIs,
    StateIs,
    TypeIs,
    sources_of,
)
from jitpkg.guards.metadata import OwnMemory, TensorIs
from jitpkg.guards.numbers import (
    Computable,
    Expression,
    Formula,
    Holds,
    SameNumbers,
    computed_with,
    number_text,
    read_by,
)
from jitpkg.guards.sources import Held, Item, Source, steps_of
from jitpkg.guards.state import state_guards
from jitpkg.guards.table import table
from jitpkg.guards.text import Text, order, write_tests
from jitpkg.internals import profiles
from jitpkg.interrupts import from_outside
from jitpkg.rewriter.compiler import Compiler, Middle
from jitpkg.rewriter.counting import MOST, Counting, counted_calls
from jitpkg.rewriter.door import LEAVE, RETURN, Leave
from jitpkg.rewriter.failure import Failures, Past
from jitpkg.rewriter.gains import Meter
from jitpkg.rewriter.ledger import Loan
from jitpkg.rewriter.rebuild import Rebuilder
from jitpkg.rewriter.references import attributes_of_made, gradients_of_made, needed
from jitpkg.rewriter.ways import Missed, Watch
from jitpkg.tracer.effects import effect_operands, lasting
from jitpkg.tracer.region import Left
from jitpkg.tracer.trace import Returned, Trace
from jitpkg.tracer.values import Reading, Tensor, Value
from jitpkg.tracer.vm import Branch

OTHERWISE = "otherwise"
"""The parameter that holds what runs when the guards do not hold."""

_BUILTINS = dict(vars(builtins))
"""The builtins that generated code uses: not the module's dictionary, which a user can change."""

Run = Callable[..., tuple[int, Callable[..., Any] | None, Any]]


@dataclass(frozen=True, slots=True)
class Interface:
    """What a region hands to its entries, and how it is left."""

    name: str
    """Of the function, as in `model.forward`."""
    parameters: Mapping[Source, str]
    """For each source that the hook hands over, its name, in order."""
    count: int
    """How many of them are locals and stack values."""
    here: int
    """The exit that goes on with the original code."""
    unchanged: tuple[int, ...]
    """Which parameters that exit takes."""
    leave: Callable[..., Callable[..., Any]]
    rest: Run
    """What an entry returns that knows of nothing to gain."""
    probe: Callable[[], None]
    """Called by an entry without a graph that goes on inside of functions that may have some."""
    missed: Callable[[str, Branch], None]
    """Called with an entry's name and a branch at which it has guessed wrong too often."""
    settled: Callable[[str, Branch, bool], None]
    """Called with an entry's name, the branch at which it ends, and the truth that decides it."""
    guards: tuple[Guard, ...] = ()
    """What every entry tests besides its own guards."""
    loan: Loan | None = None
    """What the entry costs; None where nobody asks what it gains."""
    place: str = ""
    """The file and the line of the function, where its name does not tell."""


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """Compiled code for one set of assumptions."""

    name: str
    run: FunctionType
    source: str
    guards: tuple[Guard, ...]
    graph: fx.GraphModule | None
    op_count: int
    exit: int | None
    """The exit at which it always ends; None for an entry that does nothing."""
    middles: tuple[Middle, ...] = ()
    """Where it goes on inside of functions that were inlined."""
    failures: Failures | None = None
    """What if the graph raises."""
    counting: Counting | None = None
    """What it has in its code while it is found out what it gains."""
    calls: Iterator[None] | None = None
    """What it takes one of at each call, where somebody wants to know how many there are."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What it took to make it, by phase."""
    graph_break: Break | None = None
    """What it ends in, where it does not end the function."""

    @property
    def meter(self) -> Meter | None:
        """What finds out what it gains."""
        return None if self.counting is None else self.counting.meter

    @property
    def call_count(self) -> Callable[[], int] | None:
        """How often it has run, where that is counted."""
        calls = self.calls
        return None if calls is None else lambda: MOST - length_hint(calls)

    @property
    def gains(self) -> bool:
        """Whether a graph runs: the entry's own, or one that it leads to."""
        if self.exit is None:
            return False
        return bool(self.op_count or not self.middles or any(m.has_graph for m in self.middles))

    @property
    def is_unconditional(self) -> bool:
        """Whether the entry fits every call in this state of the process."""
        return all(isinstance(guard, StateIs) for guard in self.guards)

    def copy(self) -> Entry:
        """The same entry for another chain of entries."""
        run = self.run
        same = FunctionType(run.__code__, run.__globals__, run.__name__, run.__defaults__)
        if self.failures is not None:
            self.failures.runs_in(same)
        if self.counting is not None:
            self.counting.runs.append(same)
        return dataclasses.replace(self, run=same)

    def set_otherwise(self, run: Run) -> None:
        """What to try when the guards do not hold: the next entry, or a trace."""
        defaults = self.run.__defaults__
        assert defaults is not None
        self.run.__defaults__ = (run, *defaults[1:])

    def stop_measuring(self, function: str) -> None:
        """Call the graph itself from now on, and count the calls that it needs to pay back."""
        meter = self.meter
        assert meter is not None and self.run.__defaults__ is not None
        if meter.gain is not None and not meter.is_over:
            gain, spent = meter.gain, meter.loan.seconds
            events.STREAM.emit(
                events.Measured(function, self.name, gain.compiled, gain.original, spent)
            )
        meter.is_over = True
        new = {id(meter.graph): meter.compiled, id(meter.uncounted): meter.unpaid}
        self.run.__defaults__ = tuple(new.get(id(d), d) for d in self.run.__defaults__)


@dataclass(frozen=True, eq=False, slots=True)
class Outputs:
    """What an exit hands to Python: its number, and the values in the code's order."""

    exit: int
    values: tuple[Value, ...]
    called: int | None = None
    """Which of the values is a function that is called next, and is to be compiled, too."""


def write_entry(
    name: str,
    trace: Trace,
    guards: Sequence[Guard],
    outputs: Outputs,
    interface: Interface,
    graph: Callable[..., Any],
    module: fx.GraphModule,
    compiler: Compiler,
) -> Entry:
    """Generate the entry for a trace whose graph was compiled."""
    text = _begin(interface)
    rebuilder = Rebuilder(text, trace.heap, compiler)
    operands = operands_of(trace)
    sources, tensors, numbers = needed(trace.heap, handed(trace, outputs))
    inputs = [i.source for i in trace.inputs]
    numbers.extend(origin for origin in inputs if isinstance(origin, Formula))
    read = [s for i in inputs for s in (read_by(i) if isinstance(i, Formula) else [i])]
    rebuilder.numbers = _write_guards(
        text, interface.parameters, guards, [*read, *sources], numbers, trace
    )
    loan = interface.loan if trace.op_count else None
    meter = None if loan is None else Meter(loan, trace, module, graph)
    call = _write_graph(name, text, rebuilder, trace, tensors, interface, graph, module, meter)
    behind = len(text.lines)
    _write_guesses(text, rebuilder, name, trace, interface, call)
    own = attributes_of_made(trace.heap, tensors)
    rebuilder.make([*operands, *(effect.value for effect in own)])
    gradients = gradients_of_made(trace.heap, tensors)
    for effect in (*own, *lasting(trace.effects), *gradients):
        text.line(rebuilder.effect(effect))
    rebuilder.make(outputs.values)
    values = [rebuilder.expression(value) for value in outputs.values]
    if outputs.called is not None:
        values[outputs.called] = _twin_of(
            text, values[outputs.called], compiler.twin, trace, interface
        )
    middles = _middles(trace, compiler)
    if middles and not trace.op_count:
        text.line(f"{text.hold(interface.probe, 'probe')}()")
    leave = _leave(text, interface, call)
    result = values[0] if outputs.exit == RETURN else _tuple(values)
    counting = None if meter is None else Counting(meter)
    if counting is not None:
        counting.write(text)
    calls = counted_calls()
    if trace.undecided is not None:
        watch = text.hold(Watch(name, trace.undecided, interface.settled), "watch")
        text.line(f"{watch}({', '.join(map(rebuilder.expression, trace.undecided.operands))})")
    if calls is not None:
        text.line(f"for _ in {text.hold(calls, 'calls')}: break")
    text.line(f"return {outputs.exit}, {leave}, {result}")
    if call is not None and call.undo is not None:
        # Until Python stands inside of what the graph has entered.
        text.guard(behind, f"{call.undo}({call.entered})")
    run, source = _compiled(name, text, interface, counting)
    about = (trace.op_count, outputs.exit, middles)
    if call is None:
        return Entry(name, run, source, tuple(guards), None, *about, calls=calls)
    call.failures.runs_in(run)
    return Entry(name, run, source, tuple(guards), module, *about, call.failures, counting, calls)


def _leave(text: Text, interface: Interface, call: _Call | None) -> str:
    """What the entry returns to be called where the running code does not know the exit."""
    if call is None or call.undo is None:
        return text.hold(interface.leave, "leave")
    if not call.entered:
        return text.hold(Leave(interface.leave, call.failures.put_back), "leave")
    held, leave = text.hold(interface.leave, "leave"), text.hold(Leave, "leave_type")
    undo = f"{text.hold(partial, 'partial')}({call.undo}, {call.entered})"
    return f"{leave}({held}, {undo})"


def _middles(trace: Trace, compiler: Compiler) -> tuple[Middle, ...]:
    """What stands behind the functions in the middle of which Python goes on."""
    if isinstance(trace.exit, Returned):
        return ()
    return tuple(compiler.middle(c.code, c.code.co_qualname) for c in trace.exit.continuations())


def _twin_of(
    text: Text, callee: str, twin: Callable[[Any], Any], trace: Trace, interface: Interface
) -> str:
    """The compiled twin of what is called next. It is all there is to gain without a graph."""
    original, compiled = text.variable("callee"), text.variable("twin_of_callee")
    text.line(f"{original} = {callee}")
    text.line(f"{compiled} = {text.hold(twin, 'twin')}({original})")
    if not trace.op_count and not trace.effects:
        rest = f"{text.hold(interface.rest, 'original_code')}({_arguments(interface)})"
        text.line(f"if {compiled} is {original}: return {rest}")
    return compiled


def _arguments(interface: Interface) -> str:
    return ", ".join(interface.parameters.values())


def write_idle_entry(
    name: str, guards: Sequence[Guard], trace: Trace, interface: Interface
) -> Entry:
    """Generate an entry that knows of nothing to gain, and lets the original code run."""
    text = _begin(interface)
    _write_guards(text, interface.parameters, guards, [], [], trace)
    text.line(f"return {text.hold(interface.rest, 'original_code')}({_arguments(interface)})")
    run, source = _compiled(name, text, interface)
    return Entry(name, run, source, tuple(guards), None, 0, None)


def complete_guards(trace: Trace, interface: Interface) -> list[Guard]:
    """A trace's guards, with the interface's and those on global state, merged and in order."""
    lineages: dict[type, dict[str, object]] = {}
    subclasses: list[SubclassesAre] = []
    apart: dict[Source, None] = {}
    same: dict[Source, dict[Source, None]] = {}
    others: list[Guard] = []
    for guard in (*interface.guards, *trace.guards):
        if isinstance(guard, Is) and guard.at == Held(guard.obj):
            continue
        if isinstance(guard, LineageIs):
            lineages.setdefault(guard.cls, {}).update(guard.found)
        elif isinstance(guard, SubclassesAre):
            subclasses.append(guard)
        elif isinstance(guard, OwnMemory):
            apart.update(dict.fromkeys(guard.tensors))
        elif isinstance(guard, SameNumbers):
            same.setdefault(guard.at, {}).update(dict.fromkeys(guard.numbers))
        else:
            others.append(guard)
    if apart:
        others.append(OwnMemory(tuple(apart)))
    others += [SameNumbers(tuple(each)) for each in same.values()]
    read: set[Source] = set()
    for guard in others:
        if not isinstance(guard, Exists):
            _add_steps(guard, read)
    dicts = {g.at for g in others if isinstance(g, TypeIs) and g.cls is dict}
    others = [g for g in others if not _is_tested_by_reading(g, read, dicts)]
    has_tensors = any(isinstance(guard, TensorIs) for guard in others)
    joined = [LineageIs(cls, tuple(found.items())) for cls, found in lineages.items()]
    return order([*others, *joined, *merged(subclasses), *state_guards(has_tensors=has_tensors)])


def _is_tested_by_reading(guard: Guard, read: Set[Source], dicts: Set[Source]) -> bool:
    """Whether what a guard says to be there is read anyway: that fails where it is not."""
    match guard:
        case Exists():
            return guard.at in read
        case Has(at, str() as key, True):
            return at in dicts and Item(at, key) in read
        case _:
            return False


def _add_steps(guard: Guard, read: set[Source]) -> None:
    """Add every path that a guard reads, and those that lead to it."""
    for source in sources_of(guard):
        if source not in read:
            read.update(steps_of(source))


def _begin(interface: Interface) -> Text:
    return Text(interface.parameters, reserved=[OTHERWISE])


def handed(trace: Trace, outputs: Outputs) -> list[Value]:
    """Every value that the entry looks at when the graph has run."""
    return [*(guess.asked for guess in trace.guesses), *outputs.values, *operands_of(trace)]


def operands_of(trace: Trace) -> list[Value]:
    """Every value that an effect of the trace uses."""
    return [operand for effect in lasting(trace.effects) for operand in effect_operands(effect)]


def _tuple(values: Sequence[str]) -> str:
    return "(" + "".join(f"{value}, " for value in values) + ")"


def _unchanged(interface: Interface) -> str:
    names = list(interface.parameters.values())
    return _tuple([names[k] for k in interface.unchanged])


def _write_guards(
    text: Text,
    parameters: Mapping[Source, str],
    guards: Sequence[Guard],
    sources: Sequence[Source],
    numbers: Sequence[Expression],
    trace: Trace,
) -> dict[Expression, str]:
    """Guards, and all that is read from outside. A path that is gone is a guard that failed.

    So is a number that cannot be computed any more. Returns the variables that hold numbers.

    A guard that fails leaves the loop that the whole entry is, once through: what is tried then
    must not be called inside the `try`.
    """
    otherwise = "break"
    inner = text.indented()
    computed = [formula for number in numbers for formula in computed_with(number)]
    anyway = set(computed)
    guards = [guard for guard in guards if not _is_computed(guard, anyway)]
    for guard in guards:
        inner.count(_paths(guard))
        if isinstance(guard, Holds):
            inner.count_formulas(guard.formulas())
    inner.count(sources)
    inner.count_formulas(computed)
    examples = {
        i.source: i.example
        for i in trace.inputs
        if isinstance(i.example, torch.Tensor) and not isinstance(i.source, Formula)
    }
    known = examples if all(g.at in examples for g in guards if isinstance(g, TensorIs)) else None
    by = table(guards, parameters, sources, known)
    write_tests(inner, guards, otherwise, known, by)
    for source in sources:
        inner.read(source)
    names: dict[Expression, str] = {}
    for number in dict.fromkeys(numbers):
        if isinstance(number, Formula):
            names[number] = inner.compute(number)
            continue
        names[number] = inner.variable("number")
        inner.line(f"{names[number]} = {number_text(number, inner)}")
    text.line("try:")
    text.extend(inner, fallback="pass")
    text.line(f"except {text.hold(MISSING, 'missing')} as error:")
    text.line(f"    if {text.hold(from_outside, 'from_outside')}(error): raise")
    text.line(f"    {otherwise}")
    return names


def _is_computed(guard: Guard, formulas: Collection[Formula]) -> bool:
    """Whether a guard says nothing but that one of these can be computed."""
    match guard:
        case Holds(Computable(formula)):
            return formula in formulas
        case _:
            return False


MISSING = (AttributeError, LookupError, ValueError, TypeError, ArithmeticError)
"""What is raised where a path leads nowhere any more, or a number cannot be computed."""


def _paths(guard: Guard) -> tuple[Source, ...]:
    return sources_of(guard) or (guard.at,)


@dataclass(frozen=True, eq=False, slots=True)
class _Call:
    """The call of the compiled graph, as it is written."""

    failures: Failures
    undo: str | None
    """What leaves the contexts that it has entered, if Python goes on inside of some."""
    entered: str
    """The variable that it takes: what contexts had set, if that matters."""
    drawn: str
    """The variable that says where the random streams were, if they may be set back."""


def _write_graph(
    name: str,
    text: Text,
    rebuilder: Rebuilder,
    trace: Trace,
    tensors: Sequence[Tensor | Reading],
    interface: Interface,
    graph: Callable[..., Any],
    module: fx.GraphModule,
    meter: Meter | None,
) -> _Call | None:
    """The call of the compiled graph, and what to do when it raises."""
    if not trace.op_count:
        return None
    names = []
    for tensor in tensors:
        names.append(text.variable(trace.nodes(tensor).name))
        rebuilder.names[tensor] = names[-1]
    inputs = [
        rebuilder.numbers[i.source] if isinstance(i.source, Formula) else text.of(i.source)
        for i in trace.inputs
    ]
    held = text.hold(graph if meter is None else meter.graph, "graph")
    failures = Failures(name, trace, module, graph, interface.parameters, meter)
    handed, entered = f"{_tuple(list(interface.parameters.values()))}, {_tuple(inputs)}", ""
    drawn = ""
    if failures.streams is not None:
        drawn = text.variable("drawn")
        text.line(f"{drawn} = {text.hold(failures.streams.save, 'random_streams')}()")
        handed = f"{handed}, {drawn}"
    if failures.contexts is not None:
        entered = text.variable("entered")
        text.line(f"{entered} = {text.hold(failures.contexts, 'contexts')}()")
        handed = f"{handed}, entered={entered}"
    again = text.variable("again")
    text.line("try:")
    result = f"{_tuple(names)} = " if names else ""
    called = f"{result}{held}({', '.join(inputs)})"
    range_ = ranges.of_graph(f"jitpkg {name}{interface.place and f' ({interface.place})'}")
    if range_ is None:
        text.line(f"    {called}")
    else:
        profiler = text.hold(profiles.VARIABLES.get(), "profiler")
        named = f"{result}{text.hold(range_, 'in_profile')}({', '.join([held, *inputs])})"
        text.line(f"    if {profiler}[{profiles.RUNS!r}]: {named}")
        text.line(f"    else: {called}")
    text.line("except BaseException as error:")
    text.line(f"    {again} = {text.hold(failures.decide, 'on_failure')}(error, {handed})")
    original = f"return {interface.here}, None, {_unchanged(interface)}"
    text.line(f"    if {again} is None: {original}")
    if failures.passes:
        past = text.hold(Past, "past")
        text.line(f"    if type({again}) is {past}: return {LEAVE}, {again}, None")
    if names:
        text.line(f"    {result}{again}")
    put_back = text.hold(failures.put_back, "put_back") if failures.leaves_state else None
    return _Call(failures, put_back, entered, drawn)


def _write_guesses(
    text: Text,
    rebuilder: Rebuilder,
    name: str,
    trace: Trace,
    interface: Interface,
    call: _Call | None,
) -> None:
    """The look at the branches whose way was guessed: nothing else has happened yet."""
    if not trace.guesses:
        return
    found = [rebuilder.expression(guess.asked) for guess in trace.guesses]
    wrong = [f"not {x}" if g.way else x for g, x in zip(trace.guesses, found, strict=True)]
    failures = None if call is None else call.failures
    missed = Missed(interface.name, name, trace.guesses, failures, interface.missed)
    state = "" if call is None or not call.drawn else f", {call.drawn}"
    if call is not None and call.entered:
        state += f", entered={call.entered}"
    text.line(f"if {' or '.join(wrong)}:")
    text.line(f"    {text.hold(missed, 'missed')}({_tuple(found)}{state})")
    text.line(f"    return {interface.here}, None, {_unchanged(interface)}")


def _compiled(
    name: str, text: Text, interface: Interface, counting: Counting | None = None
) -> tuple[FunctionType, str]:
    source = plain = _source(text, interface, text.lines)
    if counting is not None:
        others = [line for line in text.lines if line.strip() not in counting.lines]
        plain = _source(text, interface, others)
    file = listing.file_name(name)
    namespace: dict[str, Any] = {"__builtins__": _BUILTINS, "__name__": "jitpkg.entry"}
    exec(compile(source, file, "exec"), namespace)
    run: FunctionType = namespace["entry"]
    listing.keep(run, source)
    run.__qualname__ = run.__name__ = name
    run.__defaults__ = (None, *text.held.values())
    if counting is not None:
        counting.source = plain
        counting.runs.append(run)
    return run, plain


def _source(text: Text, interface: Interface, lines: Iterable[str]) -> str:
    parameters = list(interface.parameters.values())
    signature = ", ".join([*parameters, f"{OTHERWISE}=None", *(f"{n}=None" for n in text.held)])
    body = "\n".join(f"        {line}" for line in lines)
    other = f"return {OTHERWISE}({', '.join(parameters)})"
    return f"def entry({signature}):\n    while True:\n{body}\n    {other}\n"


def exit_values(
    trace: Trace, locals_: Sequence[int], stack_depths: Sequence[int], called: int | None
) -> Outputs:
    """What a trace's exit hands over: these slots, then the stack at these depths.

    `called` is the depth of a function that is called next.
    """
    match trace.exit:
        case Returned(value):
            return Outputs(RETURN, (value,))
        case Left(point, slots, stack, _):
            values = [slots[slot] for slot in locals_] + [stack[depth] for depth in stack_depths]
            index = None if called is None else len(locals_) + list(stack_depths).index(called)
            return Outputs(point, tuple(values), index)
