"""The settings: one frozen value, read from the environment once.

`config.recompile_limit` reads a setting; `with config.patch(recompile_limit=2):` changes it for a
while, and `config.set(recompile_limit=2)` for good, in every thread.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from types import MappingProxyType, ModuleType
from typing import ParamSpec, TypeVar

from jitpkg.dataclass import dataclass
from jitpkg.errors import InvalidArgument
from jitpkg.messages import near, warn


@dataclass(frozen=True, slots=True)
class Disturbance:
    """The setting `disturb`, read."""

    break_anywhere: bool = False
    break_before: int | None = None
    postpone: int = 0
    guess: int | None = None

    @property
    def breaks(self) -> bool:
        """Whether graphs are broken."""
        return self.break_anywhere or self.break_before is not None


@cache
def _disturbance(text: str) -> Disturbance:
    found = Disturbance()
    for part in filter(None, map(str.strip, text.split(","))):
        name, colon, number = part.partition(":")
        match name, colon, number.isdecimal():
            case "break", "", _:
                found = replace(found, break_anywhere=True)
            case "break", ":", True:
                found = replace(found, break_before=int(number))
            case "postpone", ":", True:
                found = replace(found, postpone=int(number))
            case "guess", ":", True:
                found = replace(found, guess=int(number))
            case _:
                raise InvalidArgument(
                    "The setting 'disturb' takes break, break:K, postpone:BITS and guess:BITS,"
                    f" not {part!r}."
                )
    return found


STANCES: Mapping[str, str] = MappingProxyType(
    {
        "default": "it is compiled",
        "force_eager": "the function runs as it was written, and so do all compiled ones",
        "eager_on_recompile": "the function runs as it was written; what is compiled is used",
        "fail_on_recompile": "it raises RecompileForbidden",
        "eager_then_compile": "the first call of a function runs as it was written; from the second"
        " on it is compiled, for sizes that vary where the two differ",
    }
)
"""With what a call does that would have to be compiled."""


@dataclass(frozen=True, slots=True)
class Options:
    """Every setting, with its default."""

    backend: str = "jitpkg"
    """What compiles the graphs of functions that are compiled without `backend=`."""

    disable: bool = False
    """Compile nothing: calls run the functions as they were written, compiled ones, too."""

    stance: str = "default"
    """What a call does that would have to be compiled, as `jitpkg.set_stance` says it."""

    strict: bool = False
    """Raise what fails inside jitpkg, where otherwise the original code runs, with a warning."""

    suppress_errors: bool = True
    """Run the original code, with a warning, where a backend or jitpkg fails; off, raise."""

    verbose: bool = False
    """Show the whole traceback of what failed in warnings."""

    verify_correctness: bool = False
    """Compare each new graph and entry with the original code, and raise where they differ."""

    replay_side_effects: bool = True
    """Off: a call that is one graph changes no Python object, which only exporting wants."""

    recompile_limit: int = 8
    """How many entries one region may have; beyond, calls that fit none run the original code."""

    never_worse: bool = True
    """Give functions that gain nothing their own code back, and bound what is compiled in vain."""

    assume_static_by_default: bool = True
    """Sizes and Python numbers are taken to be what they are, until they are seen to vary."""

    automatic_dynamic_shapes: bool = True
    """What differs from call to call is made to vary, so that an entry fits all of its values."""

    speculate: bool = True
    """Go on in the graph after a branch on a tensor's data of which one way only raises, as in an
    assertion, or which has gone the same way 16 times; else it ends the graph. The branch is looked
    at when the graph has run: where the guess was wrong, the original code runs."""

    pool_megabytes: int = 512
    """How much memory of large results is kept for the next ones, once nobody has it any more; 0
    keeps none. Read when kernels are compiled."""

    disturb: str = ""
    """Tests of the mechanism, which change no answer, separated by commas. `break` breaks graphs
    before every instruction where that is possible; `break:K` only at the k-th possible point of
    each trace, counted from 0. `postpone:BITS` postpones the k-th compilation of a function, but
    for the first at each hook, if bit k modulo 16 is set, as one that has not paid back.
    `guess:BITS` guesses the way of any branch on data: at the k-th of a trace, of the first 16, by
    bit k."""

    logs: str = ""
    """What to log, separated by commas: the topics below, or all."""

    include: str = ""
    """Modules that `jitpkg.auto` compiles, separated by commas; by default the program's own."""

    exclude: str = ""
    """Modules that `jitpkg.auto` leaves alone, separated by commas."""

    count_calls: bool = False
    """Let what is compiled from now on count its calls, for `jitpkg.stats`: 15 ns each."""

    def __post_init__(self) -> None:
        _disturbance(self.disturb)  # raises where that means nothing
        if self.stance not in STANCES:
            raise InvalidArgument(
                f"There is no stance {self.stance!r}. The stances are: {', '.join(STANCES)}."
                f"{near(self.stance, STANCES)}"
            )

    @property
    def disturbance(self) -> Disturbance:
        """What `disturb` says."""
        return _disturbance(self.disturb)

    @property
    def runs_originals(self) -> bool:
        """Whether compiled functions run as they were written."""
        return self.disable or self.stance == "force_eager"

    @property
    def raises(self) -> bool:
        """Whether what fails in a backend or in jitpkg is raised."""
        return self.strict or not self.suppress_errors


