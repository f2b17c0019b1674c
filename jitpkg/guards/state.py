"""Guards of global state: what changes the meaning of every op and is in no argument."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch

from jitpkg import threads
from jitpkg.facts.thread_state import default_devices
from jitpkg.guards import leaves
from jitpkg.guards.kinds import Asks, StateIs
from jitpkg.internals import modes, settings
from jitpkg.native import Part

_is_jit_tracing: Callable[[], bool] = vars(torch.jit)["is_tracing"]


def obstacle() -> str | None:
    """Why nothing can be traced in the state that the process is in, or None where it can.

    Raises:
        Missing: nobody can tell.
    """
    if threads.is_ours():
        return "a thread of the compiler's own runs"
    if sys.gettrace() is not None:
        return "a debugger or another trace function is active"
    if default_devices() is None:
        return "a torch-function mode is active"
    if modes.DISPATCH_DEPTH.get()():
        return "a torch-dispatch mode is active"
    if modes.TRANSFORMS.get()() is not None:
        return "a function transform (vmap, grad) is active"
    if _is_jit_tracing():
        return "torch.jit.trace is running"
    if modes.FRAME_CALLBACK.get()() not in (None, False):
        return "torch.compile is compiling what runs here"
    if modes.SAVED_TENSOR_HOOKS.get()(True) is not None:
        # They are the program's, may raise to end a recomputation, and see each tensor once.
        return "hooks for saved tensors are active"
    if not modes.FUNCTIONS_ENABLED.get()():
        return "torch functions are disabled"
    return None


def state_guards(*, has_tensors: bool) -> Iterator[StateIs]:
    """Guards of the state as it is now, where `obstacle()` is None.

    A tensor's dispatch keys tell of inference mode, dispatch modes and function transforms; a
    graph without tensor inputs has to ask.
    """
    if leaves.compares_state():
        check = leaves.global_state_check()
        what = "a global setting of torch (grad mode, autocast, default dtype, threads, …)"
        yield _asked(what, "state_same", check, True, part="settings")
    else:
        yield from _settings()
    if devices := default_devices():
        names = (("default_devices", default_devices), ("now", devices))
        yield StateIs("the default device", "{default_devices}() == {now}", names)
    else:
        modes_on = modes.FUNCTION_DEPTH.get()
        what = "the stack of torch-function modes"
        yield _asked(what, "mode_count", modes_on, False, part="function modes")
    yield _asked("the trace function", "gettrace", sys.gettrace, None)
    hooks = modes.SAVED_TENSOR_HOOKS.get()
    yield _asked("the saved-tensor hooks", "saved_hooks", hooks, None, True, part="saved hooks")
    if not (has_tensors and leaves.compares_tensors()):
        yield from _dispatch_state()


def no_profiler() -> StateIs:
    """That no profiler runs, as now: a named range does nothing then."""
    return _asked("whether a profiler runs", "profiling", modes.PROFILING.get(), False)


def process_group() -> StateIs:
    """That there is a default process group of torch.distributed, or none, as now."""
    exists = torch.distributed.is_initialized
    return _asked("the default process group", "has_process_group", exists, exists())


def anomaly_mode() -> StateIs:
    """That autograd's anomaly mode is on or off, as now."""
    looks = torch.is_anomaly_enabled
    return _asked("autograd's anomaly mode", "looks_for_anomalies", looks, looks())


def setting(name: str) -> StateIs:
    """That a setting of `internals.settings.SWITCH` is on or off, as now."""
    getter = settings.SWITCH[name].get()
    return _asked(f"torch's setting {name}", "setting", getter, bool(getter()))


def autocast_dtype(kind: str) -> StateIs:
    """That autocast would cast to the same dtype as now: other guards ask where it is on."""
    getter = torch.get_autocast_dtype
    names = (("getter", getter), ("now", getter(kind)))
    return StateIs(f"the dtype of autocast for {kind!r}", f"{{getter}}({kind!r}) == {{now}}", names)


def _asked(
    what: str,
    name: str,
    function: Callable[..., object],
    answer: bool | None,
    *argument: object,
    part: Part | None = None,
) -> StateIs:
    """That a function of nothing, or of one constant, answers something true, false, or None."""
    call = f"{{{name}}}({', '.join(map(repr, argument))})"
    text = {True: call, False: f"not {call}", None: f"{call} is None"}[answer]
    return StateIs(what, text, ((name, function),), Asks(function, argument, answer, part))


def _dispatch_state() -> Iterator[StateIs]:
    inference = torch.is_inference_mode_enabled
    yield _asked("inference mode", "inference", inference, inference())
    modes_on = modes.DISPATCH_DEPTH.get()
    yield _asked("the stack of torch-dispatch modes", "dispatch_count", modes_on, False)
    transforms = modes.TRANSFORMS.get()
    yield _asked("the stack of function transforms", "transforms", transforms, None)
    yield _asked("the tracing state of torch.jit", "tracing", _is_jit_tracing, False)
    yield StateIs(
        "the level of forward-mode differentiation",
        f"{{forward_level}}() == {modes.FORWARD_LEVEL.get()()}",
        (("forward_level", modes.FORWARD_LEVEL.get()),),
    )


def _settings() -> Iterator[StateIs]:
    """The settings one by one, where the C function for all of them does not work."""
    getters: tuple[tuple[str, Callable[..., object], str], ...] = (
        ("grad mode", torch.is_grad_enabled, ""),
        ("the default dtype", torch.get_default_dtype, ""),
        ("deterministic mode", torch.are_deterministic_algorithms_enabled, ""),
        ("the number of threads", torch.get_num_threads, ""),
        ("autocast on the CPU", torch.is_autocast_enabled, "cpu"),
        ("autocast on CUDA", torch.is_autocast_enabled, "cuda"),
    )
    for what, getter, device in getters:
        args = [device] if device else []
        text = f"{{getter}}({', '.join(map(repr, args))}) == {{now}}"
        yield StateIs(what, text, (("getter", getter), ("now", getter(*args))))
