"""What a program says to the compiler in its own code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any, Literal, NoReturn, TypeVar, overload

from jitpkg.dataclass import dataclass
from jitpkg.endings import dropping
from jitpkg.errors import InvalidArgument
from jitpkg.internals import Missing, modules

F = TypeVar("F", bound=Callable[..., Any])

DISABLED = "_jitpkg_disable"
"""The attribute of a function that is never compiled."""

COMPILED = "__jitpkg__"
"""The attribute where a function keeps its dispatcher, which lives as long as the function does; of
a class of other callables, what gives the compiled function that one of them calls."""


@dataclass(frozen=True, slots=True)
class Dims:
    """In which dims a tensor is another one from call to call."""

    sizes: frozenset[int] = frozenset()
    strides: frozenset[int] = frozenset()
    """Those of which the stride varies and does not follow from the sizes."""

    def __bool__(self) -> bool:
        return bool(self.sizes or self.strides)


VARIES = "jitpkg_varies"
"""The key in a graph module's `meta`: for each input its `Dims`, or None for a number; nothing at
all where each call has the sizes and strides of the example inputs."""


def varies(meta: Mapping[str, Any]) -> bool:
    """Whether an input of a graph with this `meta` is another one from call to call."""
    return any(dims is None or dims for dims in meta.get(VARIES) or ())


DIMS = "jitpkg_dims"
"""The key in the `meta` of a graph's node whose sizes are other ones on each call: its `Dims`."""

SCALAR = "jitpkg_scalar"
"""The key in the `meta` of a graph's node that computes the same with a tensor of float64 without
dims in place of its float; or with one of the dtype that is noted under it, if that is not None."""

READING = "jitpkg_reading"
"""The key in the `meta` of a graph's node that gives a Python number, or a list of such, which is
made of a tensor's data: its class."""

OUTCOME = "jitpkg_outcome"
"""The key in the `meta` of a graph's node that calls an autograd function, whose code does nothing
but compute with its arguments: what it returns, as a `facts.outcome.Outcome`."""

BODY = "jitpkg_body"
"""The key in the `meta` of such a node: the ops of `forward` and `backward`, as a graph of the
tensors that it is given, and of gradients, which returns the results and the gradients."""

LEAVES = "jitpkg_leaves"
"""The key in the `meta` of such a node of which a view leaves the graph."""

VIEW_LEAVES = (
    "a view that an autograd function has made is returned: another view would have another"
    " derivative, and a copy would show nothing"
)

RECOMPUTED = "jitpkg_recomputed"
"""The key in the `meta` of a graph's node that calls a part of the graph of which nothing is to be
saved for a backward pass: that part, as a graph."""

TRANSFORMED = "jitpkg_transformed"
"""The key in the `meta` of a graph's node that runs a part of the graph at a level of `torch.func`:
that part, with its options."""

BODIES = "jitpkg_bodies"
"""The key in the `meta` of a graph's node that runs parts of the graph as control flow says
(`torch.cond`, `while_loop`, `scan`): these parts. What it returns, `OUTCOME` says."""

RANDOM = "jitpkg_random"
"""The key in the `meta` of a graph's node that draws random numbers."""

TRAINS = "jitpkg_trains"
"""The key in the `meta` of a graph's node whose result requires grad: the name of the node that has
made its memory."""

MEMORY = "jitpkg_memory"
"""The key in the `meta` of a graph's node whose result lies in memory that another node has made:
the name of that."""

LEAF = "jitpkg_leaf"
"""The key in the `meta` of a graph's node that takes a view of what requires grad while grad mode
is off: a leaf of its own."""

RECORDED = "jitpkg_recorded"
"""The key in the `meta` of a graph's node that writes to memory where autograd records that."""

GRADIENTS = "jitpkg_gradients"
"""The key in the `meta` of a graph's node that returns gradients: of what is differentiated, given
the gradients of that, by leaves; and whether it may be done again."""

ASKED = "jitpkg_asked"
"""The key in the `meta` of such a node that returns what `torch.autograd.grad` does, and leaves no
gradient anywhere: what that is, as a `facts.outcome.Outcome`."""

