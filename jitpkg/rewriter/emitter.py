"""Original code with hooks, entered anywhere.

`hooked` gives a code object that asks a region at each hook; `resume` gives the same code,
entered at an instruction with the whole frame as arguments. Everything that is emitted lies
behind the original instructions; in their midst there is one jump for each hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType
from typing import NamedTuple

from jitpkg.dataclass import dataclass
from jitpkg.rewriter.door import Door
from jitpkg.rewriter.emission import Emission, Entrance, Hook
from jitpkg.rewriter.points import Points

__all__ = ["Emitter", "Hook"]


class Emitter:
    """Emits the code objects of one version: one set of hooks, with the exits that each knows.

    Raises:
        ValueError: a point cannot be a hook, or a hook cannot be left by one of its exits.
    """

    def __init__(self, points: Points, hooks: Mapping[int, Hook]) -> None:
        self.points = points
        self.hooks = dict(hooks)
        for h, hook in self.hooks.items():
            refusal = points.refusal(h)
            for p in hook.exits:
                refusal = refusal or points.exit_refusal(h, p)
            if refusal is not None:
                raise ValueError(f"{points.code.co_qualname}, a hook at {h}: {refusal}")

    def hooked(self) -> CodeType:
        """The original code, with its hooks.

        Raises:
            Unverified: the result would not be safe to run.
        """
        first = self.points.first
        if [(h, hook.exits) for h, hook in self.hooks.items()] != [(first, (first,))]:
            return Emission(self.points, self.hooks, entry=None).code()
        return self._first(*self.hooks.values())

    def _first(self, hook: Hook) -> CodeType:
        """What each dispatcher of code like this begins with: only constants and names are its own,
        and the door."""
        version = self.points.once("first version", lambda: self._first_version(hook.door))
        return version.for_code(self.points.code, hook.door)

    def _first_version(self, door: Door) -> _Version:
        made = _FIRST.of(self.points.code)
        if made is None:
            emitted = Emission(self.points, self.hooks, entry=None).code()
            made = _FIRST.add(self.points.code, emitted, door)
        return made

    def resume(self, p: int, base: int, *, called: bool = False) -> CodeType:
        """The same, entered at point `p` by a frame that kept `base` stack values.

        It takes every slot before the free variables (a cell as a cell, UNBOUND for what is
        unbound), the kept stack values, and the tuple of values that an exit to `p` restores.
        Where it is `called` by an instruction of another frame, it ignores all arguments, and its
        state comes in cells behind the closure's own: each of the function's own cells, then a
        tuple of the locals that the exit does not restore and, last, the exit's tuple. It takes
        the state out of them, so that objects die where they did before.

        Raises:
            Unverified: the result would not be safe to run.
        """
        return Emission(self.points, self.hooks, Entrance(p, base, called)).code()


class _Shape(NamedTuple):
    """All of a code object that a hook at its beginning depends on. Lines are relative."""

    code: bytes
    lines: bytes
    handlers: bytes
    slots: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    constants: tuple[tuple[type, object], ...]
    """Of each the type; and the value, where what is emitted may use it as well."""

    @classmethod
    def of(cls, code: CodeType) -> _Shape:
        return cls(
            code.co_code,
            code.co_linetable,
            code.co_exceptiontable,
            (code.co_varnames, code.co_cellvars, code.co_freevars),
            code.co_names,
            (
                code.co_argcount,
                code.co_posonlyargcount,
                code.co_kwonlyargcount,
                code.co_flags,
                code.co_stacksize,
            ),
            tuple((type(c), c if type(c) is int else None) for c in code.co_consts),
        )


@dataclass(frozen=True, slots=True)
class _Version:
    """What was emitted for one code object, and is right for all of its shape."""

    emitted: CodeType
    """Without the constants of the original."""
    added: tuple[object, ...]
    """The constants behind those; one of them is the door."""
    door: int

    def for_code(self, code: CodeType, door: Door) -> CodeType:
        added = (*self.added[: self.door], door, *self.added[self.door + 1 :])
        return self.emitted.replace(
            co_consts=(*code.co_consts, *added),
            co_filename=code.co_filename,
            co_firstlineno=code.co_firstlineno,
            co_name=code.co_name,
            co_qualname=code.co_qualname,
        )


class _Versions:
    """With a hook at the beginning: what was emitted, by the shape of the code.

    Other code objects have the same, such as those of a notebook's cell that is run again.
    """

    MOST = 1024

    def __init__(self) -> None:
        self._made: dict[_Shape, _Version] = {}

    def of(self, code: CodeType) -> _Version | None:
        return self._made.get(_Shape.of(code))

    def add(self, code: CodeType, emitted: CodeType, door: Door) -> _Version:
        if len(self._made) >= self.MOST:
            self._made = {}
        own = len(code.co_consts)
        added = emitted.co_consts[own:]
        at = next(k for k, const in enumerate(added) if const is door)
        kept = (*added[:at], None, *added[at + 1 :])
        bare = emitted.replace(co_consts=(*[None] * own, *kept))
        made = self._made[_Shape.of(code)] = _Version(bare, kept, at)
        return made


_FIRST = _Versions()
