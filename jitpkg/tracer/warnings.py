"""Ops that warn: the graph calls them as from their place in the program.

A warning is shown with the file and line that called what warns, and once for each, which is noted
among the globals of that file. So the op is called from functions with the same files, lines, names
and globals as the frames of the program that are being traced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from jitpkg.code.names import codes_inside
from jitpkg.errors import Location
from jitpkg.guards.kinds import Answers
from jitpkg.guards.messages import warns_in_graph
from jitpkg.guards.sources import Held
from jitpkg.marks import IN_ITS_PLACE, WARNS
from jitpkg.tracer import reasons, replayed
from jitpkg.tracer.effects import CallMethod
from jitpkg.tracer.vm import VM


def in_its_place(vm: VM, target: Callable[..., Any] | str, name: str) -> Callable[..., Any]:
    """A function that does what the op does, called from the frames that are being traced.

    A break where the order could be told apart: behind messages that are replayed, which come
    after the graph, and where code of the program's own would see the warning.
    """
    if any(isinstance(e, CallMethod) and e.method in replayed.MESSAGES for e in vm.effects):
        vm.stop(reasons.FOREIGN_CALL, f"{name}, which warns, behind another message")
    shown: Any = vars(warnings)["_showwarnmsg_impl"]
    recorded = getattr(shown, "__self__", None)
    if not warns_in_graph(None) or id(recorded) in vm.seen:
        vm.stop(reasons.FOREIGN_CALL, f"{name}, which warns where the program looks at warnings")
    if vm.catching and not vm.catching[-1]:
        vm.stop(reasons.FOREIGN_CALL, f"{name}, which warns in a block of catch_warnings()")
    frames = [frame for frame in vm.frames if not frame.trusted]
    if not all(frame.namespace for frame in frames):  # the hook hands over no globals: none is read
        vm.stop(reasons.FOREIGN_CALL, f"{name}, which warns in a function without globals")
    vm.guard(Answers(Held(None), warns_in_graph, (), True, "what happens to a warning"))
    function: Any = target
    text = _METHOD if isinstance(target, str) else _FUNCTION
    for frame in reversed(frames):
        place = frame.location(frame.program.ops[frame.at - 1])
        function = _called_from(text, function, place, frame.namespace)
        text = _FUNCTION
    if vm.catching:
        function = _ignoring(function)
    function.__name__, function.__module__ = name, __name__
    setattr(function, WARNS, True)
    return function  # type: ignore[no-any-return]


def _ignoring(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return called


_FUNCTION = "lambda *args, **kwargs: what(*args, **kwargs)"
_METHOD = "lambda tensor, *args, **kwargs: getattr(tensor, what)(*args, **kwargs)"


def _called_from(text: str, what: object, place: Location, namespace: dict[str, Any]) -> Any:
    lines = "\n" * ((place.line or 1) - 1)
    (around,) = codes_inside(compile(f"{lines}def around(what): return {text}", place.file, "exec"))
    (code,) = codes_inside(around)
    named = code.replace(
        co_name=place.function, co_qualname=place.function, co_freevars=(IN_ITS_PLACE,)
    )
    return FunctionType(named, namespace, place.function, None, (CellType(what),))