WRITES = "jitpkg_writes"
"""The key in the `meta` of a graph's node that writes to memory: the names of the nodes which that
memory was made by."""

KEEPS = "jitpkg_keeps"
"""The key in the `meta` of a graph's node during which the values of these nodes live on, by name:
if it fails, the program has them."""

WARNS = "_jitpkg_warns"
"""The attribute of a function in a graph that calls an op which warns."""

IN_ITS_PLACE = ".in_its_place"
"""The free variable of code that calls such an op from a place in the program: there, the program
itself has a frame already."""


@dataclass(frozen=True, slots=True)
class Range:
    """The sizes of a dim that is marked as dynamic."""

    least: int = 2
    most: int | None = None
    strict: bool = False
    """Whether code that works for one size alone is an error."""

    def __contains__(self, size: int) -> bool:
        return self.least <= size and (self.most is None or size <= self.most)

    def __str__(self) -> str:
        return f"{self.least} and more" if self.most is None else f"{self.least} to {self.most}"


DYNAMIC_DIMS = "_jitpkg_dynamic_dims"
"""The attribute of a tensor that holds a `Range` for each dim of which `mark_dynamic` was told."""

STATIC_DIMS = "_jitpkg_static_dims"
"""The attribute of a tensor that holds what `mark_static` was told."""


def mark_dynamic(
    tensor: Any,
    dim: int | Iterable[int],
    *,
    min: int | None = None,  # noqa: A002
    max: int | None = None,  # noqa: A002
) -> None:
    """Say that the size of a tensor in a dim, or in several, varies from call to call.

    The first call with such a tensor is compiled for all sizes from 2 on, or for those between
    `min` and `max`; a tensor without elements in the dim, or with one, is compiled for by itself.
    Where the code works for the present size only, `SizeSpecialized` is raised, which says what
    decides it.

    Args:
        min: the least size; less than 2 means 2.
        max: the largest one.

    Raises:
        InvalidArgument: the tensor has no such dim, or is none; or its size is not in the range.
    """
    sizes = _range("mark_dynamic", min, max)
    dims = _dims(tensor, dim, "mark_dynamic")
    for k in dims:
        size = tensor.shape[k]
        if size not in sizes and (size > 1 or (min is not None and size < min)):
            raise InvalidArgument(f"mark_dynamic(): dim {k} has size {size}, not {sizes}.")
    _mark(tensor, dims, sizes)


def maybe_mark_dynamic(tensor: Any, dim: int | Iterable[int]) -> None:
    """The same, where it is no error if the code works for the present size only.

    Raises:
        InvalidArgument: the tensor has no such dim, or is none.
    """
    _mark(tensor, _dims(tensor, dim, "maybe_mark_dynamic"), Range())


def _mark(tensor: Any, dims: frozenset[int], sizes: Range) -> None:
    marked: dict[int, Range] = getattr(tensor, DYNAMIC_DIMS, {})
    setattr(tensor, DYNAMIC_DIMS, {**marked, **dict.fromkeys(dims, sizes)})
    setattr(tensor, STATIC_DIMS, getattr(tensor, STATIC_DIMS, frozenset()) - dims)


def _range(name: str, least: Any, most: Any) -> Range:
    for word, given in (("min", least), ("max", most)):
        if given is not None and type(given) is not int:
            raise InvalidArgument(f"{name}(): {word} is {given!r}, which is no int.")
    found = Range(2 if least is None or least < 2 else least, most, strict=True)
    if most is not None and most < found.least:
        raise InvalidArgument(
            f"{name}(): there are no sizes from {found.least} to {most}; a size of 0 or 1 is never"
            " taken for one that varies."
        )
    return found


def mark_static(tensor: Any, dim: int | Iterable[int] | None = None) -> None:
    """Say that a size is to be taken as it is, and compiled again where it differs.

    Args:
        tensor: the tensor.
        dim: which dims; all of them where None.

    Raises:
        InvalidArgument: the tensor has no such dim, or is none.
    """
    dims = _dims(tensor, dim, "mark_static")
    setattr(tensor, STATIC_DIMS, getattr(tensor, STATIC_DIMS, frozenset()) | dims)
    marked: dict[int, Range] = getattr(tensor, DYNAMIC_DIMS, {})
    setattr(tensor, DYNAMIC_DIMS, {k: sizes for k, sizes in marked.items() if k not in dims})


