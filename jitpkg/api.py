"""The public functions, and the one place that knows all rooms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any, TypeVar, overload

import torch

from jitpkg import config, logs, native
from jitpkg.again import Again, wake
from jitpkg.codegen.backends import REGISTRY, WITHOUT_OPTIONS, Backend, configured
from jitpkg.codegen.options import checked_mode
from jitpkg.dataclass import dataclass
from jitpkg.errors import InvalidArgument, NotCompilable
from jitpkg.guards.kinds import static_lookup
from jitpkg.internals import Missing
from jitpkg.living import Living
from jitpkg.marks import mark_of
from jitpkg.messages import near
from jitpkg.rewriter import callables, follow, modules
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.dispatch import Dispatcher
from jitpkg.rewriter.hooked import Stub
from jitpkg.rewriter.ledger import Account, Ledger
from jitpkg.rewriter.originals import ORIGINALS, given_to_torch_compile
from jitpkg.rewriter.shared import SharedDispatcher
from jitpkg.rewriter.twins import Twins

B = TypeVar("B", bound=Backend)
C = TypeVar("C", bound=Callable[..., Any])
Each = modules.Each


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of `jit` and `compile`."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Backend | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None
    name: str | None = None
    recompile_limit: int | None = None
    isolate_recompiles: bool = False

    def compiler(
        self,
        *,
        quiet: bool = False,
        asked: bool = True,
        varying: Mapping[str, frozenset[int] | None] | None = None,
    ) -> Compiler:
        """Check the arguments, and put a compiler together.

        Args:
            quiet, asked, varying: see `Compiler`.

        Raises:
            InvalidArgument: one of them is not possible.
        """
        _check_flag("fullgraph", self.fullgraph, (True, False))
        _check_flag("dynamic", self.dynamic, (True, False, None))
        _check_flag("isolate_recompiles", self.isolate_recompiles, (True, False))
        _check_limit(self.recompile_limit)
        if not isinstance(self.name, str | None):
            raise InvalidArgument(f"name= takes a string, not {self.name!r}.")
        chosen = config.current().backend if self.backend is None else self.backend
        backend = REGISTRY.find(chosen)
        if self.options is not None and not isinstance(self.options, Mapping):
            raise InvalidArgument(f"options= takes a dict, not {self.options!r}.")
        if self.mode is not None:
            checked_mode(self.mode)
        if self.mode is not None and self.options is not None:
            raise InvalidArgument("Give either mode= or options=, not both.")
        name = chosen if isinstance(chosen, str) else ""
        backend = configured(name, backend, self.mode, self.options)
        twins = Twins()
        compiler = Compiler(
            backend,
            fullgraph=self.fullgraph,
            dynamic=self.dynamic,
            twin=lambda callee: twins.of(callee, compiler),
            middle=lambda code, name: twins.middle(code, name, compiler),
            quiet=quiet,
            asked=asked,
            name=self.name,
            recompile_limit=self.recompile_limit,
            varying=varying or {},
            ledger=_COMPILED.ledger if self._is_weighed(chosen) else None,
            reset=twins.clear,
            reached=twins.dispatchers,
        )
        return compiler

    def _is_weighed(self, backend: str | Backend) -> bool:
        """Whether functions that gain nothing get their own code back.

        Who gives a backend that makes no kernels, or one of their own, wants it to be called.
        """
        makes_kernels = backend in ("jitpkg", "inductor")
        is_default = self.backend is None and backend in WITHOUT_OPTIONS
        return not self.fullgraph and (makes_kernels or is_default)


def _check_flag(name: str, value: object, allowed: tuple[object, ...]) -> None:
    for choice in allowed:
        if value is choice:
            return
    choices = ", ".join(map(repr, allowed))
    raise InvalidArgument(f"{name}= takes {choices}, not {value!r}.")


def _check_limit(limit: object) -> None:
    if limit is not None and (type(limit) is not int or limit < 1):
        raise InvalidArgument(f"recompile_limit= takes a number from 1 on, not {limit!r}.")


def _refuse_others(function: str, others: Mapping[str, Any]) -> None:
    for name in others:
        known = [*Settings.__slots__, "disable"]
        hint = _INSTEAD.get(name) or near(name, known)
        raise InvalidArgument(f"{function}() has no argument {name!r}.{hint}")


_OF_SHAPES = " Say which sizes vary with mark_dynamic, mark_static or dynamic=."
_INSTEAD = {
    "shapes_spec": _OF_SHAPES,
    "dynamic_shapes": _OF_SHAPES,
    "each": " jit(model, each=…) compiles the modules of a model in place.",
}


# Compiling


@overload
def jit(
    fn: C,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    each: Each | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> C: ...
@overload
def jit(
    fn: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    each: Each | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Callable[[C], C]: ...
def jit(
    fn: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    each: Each | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    **others: Any,
) -> Any:
    """Compile a function, method, module or class in place; returns the very same object.

    Of a class it is the calls of its instances that are compiled.

    Args:
        fn: what to compile; without it, `jit` makes a decorator.
        fullgraph: raise `GraphBreak` where the function cannot be one graph.
        dynamic: which sizes and Python numbers vary: those that have been seen to differ (None),
            none (False), or all from the first call on (True).
        backend: a name of `list_backends()`, or `backend(gm, example_inputs) -> callable`; without
            it, what `config.backend` names, which is `jitpkg` unless it was set otherwise.
        mode: of `jitpkg` and `inductor`, as `torch.compile` takes it; other backends have none.
        options: for the backend; not together with `mode`.
        name: what logs, reports and warnings call it; by default its qualified name.
        each: which modules of a model are compiled, in place of the model itself: a class, a tuple
            of classes, or `each(module) -> bool`. Those of one class share what is compiled, so
            that 48 equal layers take the time of one.
        disable: do nothing.
        recompile_limit: how many entries one region may have; by default what
            `config.recompile_limit` says. One more is an error with `fullgraph`; otherwise calls
            that fit none of them run the original code.
        isolate_recompiles: changes nothing: each compiled version has entries of its own.

    Raises:
        InvalidArgument: an argument is not possible, or `each` matches no module.
        NotCompilable: `fn` has no code that could be replaced; `compile` may take it.
    """
    _refuse_others("jit", others)
    settings = Settings(
        *(fullgraph, dynamic, backend, mode, options, name, recompile_limit, isolate_recompiles)
    )
    _check_flag("disable", disable, (True, False))
    if fn is None:
        settings.compiler()
        return lambda f: jit(f, **_keywords(settings), each=each, disable=disable)
    if each is not None:
        return _compile_each(fn, each, settings, disable)
    compiler = settings.compiler(asked=_note_definition(fn))
    _check(fn, "jit")
    if not (disable or config.current().disable):
        _compile_in_place(fn, compiler, settings)
    return fn


def _compile_in_place(fn: Any, compiler: Compiler, settings: Settings) -> None:
    match fn:
        case staticmethod() | classmethod() | MethodType():
            jit(fn.__func__, **_keywords(settings))
        case torch.nn.Module():
            with suppress(Missing):  # the user has been told, and the module runs as it is
                _note(modules.compile_in_place([fn], compiler))
        case type():
            _compile_class(fn, compiler)
        case callables.CompiledCallable():
            follow.compile_in_place(callables.compiled_of(fn), compiler)
        case _:
            follow.compile_in_place(fn, compiler)
            _note(fn)


def _compile_each(model: Any, each: Each, settings: Settings, disable: bool) -> Any:
    chosen = modules.chosen(model, each)
    if not (disable or config.current().disable):
        for cls, of_class in chosen.items():
            compiler = settings.compiler(asked=_note_definition(cls))
            with suppress(Missing):  # the user has been told, and the modules run as they are
                _note(modules.compile_in_place(of_class, compiler))
    return model


def _keywords(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Settings.__slots__}


@overload
def compile(
    model: C,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> C: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Callable[[C], C]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    **others: Any,
) -> Any:
    """A compiled version of a callable, which itself is left as it is.

    The result follows the original: a function's code and defaults, a module's parameters,
    submodules, hooks and class, an object's attributes. Only a class is compiled in place.

    Args: as those of `jit`.

    Raises:
        InvalidArgument: an argument is not possible.
        NotCompilable: `model` cannot be called.
    """
    _refuse_others("compile", others)
    settings = Settings(
        *(fullgraph, dynamic, backend, mode, options, name, recompile_limit, isolate_recompiles)
    )
    _check_flag("disable", disable, (True, False))
    compiler = settings.compiler(asked=_note_definition(model))
    if model is None:
        return lambda f: compile(f, **_keywords(settings), disable=disable)
    _check(model, "compile")
    if disable or config.current().disable:
        return model
    match model:
        case staticmethod() | classmethod():
            return type(model)(compile(model.__func__, **_keywords(settings)))
        case MethodType(__func__=FunctionType()):
            return MethodType(compile(model.__func__, **_keywords(settings)), model.__self__)
        case torch.nn.Module():
            call = modules.compiled_call(model, compiler)
            _note(call)
            return modules.view(model, call, Again(_keywords(settings)))
        case type():
            _compile_class(model, compiler)
            return model
        case FunctionType() if (original := given_to_torch_compile(model)) is not model:
            return compile(original, **_keywords(settings))  # type: ignore[call-overload]
        case FunctionType():
            if follow.is_left_alone(model, compiler):
                return model
            twin = follow.compiled_twin(model, compiler)
            _note(twin)
            return twin
        case _:
            return _compiled_object(model, compiler, Again(_keywords(settings)))


def _note_definition(obj: object) -> bool:
    """Note what is to be compiled; whether nothing else of the same name was, before."""
    obj = ORIGINALS.callable_of(obj)
    match obj:
        case torch.nn.Module():
            obj = static_lookup(type(obj), "forward")
        case type():
            is_module = issubclass(obj, torch.nn.Module)
            obj = static_lookup(obj, "forward" if is_module else "__call__")
    return not isinstance(obj, FunctionType) or _COMPILED.ledger.note_definition(obj)


def _compile_class(cls: type, compiler: Compiler) -> None:
    """Let the calls of all instances of a class run compiled."""
    if issubclass(cls, torch.nn.Module):
        _note(modules.compile_class(cls, compiler))
        return
    call = static_lookup(cls, "__call__")
    assert isinstance(call, FunctionType)
    twin = follow.compiled_twin(call, compiler)
    cls.__call__ = twin  # type: ignore[method-assign]
    _note(twin)


def _compiled_object(
    obj: Callable[..., Any], compiler: Compiler, again: Again
) -> callables.CompiledCallable:
    original = ORIGINALS.callable_of(obj) if mark_of(obj) is None else obj
    assert callable(original)
    call = follow.compiled_twin(callables.calling(original), compiler)
    _note(call)
    return callables.made_of(original, call, again)


def start(
    stub: Stub, functions: Sequence[FunctionType], settings: Settings
) -> SharedDispatcher | None:
    """Compile functions in place whose code has a stub; None where they are not to be."""
    dispatcher = SharedDispatcher(stub.code, settings.compiler(quiet=True, asked=False), stub.drop)
    if not dispatcher.start(functions):
        return None
    _COMPILED.shared.add(dispatcher)
    return dispatcher


def postponed() -> tuple[float, str]:
    """The time of `time.perf_counter` before which no function is compiled unasked, and why."""
    if not config.weighs(config.current()):
        return 0.0, ""
    refused = Account(_COMPILED.ledger, asked=False).refusal(first=True)
    return (0.0, "") if refused is None else (refused.until, refused.why)


def compiled_graph(
    gm: torch.fx.GraphModule,
    settings: Settings,
    name: str,
    varying: Mapping[str, frozenset[int] | None],
) -> Callable[..., Any]:
    """A compiled version of a graph that another compiler has made.

    Args:
        name: what reports call it.
        varying: for inputs, by name, the dims of which the size varies; None for a number.
    """
    compiler = settings.compiler(varying=varying)
    forward = type(gm).forward
    assert isinstance(forward, FunctionType)
    twin = follow.compiled_twin(forward, compiler, name)
    _note(twin)
    return MethodType(twin, gm)


# What can be compiled


def _check(obj: object, name: str) -> None:
    """Raise `NotCompilable` where an object cannot be compiled: by `jit`, in place."""
    if isinstance(obj, FunctionType | torch.nn.Module | callables.CompiledCallable):
        return
    if isinstance(obj, type):
        _check_class(obj, name)
    elif isinstance(obj, staticmethod | classmethod | MethodType):
        _check(obj.__func__, name)
    elif not callable(obj):
        raise NotCompilable(_not_callable(obj, name))
    elif name == "jit":
        raise NotCompilable(
            f"jit() replaces the code of a Python function, and {obj!r} ({type(obj).__qualname__})"
            " has none of its own: use jitpkg.compile(), which returns what is to be called in its"
            " place, or compile the Python function that it calls."
        )


def _check_class(cls: type, name: str) -> None:
    if issubclass(cls, torch.nn.Module):
        return
    if not isinstance(static_lookup(cls, "__call__"), FunctionType):
        raise NotCompilable(
            f"{name}() of a class compiles the __call__ of its instances, and {cls.__qualname__}"
            " has none that is written in Python. To make instances is not compiled."
        )


def _not_callable(obj: object, name: str) -> str:
    what = f"{name}() takes something that can be called, not {obj!r} ({type(obj).__qualname__})"
    if hasattr(type(obj), "__get__"):
        return f"{what}: compile the function that it is made of, and make it of that."
    return f"{what}."


# The process's compiled functions


logs.follow_settings()


class _Compiled:
    """Every function and code object with a dispatcher, so that `reset` finds it."""

    def __init__(self) -> None:
        self.functions: Living[FunctionType] = Living()
        self.shared: Living[SharedDispatcher] = Living()
        self.ledger = Ledger()


_COMPILED = _Compiled()


def _note(function: object) -> None:
    if isinstance(function, FunctionType):
        _COMPILED.functions.add(function)


def dispatchers() -> Iterator[Dispatcher]:
    """Those of all functions and code objects that are compiled now."""
    found = map(follow.dispatcher_of, _COMPILED.functions)
    yield from (dispatcher for dispatcher in found if dispatcher is not None)
    yield from _COMPILED.shared


def reset() -> None:
    """Drop everything that was compiled; functions compile again when they are called."""
    for dispatcher in dispatchers():
        dispatcher.reset()
    release_memory()


def _heed(before: config.Options, now: config.Options) -> None:
    if before.runs_originals is not now.runs_originals:
        for dispatcher in dispatchers():
            dispatcher.heed(now)


config.follow(_heed)


def release_memory() -> None:
    """Free the memory of large results that is kept for the next ones."""
    pool = native.pool()
    if pool is not None:
        pool.empty()


# Backends


def list_backends() -> list[str]:
    """The names of all backends."""
    return REGISTRY.names()


def register_backend(backend: B, name: str | None = None) -> B:
    """Make a backend known by name (its own by default); can be used as a decorator.

    Raises:
        InvalidArgument: it is not callable, or the name is taken.
    """
    return REGISTRY.register(backend, name)


wake()  # what pickles have brought before this was loaded