_PREFIX = "JITPKG_"
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


def from_environment(environment: Mapping[str, str]) -> Options:
    """Read `JITPKG_<NAME>` for each setting.

    A variable of ours that means nothing gives a warning: it was to mean something.

    Raises:
        InvalidArgument: a variable's value is not of its setting's type.
    """
    _say_unknown(environment)
    found: dict[str, object] = {}
    for field in fields(Options):
        text = environment.get(_PREFIX + field.name.upper())
        if text is not None and (text or not isinstance(field.default, str)):
            found[field.name] = _parsed(_PREFIX + field.name.upper(), text, field.default)
    return replace(Options(), **found)  # type: ignore[arg-type]


def variables() -> frozenset[str]:
    """All variables of the environment that are read."""
    return _OTHERS | {_PREFIX + field.name.upper() for field in fields(Options)}


_OTHERS = frozenset({"JITPKG_CACHE_DIR", "JITPKG_DEBUG"})
"""Those that are no settings: what they say is looked up elsewhere."""


def _say_unknown(environment: Mapping[str, str]) -> None:
    known = variables()
    unknown = sorted(
        name
        for name in environment
        if name.startswith(_PREFIX) and name not in known and not name.startswith(_OF_TESTS)
    )
    if unknown:
        said = (f"{name} in the environment is no setting.{near(name, known)}" for name in unknown)
        warn(" ".join(said))


_OF_TESTS = "JITPKG_TEST_"


def _parsed(variable: str, text: str, default: object) -> object:
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise InvalidArgument(f"{variable}={text!r} is not a switch; give 1 or 0.")
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{variable}={text!r} is not a whole number.") from None


def checked(options: Options, changes: Mapping[str, object]) -> Options:
    """`options` with `changes`.

    Raises:
        InvalidArgument: a name is no setting, or a value is of the wrong type.
    """
    known = {field.name: field for field in fields(Options)}
    for name, value in changes.items():
        if name not in known:
            raise InvalidArgument(f"No setting {name!r}. The settings are: {', '.join(known)}.")
        kind = type(known[name].default)
        if type(value) is not kind:
            raise InvalidArgument(
                f"The setting {name!r} takes {kind.__name__},"
                f" not {value!r} ({type(value).__name__})."
            )
    return replace(options, **changes)  # type: ignore[arg-type]