def mark_unbacked(tensor: Any, dim: int | Iterable[int]) -> NoReturn:
    """Refused: sizes that are unknown while tracing are not supported.

    Raises:
        InvalidArgument: always.
    """
    raise InvalidArgument(
        "jitpkg has no sizes that are unknown while tracing; use mark_dynamic(tensor, dim), which"
        " compiles for all sizes from 2 on."
    )


def _dims(tensor: Any, dim: int | Iterable[int] | None, name: str) -> frozenset[int]:
    if not hasattr(tensor, "dim") or not callable(tensor.dim):
        raise InvalidArgument(f"{name}() takes a tensor, not {type(tensor).__name__}.")
    rank = tensor.dim()
    if dim is None:
        return frozenset(range(rank))
    dims: list[Any] = [dim] if isinstance(dim, int) else list(dim)
    for given in dims:
        if not isinstance(given, int) or not -rank <= given < rank:
            raise InvalidArgument(f"{name}(): the tensor has {rank} dims, and no dim {given!r}.")
    return frozenset(given % rank for given in dims)


def graph_break(msg: str = "") -> None:
    """Ask for a graph break here; outside compiled code it does nothing."""


def is_compiling() -> bool:
    """Whether this code is being compiled: True in compiled code, False where Python runs it."""
    return False


def _uncompiled(module: Any, *args: Any, **kwargs: Any) -> Any:
    """What calling a disabled module does."""
    return modules.call_of(module)(*args, **kwargs)


setattr(_uncompiled, DISABLED, True)


