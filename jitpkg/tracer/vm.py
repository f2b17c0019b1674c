"""What the parts of the tracer share: one trace's state, and what they ask of each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from types import CodeType
from typing import Any, NoReturn, Protocol, cast

import torch
from torch import fx

from jitpkg.code.dialect import Op
from jitpkg.config import Options
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break, Location, Reason
from jitpkg.facts.answers import Facts
from jitpkg.facts.outcome import Outcome
from jitpkg.facts.sizes import Symbol
from jitpkg.facts.tensor import TensorFacts
from jitpkg.facts.thread_state import default_devices
from jitpkg.guards.kinds import Exists, Guard, LineageIs
from jitpkg.guards.numbers import Expression, Formula
from jitpkg.guards.sources import Source
from jitpkg.tracer import reasons
from jitpkg.tracer.effects import Effect
from jitpkg.tracer.frames import Finished, Frame
from jitpkg.tracer.graph import GraphWriter
from jitpkg.tracer.heap import Heap, States
from jitpkg.tracer.history import History
from jitpkg.tracer.values import Generator, Iterator, Object, Opaque, Reading, Tensor, Value

RANDOM_STREAM = Tensor(cast(fx.Node, None))
"""Stands for the random stream among what a graph has changed."""
SHOWN = Tensor(cast(fx.Node, None))
"""Stands for what the user has seen of a warning."""

Args = tuple[Value, ...]
Kwargs = Mapping[str, Value]


class Originals(Protocol):
    """From what compiling has made back to what the program's author wrote."""

    def of(self, code: CodeType) -> CodeType:
        """The code without its hooks; any other is its own original."""
        ...

    def callable_of(self, obj: object) -> object:
        """What a compiled callable was made from; any other is its own original."""
        ...


class Raised(Exception):
    """A traced exception, on its way to a handler of the traced program."""

    def __init__(self, value: Object) -> None:
        super().__init__(value.cls.__name__)
        self.value = value


class Stopped(Exception):
    """The trace cannot go on."""

    def __init__(self, graph_break: Break) -> None:
        super().__init__(graph_break.title())
        self.graph_break = graph_break


