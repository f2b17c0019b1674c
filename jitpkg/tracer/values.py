"""What a traced variable can hold.

A value says what is known and where it came from. Values are compared by identity, as objects are;
what can change about one (items, attributes, a cell's content) is kept by the `Heap`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import field
from types import CodeType, GeneratorType, MappingProxyType
from typing import Literal

from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.guards.numbers import Expression, Formula
from jitpkg.guards.sources import Source


class Marker(enum.Enum):
    """Values that are no objects."""

    NULL = "NULL"
    """The interpreter's NULL on the stack."""
    UNBOUND = "<unbound>"
    """A local, cell or attribute that holds nothing."""


NULL = Marker.NULL
UNBOUND = Marker.UNBOUND


@dataclass(eq=False, slots=True)
class Lazy:
    """An object that exists and that nobody has looked at: no guard yet."""

    source: Source
    obj: object = field(repr=False)


@dataclass(eq=False, slots=True)
class Constant:
    """An immutable atom known by value: a number, a string, None, a dtype, a range."""

    value: object
    source: Source | None = None
    """Where the very object is found again; None for one that tracing computed."""


@dataclass(eq=False, slots=True)
class Number:
    """An int or float that is computed anew on each call."""

    expression: Expression
    value: int | float
    """The one in the call at hand."""
    source: Source | None = None
    """Where the very object is found again; None for one that is computed."""


@dataclass(eq=False, slots=True)
class String:
    """A string that is computed anew on each call, from numbers.

    Whoever looks at it gets a constant, with a guard: it is kept where it is only passed on.
    """

    expression: Formula
    value: str
    """The one in the call at hand."""


@dataclass(eq=False, slots=True)
class Known:
    """An existing object known by identity: a class, module, function, enum member, descriptor."""

    obj: object = field(repr=False)
    source: Source


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor: a node of the graph. Its facts are on the heap."""

    node: fx.Node
    source: Source | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A call that is made again where its result is made real."""

    function: Callable[..., object]
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(eq=False, slots=True)
class Array:
    """A NumPy array: its elements are the memory of a tensor, or known."""

    memory: Tensor | Constant
    """A tensor of which nobody else knows, or an array that is never written to; the heap has what
    has taken the place of that."""
    owns: bool = False
    """Whether it was not made to share memory with a tensor, or with another array."""
    of: Array | None = None
    """The array of constants, with memory of its own, of which it is a view."""
    view: Call | None = None
    """What makes it of another array, as a view."""
    source: Source | None = None
    """None for one that the trace made."""


EXAMPLES: Mapping[type, bool | float | complex] = MappingProxyType(
    {bool: True, int: 2, float: 2.5, complex: 2.5j}
)
"""A number of each class, for questions of which the answers depend on the class alone."""


@dataclass(eq=False, slots=True)
class Reading:
    """A Python number that is made of a tensor's data: a node of the graph, which has to run first.

    It can be handed on. Whoever looks at it ends the trace.
    """

    node: fx.Node
    cls: type
    """bool, int, float or complex, exactly."""
    bits: int
    """A whole number is less than 2 to this."""
    what: str
    """What the program has called."""


@dataclass(eq=False, slots=True)
class Tuple:
    """A tuple, or an instance of a tuple subclass without attributes (a named tuple, a Size)."""

    items: tuple[Value, ...]
    cls: type = tuple
    source: Source | None = None


@dataclass(eq=False, slots=True)
class Slice:
    """A slice object."""

    start: Value
    stop: Value
    step: Value
    source: Source | None = None


@dataclass(eq=False, slots=True)
class Object:
    """A thing with identity and state: a list, dict, set, deque, exception or user's instance."""

    cls: type
    source: Source | None = None
    """None for one that the trace made."""
    obj: object = field(default=None, repr=False)
    """The existing object, as it was before the trace; never changed."""


@dataclass(eq=False, slots=True)
class InstanceDict:
    """`vars(of)`: the attribute dictionary of an object or function."""

    of: Object | Known | Function


@dataclass(eq=False, slots=True)
class DictView:
    """`d.keys()`, `d.values()` or `d.items()`."""

    of: Object | InstanceDict
    kind: Literal["keys", "values", "items"]


@dataclass(eq=False, slots=True)
class Cell:
    """A closure cell."""

    source: Source | None = None
    """None for one that the trace made."""


@dataclass(eq=False, slots=True)
class Function:
    """A function that the trace made."""

    code: CodeType
    globals: Source
    """The dictionary of its globals."""
    namespace: dict[str, object] = field(repr=False)
    """That dictionary itself."""
    closure: tuple[Cell, ...] = ()
    defaults: Tuple | None = None
    keyword_defaults: Object | None = None
    annotations: Value | None = None


@dataclass(eq=False, slots=True)
class Method:
    """A callable bound to its first argument."""

    function: Value
    receiver: Value
    source: Source | None = None


@dataclass(eq=False, slots=True)
class Super:
    """What `super(start, receiver)` gives."""

    start: type
    receiver: Value
    cls: type
    """The class whose method resolution order is walked."""


@dataclass(eq=False, slots=True)
class Iterator:
    """A builtin iterator; its position is on the heap."""

    kind: Literal[
        "sequence",
        "walk",
        "range",
        "reversed",
        "dict",
        "string",
        "zip",
        "enumerate",
        "map",
        "filter",
    ]
    """A `walk` is over a set, a deque or the like, and cannot be rebuilt."""
    parts: tuple[Value, ...]
    strict: bool = False
    """Of a zip: whether lengths must agree."""
    backwards: bool = False
    """Whether it is one that `reversed` gives."""
    source: Source | None = None
    """None for one that the trace made."""
    obj: object = field(default=None, repr=False)
    """The existing one, where it stood before the trace."""


@dataclass(eq=False, slots=True)
class Generator:
    """A generator that the trace made; its frame is on the heap."""

    name: str
    cls: type = GeneratorType
    """What it passes for, where a polyfill made it."""


@dataclass(eq=False, slots=True)
class Opaque:
    """An existing object that tracing does not understand: it can only be passed on."""

    source: Source
    obj: object = field(repr=False)
    why: str


class OfOp(BaseException):
    """The class of a traced exception of which no more is known than that an op raised it."""


class OfProgram(OfOp):
    """The same where the op runs code of the program's own."""


@dataclass(eq=False, slots=True)
class Kept:
    """A stack value below what the hook hands over; it can only stay where it is."""

    depth: int


@dataclass(eq=False, slots=True)
class Continuation:
    """A callable, made for an exit, that goes on in the middle of a function that was inlined."""

    code: CodeType
    point: int
    locals: tuple[Value, ...]
    """By slot."""
    stack: tuple[Value, ...]
    globals: Source
    namespace: dict[str, object] = field(repr=False)
    calls: bool
    """Whether its next instruction calls a function that was being traced, too."""


Value = (
    Marker
    | Lazy
    | Constant
    | Number
    | String
    | Known
    | Tensor
    | Array
    | Reading
    | Tuple
    | Slice
    | Object
    | InstanceDict
    | DictView
    | Cell
    | Function
    | Method
    | Super
    | Iterator
    | Generator
    | Opaque
    | Kept
    | Continuation
)


def class_in(value: Value) -> type | None:
    """The class that a value is, or None where it is something else."""
    if isinstance(value, Known) and isinstance(value.obj, type):
        return value.obj
    return None


NONE = Constant(None)
TRUE = Constant(True)
FALSE = Constant(False)
