"""Rows: names of PyTorch's that are not public, each looked up when it is first used."""

from __future__ import annotations

import logging
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

from jitpkg import events
from jitpkg.dataclass import dataclass
from jitpkg.internals import versions
from jitpkg.interrupts import from_outside

T = TypeVar("T")


class Missing(Exception):
    """PyTorch has a private name no more, or not yet, or it does not behave as it did.

    Attributes:
        row: its row.
    """

    def __init__(self, row: Row[Any], why: str) -> None:
        super().__init__(f"{row.name} {why}")
        self.row = row


@dataclass(frozen=True, slots=True)
class Looked:
    """What became of looking a name up."""

    value: Any
    why: str | None
    """Why it cannot be used; None where it can."""
    instead: bool = False
    """Whether the value is another way to do the same."""


@dataclass(eq=False)
class Row(Generic[T]):
    """One private name."""

    name: str
    """Its path, from `torch` on."""
    use: str
    """What jitpkg asks it for, or does with it."""
    lost: str
    """What happens where it is missing, as a clause."""
    since: str | None = None
    """The first version that has it; None for all that jitpkg knows."""
    until: str | None = None
    """The last version that has it; None for all that jitpkg knows."""
    only_if: Callable[[], bool] | None = None
    """Whether this build of PyTorch should have it, where not each does."""
    works: Callable[[T], bool] | None = None
    """Tries what was found; where this is not True, or raises, the name counts as missing."""
    instead: Callable[[], T] | None = None
    """Gives another way to do the same by public names, where there is one."""
    _looked: Looked | None = field(default=None, init=False, repr=False)
    _is_removed: bool = field(default=False, init=False, repr=False)

    def get(self) -> T:
        """What the name stands for, or what does the same.

        Raises:
            Missing: there is neither.
        """
        looked = self._looked or self.look()
        if looked.why is not None and not looked.instead:
            raise Missing(self, looked.why)
        value: T = looked.value
        return value

    def found(self) -> T | None:
        """What the name itself stands for; None where it is missing."""
        looked = self._looked or self.look()
        return looked.value if looked.why is None else None

    def look(self) -> Looked:
        """Look the name up, if that is not done yet; never raises."""
        if self._looked is None:
            self._looked = looked = self._tried()
            if looked.why is not None:
                self._say(looked)
        return self._looked

    def _say(self, looked: Looked) -> None:
        assert looked.why is not None
        events.STREAM.emit(events.NameMissing(self.name, self.use, self.lost, looked.why))
        if not looked.instead and self.is_expected:
            _SAID.lack(self, looked.why)

    @contextmanager
    def removed(self) -> Iterator[None]:
        """As if PyTorch did not have the name, for whoever looks it up in here: for tests."""
        before, self._looked, self._is_removed = self._looked, None, True
        try:
            with telling(missing=True, untested=not _SAID.untested):
                yield
        finally:
            self._looked, self._is_removed = before, False

    @property
    def is_used(self) -> bool:
        """Whether it has been looked up."""
        return self._looked is not None

    @property
    def is_expected(self) -> bool:
        """Whether this version and build of PyTorch should have it."""
        return versions.has(self.since, self.until) and (self.only_if is None or self.only_if())

    def _tried(self) -> Looked:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = self._find()
                if self._is_removed:
                    raise AttributeError(f"no attribute {self.name.rpartition('.')[2]!r}")
        except Exception as error:
            if from_outside(error):
                raise
            return self._without(f"is missing ({type(error).__name__}: {error})")
        try:
            behaves = self.works is None or _in_usual_state(self.works, value)
        except Exception as error:
            if from_outside(error):
                raise
            return self._without(f"does not behave as it did ({type(error).__name__}: {error})")
        return Looked(value, None) if behaves else self._without("does not behave as it did")

    def _without(self, why: str) -> Looked:
        if self.instead is not None:
            try:
                return Looked(self.instead(), why, instead=True)
            except Exception as error:
                if from_outside(error):
                    raise
                why = f"{why}, nor is there another way ({type(error).__name__}: {error})"
        return Looked(None, why)

    def _find(self) -> Any:
        return pkgutil.resolve_name(self.name)


@dataclass(eq=False)
class Attribute(Row[Callable[[Any], T]]):
    """A private attribute of objects: gives a function of such an object."""

    of: Callable[[], object] | None = None
    """Makes an object that has it, where its class does not show it."""

    def _find(self) -> Callable[[Any], T]:
        owner, _, name = self.name.rpartition(".")
        getter: Callable[[Any], T] = attrgetter(name)
        getter(pkgutil.resolve_name(owner) if self.of is None else self.of())
        return getter


@dataclass(eq=False)
class Variable(Row[Callable[[], T]]):
    """A private variable of a module: gives a function that reads it."""

    def _find(self) -> Callable[[], T]:
        owner, _, name = self.name.rpartition(".")
        reader: Callable[[], T] = partial(getattr, pkgutil.resolve_name(owner), name)
        reader()
        return reader


@dataclass(eq=False)
class Variables(Row[Mapping[str, Any]]):
    """A private variable of a module: gives all variables of the module, to look it up again."""

    def _find(self) -> Mapping[str, Any]:
        owner, _, name = self.name.rpartition(".")
        variables: Mapping[str, Any] = vars(pkgutil.resolve_name(owner))
        if name not in variables:
            raise AttributeError(f"no variable {name!r}")
        return variables


@dataclass(eq=False)
class Setting(Row[Callable[[T], None]]):
    """A private variable of a module that is set: gives a function that does."""

    def _find(self) -> Callable[[T], None]:
        owner, _, name = self.name.rpartition(".")
        module = pkgutil.resolve_name(owner)
        getattr(module, name)
        return partial(setattr, module, name)


def _in_usual_state(works: Callable[[Any], bool], value: Any) -> bool:
    from jitpkg.internals.usual import usual_state  # it imports torch

    with usual_state():
        return works(value)


class _Said:
    """What the user has been told, each thing once: by a log record, which nobody who asks torch
    for something silences, as warnings are."""

    def __init__(self) -> None:
        self.missing = False
        self.untested = False

    def version(self) -> None:
        """That nobody has tested this version, where it is so."""
        remark = None if self.untested else versions.remark()
        self.untested = True
        if remark is not None:
            _LOG.warning(f"{remark}. `python -m jitpkg doctor` says whether anything is missing.")

    def lack(self, row: Row[Any], why: str) -> None:
        """That a name is missing, where it is the first."""
        if self.missing:
            return
        remark = None if self.untested else versions.remark()
        self.missing = self.untested = True
        before = f"{remark}. There " if remark else f"In PyTorch {versions.running()} "
        _LOG.warning(
            f"{before}{row.name} {why}: {row.lost}. `python -m jitpkg doctor` lists what else is"
            " missing."
        )


_LOG = logging.getLogger("jitpkg.internals")
_SAID = _Said()


def say_if_untested() -> None:
    """Tell the user, once, that jitpkg was not tested with this version of PyTorch."""
    if not _SAID.untested:
        _SAID.version()


@contextmanager
def telling(*, missing: bool, untested: bool) -> Iterator[None]:
    """Tell the user that a name is missing, or a version untested, as if nobody had yet; or not."""
    before = vars(_SAID).copy()
    _SAID.missing, _SAID.untested = not missing, not untested
    try:
        yield
    finally:
        vars(_SAID).update(before)