@dataclass(frozen=True, slots=True)
class Mark:
    """A state of the trace that can be gone back to."""

    graph: tuple[int, int]
    heap: int
    guards: int
    effects: int
    mutations: int
    guesses: int
    levels: int
    devices: tuple[torch.device, ...]
    function_modes: tuple[Value, ...]
    asked_modes: int
    asks_subclasses: bool
    catching: tuple[bool, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Level:
    """Where the trace is inside of a transform of `torch.func`: see `transforms`."""

    mark: Mark
    watch: Callable[[Frame, Op], None] | None
    """The trace's `checkpoint` outside."""
    numbers: dict[Expression, fx.Node]
    """The trace's `number_nodes` outside."""
    given: tuple[Tensor, ...]
    """The tensors outside that those of the level are made of, in order."""
    options: tuple[Any, ...]


Branch = tuple[CodeType, int]
"""A conditional jump: the code that it stands in, and its instruction."""


@dataclass(frozen=True, eq=False, slots=True)
class Guess:
    """A branch on data that the trace goes past along one way: see `guesses`."""

    asked: Tensor | Reading
    way: bool
    """The truth of it by which the program goes that way."""
    branch: Branch
    stack: tuple[Location, ...]
    """Where the program stands, outermost call first."""
    other_raises: bool
    """Whether the other way ends in a `raise`."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A branch on data at which a trace ends, and of which the way may be guessed one day."""

    branch: Branch
    operands: tuple[Value, ...]
    """What it looks at, or compares and looks at."""
    compared: str | None
    """The operator by which it compares."""


@dataclass(frozen=True, slots=True)
class Around:
    """What an exception meets that the compiled graph raises; see `Limits`."""

    replay: Callable[[Heap, Sequence[Value]], bool] = lambda heap, values: True
    passes: bool = True
    covering: tuple[int, ...] = ()
    """The outermost frame's handlers that cover the point where the region begins."""


@dataclass(frozen=True, slots=True)
class Escape:
    """How an exception that an op raises leaves the traced function."""

    past: bool = False
    """Whether the op stands outside of what the handlers cover inside of which the region began:
    they must not get what the entry raises."""
    states: States = field(default_factory=dict)
    """What the heap is once the handlers are through that only let it pass."""
    effects: tuple[Effect, ...] = ()
    """Those of these handlers."""
    leave: Callable[[], None] | None = None
    """Sets torch's thread-local state as it is then; None where that is as at the beginning."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What to do when a node of a graph that has written to its inputs fails: see `Trace`."""

    effects: int
    """How many effects come before the node."""
    heap: int
    """The heap's mark before the node."""
    may_restart: bool
    """Nothing before the node was written to an input or drawn from a random stream."""
    may_rewind: bool
    """Nothing before the node was written to an input."""
    half_done: bool
    """The node itself may have written a part of an input when it raises."""
    where: Break
    escape: Escape


class VM(ABC):
    """The state of one trace, with the operations of Python on traced values.

    What an operation means lies in the modules that `Machine` puts together; they know each other
    only through these methods.
    """

    def __init__(
        self,
        options: Options,
        facts: Facts,
        originals: Originals,
        history: History,
        *,
        whole: bool = False,
    ) -> None:
        self.options = options
        self.whole = whole
        """Whether the function is to be one graph."""
        self.answers = facts
        self.escaped: Any = None
        """How an op's exception has left the program: see `escapes.Escaped`."""
        self.outcomes: dict[Hashable, Outcome] = {}
        """What is known already of ops, by the question."""
        self.originals = originals
        self.graph = GraphWriter()
        self.heap = Heap()
        self.guards: list[Guard] = []
        self.found_in_classes: dict[tuple[type, str], tuple[int, LineageIs]] = {}
        """The guards on what classes have under a name, and where in the list they are."""
        self.effects: list[Effect] = []
        self.around = Around()
        self.mutations: list[Tensor] = []
        """Existing tensors that the graph has written to, and random draws, in order."""
        self.reshaped: set[Tensor] = set()
        """Existing tensors of which sizes or strides have been changed, perhaps back again."""
        self.drawn: set[torch.device] = set()
        """Whose random streams the graph draws from."""
        self.guesses: list[Guess] = []
        """Branches on data that the trace has gone past, in order."""
        self.levels: list[Level] = []
        """The transforms inside of which the trace is, the outermost first."""
        self.devices_before = self.devices = default_devices() or ()
        """The default devices, of which the last counts; none where nobody has set one."""
        self.function_modes: tuple[Value, ...] = ()
        """Torch-function modes other than default devices that the trace has entered, the innermost
        last."""
        self.asked_modes = 0
        """How many of these a call of torch's asks: not one of which the own code is running."""
        self.has_subclasses = False
        """Whether the trace has met a tensor of a subclass."""
        self.asks_subclasses = True
        """Whether a call of torch's asks the classes of tensors among its arguments."""
        self.catching: tuple[bool, ...] = ()
        """For each `warnings.catch_warnings()` that the trace has entered, the innermost last,
        whether all warnings are ignored there."""
        self.undecided: Undecided | None = None
        """The branch at which the trace ends, if its way may be guessed one day."""
        self.rewinds = False
        """Whether these streams are set back where a node fails before which only they moved."""
        self.sets_modes = False
        """Whether grad mode or autocast is set, not by `with` blocks that begin in the trace."""
        self.switched = False
        """Whether a setting was set that decides which kernels an op comes to."""
        self.sharing: set[Tensor] = set()
        """Tensors that share memory with another one, as far as the graph shows it."""
        self.small: dict[Tensor, None] = {}
        """Existing tensors that have been changed, and are no larger than a number."""
        self.roots: dict[Tensor, Tensor] = {}
        """For a tensor that an op returned as a view: the tensor that owns the memory."""
        self.constant_tensors: dict[Tensor, torch.Tensor] = {}
        """Those that are made of constants alone, and their data."""
        self.frozen: set[Tensor] = set()
        """Those of which an autograd function has returned a view."""
        self.made_leaves: dict[fx.Node, Tensor] = {}
        """Those that the function has made to require grad, by the node of that."""
        self.failures: dict[str, Failure] = {}
        """By name of a graph node."""
        self.seen: dict[int, Value] = {}
        """The value for each existing object that was looked at, by identity."""
        self.keep_alive: list[object] = []
        """What `seen` knows by address must not die while the trace goes on."""
        self.owners: dict[int, Value] = {}
        """The object whose attributes an existing dictionary holds, by that one's identity."""
        self.namespaces: dict[int, Source] = {}
        """Where each module's globals that were read are found, by their identity."""
        self.reprs: list[Value] = []
        """The objects whose guarded `__repr__` is being traced."""
        self.generators: list[Generator] = []
        """Every generator that the trace made."""
        self.begun: dict[Iterator, Break] = {}
        """The iterators that existed, of those that the trace advances, and where it began to."""
        self.history = history
        self.symbols: dict[Source | Formula, Symbol] = {}
        self.symbol_values: dict[str, int | float] = {}
        """What each symbol is in the call at hand."""
        self.sizes_by_value: dict[object, dict[int, Symbol]] = {}
        """By the range of sizes."""
        self.strict: dict[Symbol, Source] = {}
        """Sizes that must not turn out to be one number, and where they were found."""
        self.decided: dict[Guard, tuple[Location, ...]] = {}
        """The relations under which such a one is, and the calls that led there."""
        self.strides_by_value: dict[int, Symbol] = {}
        self.counts: dict[object, tuple[int, Guard, Source]] = {}
        """By class and number: the place of a guard on the first tensor that has it, the guard, and
        where the tensor is."""
        self.number_nodes: dict[Expression, fx.Node] = {}
        self.frames: list[Frame] = []
        self.checkpoint: Callable[[Frame, Op], None] | None = None
        """Called before each operation of the outermost frame, and of those that are `direct`."""
        self.steps = 0
        self.own_steps = 0
        """Those in no polyfill."""

    # Bookkeeping

    def guard(self, guard: Guard) -> None:
        self.guards.append(guard)

    def is_noted(self, at: int, guard: Guard) -> bool:
        """Whether a guard that was noted at this place has not been rolled back."""
        return at < len(self.guards) and self.guards[at] is guard

    def guard_lookup(self, cls: type, name: str, found: object) -> None:
        """A class goes on having this under a name: it is asked for again and again."""
        at, guard = self.found_in_classes.get((cls, name), (0, None))
        if guard is not None and self.is_noted(at, guard) and guard.found[0][1] is found:
            return
        guard = LineageIs(cls, ((name, found),))
        self.found_in_classes[cls, name] = len(self.guards), guard
        self.guards.append(guard)

    def effect(self, effect: Effect) -> None:
        self.effects.append(effect)

    def mark(self) -> Mark:
        return Mark(
            self.graph.mark(),
            self.heap.mark(),
            len(self.guards),
            len(self.effects),
            len(self.mutations),
            len(self.guesses),
            len(self.levels),
            self.devices,
            self.function_modes,
            self.asked_modes,
            self.asks_subclasses,
            self.catching,
        )

    @property
    def has_written(self) -> bool:
        """Whether the graph changes what others see, other than by drawing random numbers."""
        return any(changed is not RANDOM_STREAM for changed in self.mutations)

    def rollback(self, mark: Mark) -> None:
        self.graph.rollback(mark.graph)
        self.heap.rollback(mark.heap)
        del self.guards[mark.guards :]
        del self.effects[mark.effects :]
        del self.mutations[mark.mutations :]
        del self.guesses[mark.guesses :]
        del self.levels[mark.levels :]
        self.devices = mark.devices
        self.function_modes, self.asked_modes = mark.function_modes, mark.asked_modes
        self.asks_subclasses = mark.asks_subclasses
        self.catching = mark.catching
        self.number_nodes.clear()
        self.escaped = None  # it may rely on guards that are gone

    @property
    def keeps_nodes(self) -> bool:
        """Whether what is added to the graph stays in it: it does not where the trace looks ahead,
        or is inside of a transform."""
        return self.checkpoint is not None and not self.levels

    def int_values(self) -> Mapping[str, int]:
        """The values of all symbols that are integers."""
        return {n: value for n, value in self.symbol_values.items() if isinstance(value, int)}

    def node(self, tensor: Tensor | Reading) -> fx.Node:
        """The graph's node for a tensor: the last in-place op on it, or what made it."""
        return self.heap.read(tensor, "node") or tensor.node

    def stop(self, reason: Reason, detail: str = "") -> NoReturn:
        """End the trace before the instruction that is being executed."""
        raise Stopped(self.break_here(reason, detail))

    def refuse(self, value: Opaque) -> NoReturn:
        """End the trace where an object is used that tracing does not know."""
        is_tensor = isinstance(value.obj, torch.Tensor)
        self.stop(reasons.UNUSUAL_TENSOR if is_tensor else reasons.OPAQUE, value.why)

    def stop_inside_a_level(self, what: str) -> None:
        """End the trace where something means another thing in a transform than it does outside."""
        if self.levels:
            self.stop(reasons.TRANSFORM, f"{what} inside")

    @abstractmethod
    def stop_under_a_mode(self, what: str) -> None:
        """End the trace where a torch-function mode that the trace has entered would be asked."""

    def break_here(self, reason: Reason, detail: str = "") -> Break:
        return Break(reason, detail, self.stack_here())

    def stack_here(self) -> tuple[Location, ...]:
        """Where the traced program stands, outermost call first."""
        return tuple(
            frame.location(frame.program.ops[frame.at - 1])
            for frame in self.frames
            if not frame.trusted
        )

    def facts(self, tensor: Tensor) -> TensorFacts:
        facts = self.heap.read(tensor, "facts")
        assert facts is not None
        return facts

    @abstractmethod
    def escape(self, name: str, *, is_last: bool, by_program: bool) -> Escape:
        """How an exception that an op raises now leaves the traced program.

        Args:
            name: of the op.
            is_last: whether nothing is left to try then; the trace stops before the op where the
                program's handlers would do more than to let the exception pass.
            by_program: whether it runs code of the program's own, which may raise anything.
        """

    # What exists

    @abstractmethod
    def look(self, value: Value) -> Value:
        """What a lazy value is, with guards; any other value is itself.

        A number that varies becomes a constant, with a guard: see `peek`.
        """

    @abstractmethod
    def peek(self, value: Value) -> Value:
        """Like `look`, but a number that varies stays a `Number`."""

    def glance(self, value: Value) -> Value:
        """Like `peek`, for what need not know a number: one that is made of a tensor's data stays a
        `Reading`."""
        return value if isinstance(value, Reading) else self.peek(value)

    @abstractmethod
    def identify(self, value: Value) -> Value:
        """Like `look`, where the object's identity matters."""

    @abstractmethod
    def wrap(self, obj: object, source: Source) -> Value:
        """An existing object that nobody has looked at."""

    def present(self, obj: object, source: Source) -> Value:
        """An existing object whose path may lead nowhere on another call."""
        self.guard(Exists(source))
        return self.wrap(obj, source)

    @abstractmethod
    def trusted(self, obj: object) -> Value:
        """An object of jitpkg's own, which never changes."""

    @abstractmethod
    def new_list(self, items: Sequence[Value]) -> Object: ...

    @abstractmethod
    def new_dict(self, items: Sequence[tuple[Value, Value]]) -> Object: ...

    # Operations of Python

    @abstractmethod
    def call(self, function: Value, args: Args, kwargs: Kwargs | None = None) -> Value: ...

    @abstractmethod
    def call_directly(self, function: Value, args: Args, kwargs: Kwargs) -> Value:
        """The same, as all that an instruction does but for pushing the result."""

    @abstractmethod
    def call_object(self, function: object, *args: Value) -> Value:
        """Call a function that tracing itself needs, such as `operator.add` or a polyfill."""

    @abstractmethod
    def attribute(self, value: Value, name: str) -> Value: ...

    @abstractmethod
    def attribute_or_none(self, value: Value, name: str) -> Value | None:
        """The attribute, or None where AttributeError is raised."""

    @abstractmethod
    def method_of_class(self, value: Value, name: str) -> Value | None:
        """A special method, bound, found on the class as Python does; None if absent."""

    @abstractmethod
    def instance_attribute(self, value: Value, name: str) -> Value | None:
        """What the object's own dictionary has under a name; None if nothing."""

    @abstractmethod
    def written_to_dictionary(self, value: Value) -> dict[str, Value]:
        """What the trace has written to the object's own dictionary; UNBOUND for what it
        deleted."""

    @abstractmethod
    def set_attribute(self, value: Value, name: str, new: Value) -> None: ...

    @abstractmethod
    def delete_attribute(self, value: Value, name: str) -> None: ...

    @abstractmethod
    def truth(self, value: Value) -> bool: ...

    @abstractmethod
    def same(self, a: Value, b: Value) -> bool:
        """`a is b`."""

    @abstractmethod
    def distinct(self, a: Value, b: Value) -> None:
        """Guard that two existing objects are two."""

    @abstractmethod
    def unary(self, operator: str, value: Value) -> Value: ...

    @abstractmethod
    def binary(self, operator: str, a: Value, b: Value, *, in_place: bool = False) -> Value: ...

    @abstractmethod
    def compare(self, operator: str, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def equal(self, a: Value, b: Value) -> bool:
        """`a is b or a == b`, as containers compare."""

    @abstractmethod
    def iterate(self, value: Value) -> Value:
        """`iter(value)`."""

    @abstractmethod
    def advance(self, iterator: Value) -> Value | None:
        """`next(iterator)`, or None at its end."""

    @abstractmethod
    def unpack(self, value: Value, *, hinted: bool = False) -> Sequence[Value]:
        """All that iterating gives; `hinted`: as what makes a list or a tuple asks for it."""

    @abstractmethod
    def class_of(self, value: Value) -> type:
        """`type(value)`."""

    @abstractmethod
    def raise_new(self, cls: type[BaseException], *args: object) -> NoReturn:
        """Raise a traced exception; its arguments are values, or constants."""

    @abstractmethod
    def resume_frame(self, frame: Frame, raising: Object | None = None) -> Finished:
        """Execute a frame until it returns or yields; `raising` is raised where it stands."""

    @abstractmethod
    def op(
        self, target: Callable[..., object] | str, args: Args, kwargs: Kwargs | None = None
    ) -> Value:
        """Add an op to the graph: a function, or a method by name."""

    @abstractmethod
    def tensor(self, obj: torch.Tensor, source: Source) -> Value:
        """An existing tensor as an input of the graph."""