@overload
def disable(fn: F, recursive: bool = True, *, reason: str | None = None) -> F: ...
@overload
def disable(
    fn: None = None, recursive: bool = True, *, reason: str | None = None
) -> Callable[[F], F]: ...
def disable(
    fn: F | None = None, recursive: bool = True, *, reason: str | None = None
) -> F | Callable[[F], F]:
    """Mark a callable as one that is called as it is, never traced; returns the very same object.

    Args:
        fn: the function, method, nn.Module, other callable, or class, of which it is the calls of
            its instances; without it, `disable` makes a decorator.
        recursive: accepted, as torch.compiler.disable has it. What the function calls is left
            alone in any case, but for what was compiled by itself.
        reason: shown where the call breaks a graph.

    Raises:
        InvalidArgument: `fn` cannot be called, or is a class without a `__call__` in Python.
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    if isinstance(fn, type):
        _disable_class(fn, reason)
    elif modules.is_module(fn):
        _disable_module(fn)
    else:
        _disable(getattr(fn, "__func__", fn), reason)
    return fn


def _disable(function: Any, reason: str | None) -> None:
    if not callable(function):
        raise InvalidArgument(f"disable() takes a function, not {function!r}.")
    compiled = getattr(type(function), COMPILED, None)
    if compiled is not None:
        _disable(compiled(function), reason)
    if not isinstance(function, FunctionType):
        _MARKED.note(function, "for real")
        return
    setattr(function, DISABLED, reason or True)
    dispatcher = vars(function).get(COMPILED)
    if dispatcher is not None:
        dispatcher.release(function)


def _disable_module(module: Any) -> None:
    """Of one module, or of all of a class."""
    with suppress(Missing):  # the user has been told
        modules.CALL.get()
        modules.replace_call(module, _uncompiled)


def _disable_class(cls: Any, reason: str | None) -> None:
    if modules.is_class_of_modules(cls):
        _disable_module(cls)
        return
    call = inspect.getattr_static(cls, "__call__", None)
    if not isinstance(call, FunctionType):
        raise InvalidArgument(
            f"disable() of a class is for calls of its instances, and {cls.__qualname__} has no"
            " __call__ that is written in Python."
        )
    if "__call__" not in vars(cls):  # the base class's instances are no matter of this one
        own = FunctionType(
            call.__code__, call.__globals__, call.__name__, call.__defaults__, call.__closure__
        )
        own.__kwdefaults__ = call.__kwdefaults__
        call = functools.update_wrapper(own, call, updated=())
        cls.__call__ = call
    _disable(call, reason)


# Functions that are called in another way


Mark = Literal["in graph", "for real", "constant"]
"""How a call of a marked function is traced."""


class _Marked:
    """The mark of each marked function, by identity: a wrapper of one has not its mark.

    Functions in C have no attributes that a mark could be in.
    """

    def __init__(self) -> None:
        self._marks: dict[int, tuple[Callable[[], object], Mark]] = {}

    def note(self, function: Callable[..., Any], mark: Mark) -> None:
        key = id(function)
        reference: Callable[[], object]
        try:
            reference = dropping(function, self._marks, key)
        except TypeError:  # a method of a class in C: it lives as long as the class
            reference = lambda: function  # noqa: E731
        self._marks[key] = reference, mark

    def of(self, function: object) -> Mark | None:
        found = self._marks.get(id(function))
        return found[1] if found is not None and found[0]() is function else None


_MARKED = _Marked()


def mark_of(function: object) -> Mark | None:
    """How a program has asked to call a function, or None where it has not."""
    return _MARKED.of(function)


@overload
def allow_in_graph(fn: F) -> F: ...
@overload
def allow_in_graph(fn: Sequence[F]) -> list[F]: ...
def allow_in_graph(fn: Any) -> Any:
    """Put calls of a function into the graph as they are, without a look inside.

    While tracing it is called once with tensors that have no data, which shows what it returns;
    then it runs with the graph, for which nothing else is known of it. So it must depend on its
    arguments alone, which are tensors, plain values and containers of them, and return tensors.
    What it reads besides is not guarded, and what it changes may be changed more often than in the
    program, or at another moment: the result is then not that of the program.

    Args:
        fn: the function, or a list of functions. Of a subclass of `torch.autograd.Function` it is
            `apply` that is put into graphs.

    Raises:
        InvalidArgument: `fn` is no function.
    """
    return _marked(fn, "in graph", "allow_in_graph", classes=True)


@overload
def disallow_in_graph(fn: F) -> F: ...
@overload
def disallow_in_graph(fn: Sequence[F]) -> list[F]: ...
def disallow_in_graph(fn: Any) -> Any:
    """Break the graph at calls of a function, which may be one of torch's, and call it for real.

    Operators are no calls: `a - b` is not `torch.sub(a, b)`.

    Args:
        fn: the function, or a list of functions.

    Raises:
        InvalidArgument: `fn` is no function.
    """
    return _marked(fn, "for real", "disallow_in_graph")


@overload
def assume_constant_result(fn: F) -> F: ...
@overload
def assume_constant_result(fn: Sequence[F]) -> list[F]: ...
def assume_constant_result(fn: Any) -> Any:
    """Call a function while tracing, and take what it returns for a constant of the graph.

    Nothing tests that it would still return the same: where it would not, the result is not that
    of the program. Its arguments are plain values, and objects that exist before the call.

    Args:
        fn: the function, or a list of functions.

    Raises:
        InvalidArgument: `fn` is no function.
    """
    return _marked(fn, "constant", "assume_constant_result")


def _marked(fn: Any, mark: Mark, name: str, *, classes: bool = False) -> Any:
    if isinstance(fn, list | tuple):
        return [_marked(each, mark, name, classes=classes) for each in fn]
    is_class = isinstance(fn, type) and not (classes and hasattr(fn, "apply"))
    if not callable(fn) or is_class or not hasattr(fn, "__name__"):
        raise InvalidArgument(
            f"{name}() takes a function, not {fn!r} ({type(fn).__qualname__})."
            + (" Wrap it in a function." if callable(fn) else "")
        )
    if isinstance(fn, MethodType):
        if mark == "in graph":
            raise InvalidArgument(
                f"{name}() takes a function of tensors, not the method {fn.__qualname__} of an"
                " object: mark a function that is given what it needs of the object."
            )
        _MARKED.note(fn.__func__, mark)
    else:
        _MARKED.note(fn, mark)
    return fn
