"""Original code with hooks, entered anywhere.

`hooked` gives a code object that asks a region at each hook; `resume` gives the same code,
entered at an instruction with the whole frame as arguments. Everything that is emitted lies
behind the original instructions; in their midst there is one jump for each hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType

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
        first = self.points.first()
        if [(h, hook.exits) for h, hook in self.hooks.items()] != [(first, (first,))]:
            return Emission(self.points, self.hooks, entry=None).code()
        return self._first(*self.hooks.values())

    def _first(self, hook: Hook) -> CodeType:
        """What each dispatcher of the code begins with: only the door is its own."""
        made = self.points.first_version
        if made is None:
            emitted = Emission(self.points, self.hooks, entry=None).code()
            at = next(k for k, const in enumerate(emitted.co_consts) if const is hook.door)
            self.points.first_version = emitted.replace(), at
            return emitted
        emitted, at = made
        consts = emitted.co_consts
        return emitted.replace(co_consts=(*consts[:at], hook.door, *consts[at + 1 :]))

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
