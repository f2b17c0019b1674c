"""`import jitpkg.auto`: the functions of modules that are imported later are compiled.

Each function that is called for the second time with a tensor in sight is compiled as
`jitpkg.jit` would compile it; one that sees none gets its own code back. Which modules:
`JITPKG_INCLUDE` and `JITPKG_EXCLUDE`, or `install()`.
"""

from __future__ import annotations

import atexit
import copy
import importlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

from jitpkg import config, events, logs, report
from jitpkg.dataclass import dataclass
from jitpkg.interrupts import from_outside, uninterrupted
from jitpkg.living import Living
from jitpkg.messages import warn
from jitpkg.rewriter.hooked import Compiled, Hooks, Stub, inside

_MAIN = "__main__"
_NEVER = frozenset({"jitpkg"})

_LIBRARIES = ("site-packages", "dist-packages")
_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which modules are compiled, by patterns as `fnmatch` has them, and how.

    A pattern also stands for the submodules of what it names.
    """

    include: tuple[str, ...] = ()
    """Only these; without any, all that is neither the standard library nor installed."""
    exclude: tuple[str, ...] = ()
    backend: Any = None
    dynamic: bool | None = None
    at_once: bool = False
    """Whether functions are compiled when they are first called with a tensor in sight."""

    def may(self, name: str) -> bool:
        """Whether a module of this name may be compiled, wherever it comes from."""
        if name.partition(".")[0] in _NEVER or _matches(name, self.exclude):
            return False
        return not self.include or _matches(name, self.include)

    def selects(self, name: str, file: str | None) -> bool:
        """Whether a module that comes from this file is compiled."""
        return self.may(name) and (bool(self.include) or (file is not None and is_own(file)))

    def why_not(self, name: str) -> str:
        """Why a module of this name is not selected."""
        if _matches(name, self.exclude):
            return "it is excluded"
        return "it is not included" if self.include else "it is installed"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(
        fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*") for pattern in patterns
    )


def is_own(file: str) -> bool:
    """Whether a file is the application's own: not of Python, and not installed."""
    parts = file.replace("\\", "/").split("/")
    if any(library in parts for library in _LIBRARIES) or file.startswith("<"):
        return False
    return not any(file.startswith(folder) for folder in _PYTHON)


# Compiling


def hooks_for(selection: Selection, name: str = _MAIN) -> Hooks:
    """What makes the stubs of one module."""
    hooks = Hooks(
        lambda stub, functions: _start(selection, stub, functions),
        _postponed,
        name=name,
        at_once=selection.at_once,
    )
    _INSTALLED.hooks.add(hooks)
    return hooks


def _start(selection: Selection, stub: Stub, functions: Sequence[FunctionType]) -> Compiled | None:
    """Compile; the compiler is loaded here, where a tensor has been seen: it loads torch."""

    def started() -> Compiled | None:
        api = importlib.import_module("jitpkg.api")
        settings = api.Settings(backend=selection.backend, dynamic=selection.dynamic)
        found: Compiled | None = api.start(stub, functions, settings)
        return found

    try:
        return uninterrupted(started)
    except Exception as error:
        if config.current().strict or from_outside(error):
            raise
        warn(
            f"jitpkg could not compile {stub.code.co_qualname} and runs the original code"
            f" ({type(error).__name__}: {error})."
        )
        return None


def _postponed() -> tuple[float, str]:
    """The time before which no function is compiled, and why."""
    api: Any = sys.modules.get("jitpkg.api")
    found: tuple[float, str] = (0.0, "") if api is None else api.postponed()
    return found


# Importing


class Finder(MetaPathFinder):
    """Stands before all other finders, and hooks the loaders that they find."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self._told: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self.selection.may(fullname):
            self._leave(fullname)
            return None
        self._step_to_the_front()
        for finder in list(sys.meta_path):
            if finder is self:
                continue
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(fullname, path, target)
            if isinstance(spec, ModuleSpec):
                file = _file_of(spec)
                if self.selection.selects(fullname, file):
                    hook(spec, self.selection)
                elif file is not None:
                    self._leave(fullname)
                return spec
        return None

    def _leave(self, fullname: str) -> None:
        """Say once for each package that it is not compiled, and why; Python's own is no news."""
        package = fullname.partition(".")[0]
        if package in self._told or package in sys.stdlib_module_names or package in _NEVER:
            return
        self._told.add(package)
        events.STREAM.emit(events.ModuleSeen(package, 0, self.selection.why_not(fullname)))

    def _step_to_the_front(self) -> None:
        """Who came later, as pytest's finder does, may have put itself before this one."""
        if self in sys.meta_path and sys.meta_path[0] is not self:
            sys.meta_path.remove(self)
            sys.meta_path.insert(0, self)

    def invalidate_caches(self) -> None:
        """There are none."""


def _file_of(spec: ModuleSpec) -> str | None:
    return spec.origin if spec.has_location else None


