"""A function run eagerly and compiled, from the same state, and compared in every respect."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import torch

from jitpkg import api, config
from jitpkg.codegen.backends import Backend
from jitpkg.comparison.copies import Copies, has_state
from jitpkg.comparison.differences import Difference, Tolerance, differences
from jitpkg.comparison.facts import Fact, State, content
from jitpkg.comparison.running import Call, observe
from jitpkg.comparison.surroundings import Names, same_process
from jitpkg.dataclass import dataclass
from jitpkg.errors import InvalidArgument
from jitpkg.internals.modules import replaced_call
from jitpkg.marks import COMPILED
from jitpkg.messages import counted

_MOST_SHOWN = 8


class NotTheSame(AssertionError):
    """A compiled function does something else than the eager one.

    Attributes:
        differences: each of them.
    """

    def __init__(self, message: str, differences: tuple[Difference, ...]) -> None:
        super().__init__(message)
        self.differences = differences


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments of one call, for `Comparison.assert_same_calls`."""
    return Call(args, kwargs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How functions are compiled, called and compared.

    A function is run twice, eagerly and compiled, each time from the same state: with deep copies
    of its arguments (what is one object, or shares memory, does so in the copy), of what its cells
    hold, and of the globals and class attributes that it can name; with the same random streams.
    Compared is all that can be seen afterwards. The state of the process, and the arguments given,
    are left as they were.
    """

    backend: str | Backend = "eager"
    """As for `jitpkg.compile`, like the next four."""
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings in force while the compiled function is called; `strict` is on anyway."""
    compile: Callable[[Any], Any] | None = None
    """What compiles, in place of `jitpkg.compile`: given a function, returns a callable."""
    calls: int = 2
    """How often `assert_same` calls: the first compiles, the second meets guards and entries."""
    relative: float = 0.0
    """How far floats may be apart, of their size; with `absolute` 0 too, bit for bit."""
    absolute: float = 0.0
    """How far floats may be apart."""
    backward: bool = True
    """Compute gradients of the sum of all float results after each call, and compare them."""
    ignore: Collection[str] = ()
    """Respects in which nothing is compared, as differences name them: "strides", "version"."""

    def assert_same(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Call a function with these arguments, eagerly and compiled.

        Raises:
            NotTheSame: something differs; the message says what, and where.
            JitpkgError: the function could not be compiled as it was to be.
            InvalidArgument: an argument cannot be copied.
        """
        self.assert_same_calls(fn, *[Call(args, kwargs)] * self.calls)

    def assert_same_calls(self, fn: Callable[..., Any], /, *calls: Call) -> None:
        """Call a function with one set of arguments after the other, eagerly and compiled.

        Raises: what `assert_same` raises.
        """
        k, found = self.differences(fn, *calls)
        if found:
            raise NotTheSame(self._message(fn, found, k, len(calls)), found)

    def differences(
        self, fn: Callable[..., Any], /, *calls: Call
    ) -> tuple[int, tuple[Difference, ...]]:
        """The first call that differs eagerly and compiled, and in what; 0 and nothing if none.

        Raises: what `assert_same` raises, but `NotTheSame`.
        """
        if _is_compiled(fn):
            raise InvalidArgument(f"{_name(fn)} is compiled already: give the original.")
        names = Names([fn, *([*c.args, *c.kwargs.values()] for c in calls)])
        run = partial(_run, fn, calls, names, backward=self.backward)
        eager = run(lambda target: target)
        with config.patch(**{"strict": True, **self.settings}):
            compiled = run(self.compile or self._compiled)
        tolerance = Tolerance(self.relative, self.absolute)
        for k, (a, b) in enumerate(zip(eager, compiled, strict=True), 1):
            if found := differences(a, b, tolerance, self.ignore):
                return k, found
        return 0, ()

    def _compiled(self, target: Any) -> Any:
        return api.compile(
            target,
            fullgraph=self.fullgraph,
            dynamic=self.dynamic,
            backend=self.backend,
            mode=self.mode,
            options=self.options,
        )

    def _message(
        self, fn: Callable[..., Any], found: Sequence[Difference], k: int, calls: int
    ) -> str:
        how = f"backend={_name(self.backend)!r}" if self.compile is None else _name(self.compile)
        where = f"in call {k} of {calls} " if calls > 1 else ""
        lines = [f"{_name(fn)}, compiled ({how}), {where}is not as eager:"]
        lines.extend(f"  {difference}" for difference in found[:_MOST_SHOWN])
        if len(found) > _MOST_SHOWN:
            lines.append(f"  … and {counted(len(found) - _MOST_SHOWN, 'other difference')}")
        return "\n".join(lines)


def _is_compiled(fn: Any) -> bool:
    fn = getattr(fn, "__func__", fn)
    return COMPILED in getattr(fn, "__dict__", ()) or bool(replaced_call(fn))


def _name(obj: object) -> str:
    if isinstance(obj, str):
        return obj
    return str(getattr(obj, "__qualname__", None) or type(obj).__qualname__)


def _run(
    fn: Callable[..., Any],
    calls: Sequence[Call],
    names: Names,
    compiled: Callable[[Any], Any],
    *,
    backward: bool,
) -> list[list[Fact]]:
    """Make the calls from copies of everything."""
    copies = Copies()
    with same_process():
        try:
            names.install(copies)
            target = copies.of(fn)
            made = [_copied(call, Copies(copies)) for call in calls]

            def describe(state: State) -> None:
                _describe_target(state, target)
                names.describe(state)

            return observe(compiled(target), made, describe, signature_of=target, backward=backward)
        finally:
            names.restore()


def _copied(call: Call, copies: Copies) -> Call:
    args, kwargs = copies.of((call.args, dict(call.kwargs)))
    return Call(args, kwargs)


def _describe_target(state: State, target: Any) -> None:
    """What a function keeps: a method's object, a module's state, the contents of cells."""
    match target:
        case types.MethodType():
            state.add("self", target.__self__)
            _describe_target(state, target.__func__)
        case types.FunctionType():
            names = target.__code__.co_freevars
            for name, cell in zip(names, target.__closure__ or (), strict=True):
                inner = content(cell)
                if not (isinstance(inner, types.FunctionType) and not has_state(inner)):
                    state.add(f"cell {name}", inner)
            for name, default in _defaults(target).items():
                state.add(f"default {name}", default)
        case torch.nn.Module():
            state.add("module", target)


def _defaults(function: types.FunctionType) -> dict[str, Any]:
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    return {n: p.default for n, p in parameters.items() if p.default is not p.empty}


_PLAIN = Comparison()


def assert_same(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    """Call a function with these arguments, eagerly and compiled, and compare all that can be seen.

    To compile, call or compare in another way: `Comparison(backend=…).assert_same(fn, …)`.

    Raises:
        NotTheSame: something differs; the message says what, and where.
        JitpkgError: the function could not be compiled as it was to be.
        InvalidArgument: an argument cannot be copied.
    """
    _PLAIN.assert_same(fn, *args, **kwargs)
