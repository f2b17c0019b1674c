"""Torch's state that a graph can change: grad mode, inference mode, autocast, which kernels are for
attention; and its modes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch

from jitpkg.internals import Row, modes, settings

DEVICE_TYPES = ("cpu", "cuda")


_OF_AUTOCAST: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.set_autocast_enabled,
        torch.set_autocast_dtype,
        torch.set_autocast_cache_enabled,
        torch.autocast_increment_nesting,
        torch.autocast_decrement_nesting,
        torch.clear_autocast_cache,
    }
)


@cache
def setters() -> frozenset[Callable[..., Any]]:
    """Functions that change this state: a graph may call them, and change it for good."""
    grad_mode = modes.SET_GRAD_ENABLED.found()
    return frozenset({*_OF_AUTOCAST, *mode_switches(), *filter(None, [grad_mode])})


def changes_autocast(function: object) -> bool:
    """Whether a function of a graph changes what ops are given under autocast."""
    return function in _OF_AUTOCAST


@cache
def mode_switches() -> frozenset[Callable[..., Any]]:
    """Functions of a graph that enter or leave inference mode, or choose kernels for attention."""
    return frozenset({enter_inference_mode, leave_inference_mode, *attention_switches()})


@cache
def attention_switches() -> frozenset[Callable[..., Any]]:
    """Those that choose kernels for attention."""
    found = (setter.found() for setter in settings.ATTENTION_SETTERS.values())
    return frozenset(filter(None, found))


class _InferenceModes(threading.local):
    """What graphs of this thread have entered, and nobody has left."""

    def __init__(self) -> None:
        self.entered: list[tuple[bool, torch.inference_mode]] = []


_INFERENCE_MODES = _InferenceModes()


def enter_inference_mode(mode: bool) -> None:
    """What `with torch.inference_mode(mode)` does first."""
    context = torch.inference_mode(mode)
    context.__enter__()
    _INFERENCE_MODES.entered.append((mode, context))


def leave_inference_mode() -> None:
    """What it does in the end."""
    _, context = _INFERENCE_MODES.entered.pop()
    context.__exit__(None, None, None)


def snapshot(*, nested: bool = True) -> Callable[[], None]:
    """A function that puts the state back as it is now.

    Args:
        nested: what contexts have set, too: that may differ wherever the rest is the same.
    """
    grad = torch.is_grad_enabled()
    cache = torch.is_autocast_cache_enabled()
    autocast = [
        (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        for kind in DEVICE_TYPES
    ]
    entered = contexts() if nested else None
    set_grad_enabled = modes.SET_GRAD_ENABLED.get()

    def restore() -> None:
        if entered is not None:
            put_back(entered)  # before the rest: to leave inference mode sets grad mode, too
        set_grad_enabled(grad)
        for kind, enabled, dtype in autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(cache)

    return restore


class Contexts(NamedTuple):
    """What contexts that a graph can enter have set, where no guard of all graphs tells."""

    autocast: int
    """How many of autocast are entered: that decides when casts are forgotten."""
    inference: tuple[bool, ...]
    """The modes, of those of inference mode that graphs have entered."""
    attention: tuple[bool | None, ...] | None
    """Which kernels it may choose; None where that was not asked."""


def contexts_but_of_attention() -> Contexts:
    """What they have set now, as graphs ask at each call that choose no kernels for attention."""
    entered = _INFERENCE_MODES.entered
    inference = tuple([mode for mode, _ in entered]) if entered else ()
    return Contexts(autocast_nesting(), inference, None)


def contexts() -> Contexts:
    """What they have set now."""
    return contexts_but_of_attention()._replace(attention=settings.chosen_for_attention())


def put_back(before: Contexts) -> None:
    """Let it be as it was."""
    entered = _INFERENCE_MODES.entered
    while len(entered) > len(before.inference):
        leave_inference_mode()
    for mode in before.inference[len(entered) :]:
        enter_inference_mode(mode)
    if before.attention is not None:
        settings.choose_for_attention(before.attention)
    nest_autocast(before.autocast)


_OF_DEFAULT_DEVICE = (
    modes.FUNCTION_MODE_AT,
    modes.ENTER_FUNCTION_MODE,
    modes.LEAVE_FUNCTION_MODE,
    modes.DEVICE_CONTEXT,
    modes.MADE_ON_DEFAULT_DEVICE,
)
"""What has to be there where something is compiled under a default device."""


class _Aside(threading.local):
    """The torch-function modes that this thread has left while it compiles."""

    def __init__(self) -> None:
        self.modes: tuple[object, ...] = ()


_ASIDE = _Aside()


def function_modes() -> tuple[object, ...]:
    """The torch-function modes that are active, the innermost last."""
    depth = modes.FUNCTION_DEPTH.get()()
    return tuple(map(modes.FUNCTION_MODE_AT.get(), range(depth))) if depth else ()


def default_devices() -> tuple[torch.device, ...] | None:
    """The devices that `torch.set_default_device` and `with torch.device(…)` have set, the one that
    counts last; None where another torch-function mode is active, or nobody can tell."""
    active = _ASIDE.modes
    if not active:
        if not modes.FUNCTION_DEPTH.get()():
            return ()
        if any(row.found() is None for row in _OF_DEFAULT_DEVICE):
            return None
        active = function_modes()
    known, found = modes.DEVICE_CONTEXT.get(), []
    for mode in active:
        if type(mode) is not known:
            return None
        found.append(vars(mode)["device"])
    return tuple(found)


@contextmanager
def without_default_device() -> Iterator[None]:
    """Leave what has set default devices, and enter it again behind the block: what asks torch in
    between gets the answers that it gets without, but for `default_devices()`."""
    before = function_modes()
    try:
        _ASIDE.modes = before
        leave_modes()
        yield
    finally:
        leave_modes(before)
        _ASIDE.modes = ()


def leave_modes(before: tuple[object, ...] = ()) -> None:
    """Leave all dispatch and torch-function modes but those that were active before.

    Args:
        before: torch-function modes.

    An exception of a signal handler may come when a mode has been entered, and before the `with`
    statement knows; or in the middle of leaving it.
    """
    if _leave_all(modes.DISPATCH_DEPTH, modes.LEAVE_DISPATCH_MODE, (None,)):
        for note in modes.LEFT_DISPATCH_MODE:
            if (set_ := note.found()) is not None:
                set_(False)
    if before and function_modes() == before:
        return
    _leave_all(modes.FUNCTION_DEPTH, modes.LEAVE_FUNCTION_MODE, ())
    for mode in before:
        modes.ENTER_FUNCTION_MODE.get()(mode)


def _leave_all(
    depth: Row[Callable[[], int]], leave: Row[Callable[..., object]], arguments: tuple[object, ...]
) -> bool:
    """Whether any was active, and they could be left."""
    asked = depth.found()
    if asked is None or not asked() or (leave_one := leave.found()) is None:
        return False
    while asked():
        leave_one(*arguments)
    return True


def autocast_nesting() -> int:
    """How many autocast contexts are entered."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def nest_autocast(depth: int) -> None:
    """Let it be so many."""
    while autocast_nesting() > depth:
        torch.autocast_decrement_nesting()
    while autocast_nesting() < depth:
        torch.autocast_increment_nesting()