class _Current:
    """The settings in force: the one mutable thing here, shared by all threads."""

    def __init__(self) -> None:
        self.options = from_environment(os.environ)
        self.listeners: tuple[Listener, ...] = ()

    def change(self, options: Options) -> None:
        before, self.options = self.options, options
        for listener in self.listeners:
            listener(before, options)


Listener = Callable[[Options, Options], None]
"""Hears of a change: the settings before, and those in force now."""

_CURRENT = _Current()


def follow(listener: Listener) -> None:
    """Tell of each change from now on."""
    _CURRENT.listeners = (*_CURRENT.listeners, listener)


def current() -> Options:
    """The settings in force now."""
    return _CURRENT.options


def weighs(options: Options) -> bool:
    """Whether what functions gain is measured, and what they cost is bounded.

    Not where a program has asked for deterministic algorithms: the clock decides here, and the
    last bits of compiled code may be others.
    """
    torch = sys.modules.get("torch")
    return options.never_worse and not (torch and torch.are_deterministic_algorithms_enabled())


@contextmanager
def patch(**changes: object) -> Iterator[Options]:
    """Change settings inside a `with` block or a decorated function.

    Raises:
        InvalidArgument: a name is no setting, or a value is of the wrong type.
    """
    before = _CURRENT.options
    _CURRENT.change(checked(before, changes))
    try:
        yield _CURRENT.options
    finally:
        _CURRENT.change(before)


def set(**changes: object) -> None:  # noqa: A001 (`config.set` reads well)
    """Change settings for good, in every thread.

    Raises:
        InvalidArgument: a name is no setting, or a value is of the wrong type.
    """
    _CURRENT.change(checked(_CURRENT.options, changes))


P = ParamSpec("P")
R = TypeVar("R")


class set_stance:  # noqa: N801 (a function, a context manager and a decorator, as torch's)
    """Say what calls do that would have to be compiled, in every thread.

    `set_stance("fail_on_recompile")` holds until the next one. As a context manager it holds in the
    `with` block, as a decorator while the function runs.

    Args:
        stance: as `torch.compiler.set_stance` has it.

            - `"default"`: they are compiled.
            - `"force_eager"`: all compiled functions run as they were written.
            - `"eager_on_recompile"`: the function runs as it was written. What is compiled already
              is used where it fits.
            - `"fail_on_recompile"`: they raise `jitpkg.errors.RecompileForbidden`.
            - `"eager_then_compile"`: the first call of a function runs as it was written. The
              second is compiled, with sizes that vary where it differs from the first.

    Raises:
        InvalidArgument: there is no such stance.
    """

    def __init__(self, stance: str = "default") -> None:
        self._stance = stance
        self._before = current().stance
        set(stance=stance)

    def __enter__(self) -> None:
        """It holds since this was made."""

    def __exit__(self, *error: object) -> None:
        set(stance=self._before)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, which takes this stance while it runs."""
        set(stance=self._before)
        stance = self._stance

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with set_stance(stance):
                return function(*args, **kwargs)

        return run

    def __repr__(self) -> str:
        return f"set_stance({self._stance!r})"


# What `_Config` reads; never assigned, so that each access asks for the settings in force.
backend: str
disable: bool
stance: str
strict: bool
suppress_errors: bool
verbose: bool
verify_correctness: bool
replay_side_effects: bool
recompile_limit: int
never_worse: bool
assume_static_by_default: bool
automatic_dynamic_shapes: bool
speculate: bool
pool_megabytes: int
disturb: str
logs: str
include: str
exclude: str
count_calls: bool


class _Config(ModuleType):
    """This module, with the settings as attributes that cannot be assigned by mistake."""

    def __getattr__(self, name: str) -> object:
        if name in Options.__slots__:
            return getattr(current(), name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name in Options.__slots__:
            raise AttributeError(
                f"Settings are frozen: use `jitpkg.config.set({name}={value!r})` or "
                f"`with jitpkg.config.patch({name}={value!r}):`, "
                f"or set {_PREFIX}{name.upper()} before Python starts."
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Config
