"""How what `jitpkg.compile` returns is copied and pickled.

A pickle names this module, which is small. In a process that has not loaded the compiler a model
runs as it is until its calls have taken as long as that would: most workers that get one live on,
and those that do not, lose nothing.
"""

from __future__ import annotations

import copy
import sys
import time
import types
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import jitpkg
from jitpkg import config
from jitpkg.dataclass import dataclass
from jitpkg.errors import JitpkgError
from jitpkg.living import Living
from jitpkg.marks import disable

C = TypeVar("C", bound=Callable[..., Any])

LOADING = 0.3
"""Seconds that loading the compiler takes, and compiling what is kept on disk."""

_ASKED = ("fullgraph", "backend", "mode", "options")
"""Who gives one of these wants the first call to be compiled."""


@dataclass(frozen=True, slots=True)
class Again:
    """Compiles another object in the same way; it pickles where the arguments do."""

    arguments: Mapping[str, Any]
    """Of `jitpkg.compile`."""

    def __call__(self, obj: C) -> C:
        if _is_loaded() or not self._may_wait(obj):
            return self.compiled(obj)
        view: C = Waiting(obj, self).view()
        return view

    def compiled(self, obj: C) -> C:
        compiled: C = jitpkg.compile(obj, **self.arguments)
        return compiled

    def _may_wait(self, obj: object) -> bool:
        module = getattr(sys.modules.get("torch.nn"), "Module", None)
        if module is None or not isinstance(obj, module):
            return False
        return config.weighs(config.current()) and not any(map(self.arguments.get, _ASKED))


def _is_loaded() -> bool:
    return "jitpkg.api" in sys.modules


class Waiting:
    """A view of a module that runs as it is at first; one day its class is that of a compiled view,
    which shares everything with the original, too."""

    def __init__(self, original: Any, again: Again) -> None:
        self.original = original
        self.again = again
        self.taken = 0.0

    def view(self) -> Any:
        made = viewed(self.original, derived(self.original, disable(self._call()), self.again))
        self._made = weakref.ref(made)
        WAITING.add(self)
        return made

    def _call(self) -> Callable[..., Any]:
        base, original = type(self.original), self.original

        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if self.taken >= LOADING or _is_loaded() or type(original) is not base:
                self.wake()
                return module(*args, **kwargs)
            began = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.taken += time.perf_counter() - began

        return __call__

    def wake(self) -> None:
        """Let the view be a compiled one."""
        made = self._made()
        if made is not None:
            made.__class__ = type(self.again.compiled(self.original))


WAITING: Living[Waiting] = Living()
"""All that wait; their views hold them."""


def wake() -> None:
    """Once the compiler is there, nobody waits for it."""
    for each in tuple(WAITING):
        with suppress(JitpkgError):  # the next call raises it
            each.wake()


def viewed(original: Any, cls: type) -> Any:
    """An instance of a class that `derived` made, with the original's attributes."""
    made: Any = object.__new__(cls)
    object.__setattr__(made, "__dict__", original.__dict__)
    return made


def derived(original: Any, call: Callable[..., Any], again: Callable[[Any], Any]) -> type:
    """A class of views of a module, derived from the module's own.

    Args:
        call: the views' `__call__`.
        again: makes such a view of another module, for copies and pickles.
    """
    base = type(original)
    call.__qualname__ = f"{base.__qualname__}.__call__"
    call.__dict__["__wrapped__"] = base.__call__
    namespace = {
        "__call__": call,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__reduce_ex__": lambda module, protocol: (again, (original,)),
        "__deepcopy__": lambda module, memo: again(copy.deepcopy(original, memo)),
        "__copy__": lambda module: again(copy.copy(original)),
        "__slots__": (),
    }
    return types.new_class(base.__name__, (base,), exec_body=lambda ns: ns.update(namespace))