def hook(spec: ModuleSpec, selection: Selection) -> None:
    """Let the module that a spec stands for be loaded with stubs.

    Caches of bytecode are filled and read behind this, and never see a stub.
    """
    loader: Any = spec.loader
    execute = getattr(type(loader), "exec_module", None)
    if loader is None or not hasattr(loader, "__dict__") or not isinstance(execute, FunctionType):
        return  # a namespace, or nothing that is written in Python
    hooks = hooks_for(selection, spec.name)
    loader = copy.copy(loader)  # a loader may be there for several modules
    if execute is SourceFileLoader.exec_module:
        loader.get_code = _GetCode(loader.get_code, spec.name, hooks)
    elif (_file_of(spec) or "").endswith(".py"):
        loader.exec_module = _ExecModule(loader.exec_module, hooks)
    spec.loader = loader


@dataclass(frozen=True, eq=False, slots=True)
class _GetCode:
    """A loader's `get_code`; what it makes belongs to the module by way of its loader."""

    original: Callable[[str], CodeType | None]
    name: str
    hooks: Hooks

    def __call__(self, fullname: str) -> CodeType | None:
        code = self.original(fullname)
        if code is None or fullname != self.name:
            return code
        code = self.hooks.module(code)
        tell(self.hooks)
        return code


@dataclass(frozen=True, eq=False, slots=True)
class _ExecModule:
    """The `exec_module` of a loader that makes and runs the code by itself, as pytest's does.

    What the module holds when it has run gets stubs then.
    """

    original: Callable[[ModuleType], None]
    hooks: Hooks

    def __call__(self, module: ModuleType) -> None:
        self.original(module)
        if type(module) is ModuleType:  # and not one that is executed later
            self.hooks.functions(_functions_of(module))
            tell(self.hooks)


def tell(hooks: Hooks) -> None:
    """Say how many functions of a module have a stub."""
    events.STREAM.emit(events.ModuleSeen(hooks.name, len(hooks.stubs)))


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions that a module's own code has left in it."""
    file = module.__dict__.get("__file__")
    todo = list(module.__dict__.values())
    seen: set[int] = set()
    while todo:
        obj = todo.pop()
        if id(obj) in seen:
            continue
        seen.add(id(obj))
        if issubclass(type(obj), type):
            if obj.__dict__.get("__module__") == module.__name__:
                todo.extend(obj.__dict__.values())
            continue
        yield from (f for f in inside(obj, 4) if f.__code__.co_filename == file)


# The process's hook


def _is_worker() -> bool:
    """Whether this process was started by `multiprocessing`."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


class Ending:
    """What is said when the program ends; a process that was forked says nothing."""

    def __init__(self) -> None:
        self.report: report.Tells | None = None
        self.is_run = False
        """Whether this is `python -m jitpkg run`."""
        self._process = os.getpid()
        atexit.register(self)

    def __call__(self) -> None:
        """Say it, once."""
        if os.getpid() != self._process or _is_worker():
            return
        self._process = 0
        waiting = report.waiting(_INSTALLED.hooks)
        suggestion = self._suggestion()
        for function, why in waiting:
            events.STREAM.emit(events.Waits(function, why))
        if suggestion is not None:
            events.STREAM.emit(events.Suggested(suggestion))
        text: str | None = None
        if self.report is not None:
            text = self.report.text(waiting, suggestion, is_own)
        elif "jitpkg.api" not in sys.modules and not events.STREAM.heard:
            text = report.nothing(waiting, suggestion)
        if text is not None and sys.stderr is not None:
            with suppress(OSError, ValueError):  # it is closed
                sys.stderr.write(f"{text}\n")

    def _suggestion(self) -> str | None:
        finder = _INSTALLED.finder
        if finder is None:
            return None
        own = [hooks.name for hooks in _INSTALLED.hooks if hooks.stubs]
        called = report.models(finder.selection.selects)
        return report.suggestion(called, own, by_variable=not self.is_run)


class _Installed:
    """The finder that stands in `sys.meta_path`: the one mutable thing here."""

    def __init__(self) -> None:
        self.finder: Finder | None = None
        self.hooks: Living[Hooks] = Living()
        self.ending: Ending | None = None


_INSTALLED = _Installed()


def install(
    *,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    backend: Any = None,
    dynamic: bool | None = None,
    at_once: bool = False,
) -> Selection:
    """Compile the functions of modules that are imported from now on.

    Called again, it changes what is compiled from then on.

    Args:
        include: patterns of module names; without any, the application's own modules.
            By default what the environment says.
        exclude: patterns of names of modules that are not compiled.
        backend: as that of `jitpkg.jit`.
        dynamic: as that of `jitpkg.jit`.
        at_once: compile functions when they are first called with a tensor in sight, and not at
            a later call: for tests, which call most of them once.
    """
    options = config.current()
    selection = Selection(
        _patterns(options.include if include is None else include),
        _patterns(options.exclude if exclude is None else exclude),
        backend,
        dynamic,
        at_once,
    )
    uninstall()
    logs.follow_settings()
    if _INSTALLED.ending is None:
        _INSTALLED.ending = Ending()
    _INSTALLED.finder = Finder(selection)
    sys.meta_path.insert(0, _INSTALLED.finder)
    return selection


def ending() -> Ending:
    """What says at the end what was done."""
    assert _INSTALLED.ending is not None
    return _INSTALLED.ending


def uninstall() -> None:
    """Leave alone the modules that are imported from now on."""
    finder, _INSTALLED.finder = _INSTALLED.finder, None
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


def _patterns(patterns: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(patterns, str):
        patterns = patterns.split(",")
    return tuple(pattern.strip() for pattern in patterns if pattern.strip())


install()
