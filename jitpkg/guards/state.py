"""Guards of global state: what changes the meaning of every op and is in no argument."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch
from torch.autograd import forward_ad

from jitpkg.guards import leaves
from jitpkg.guards.kinds import StateIs


def obstacle() -> str | None:
    """Why nothing can be traced in the state that the process is in, or None where it can."""
    if sys.gettrace() is not None:
        return "a debugger or another trace function is active"
    if torch._C._len_torch_function_stack():
        return "a torch-function mode is active"
    if torch._C._len_torch_dispatch_stack():
        return "a torch-dispatch mode is active"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a function transform (vmap, grad) is active"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace is running"
    if torch._C._dynamo.eval_frame.get_eval_frame_callback() not in (None, False):
        return "torch.compile is compiling what runs here"
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        # They are the program's, may raise to end a recomputation, and see each tensor once.
        return "hooks for saved tensors are active"
    if not torch._C._is_torch_function_enabled():
        return "torch functions are disabled"
    return None


def state_guards(*, has_tensors: bool) -> Iterator[StateIs]:
    """Guards of the state as it is now, where `obstacle()` is None.

    A tensor's dispatch keys tell of inference mode, dispatch modes and function transforms; a
    graph without tensor inputs has to ask.
    """
    if leaves.GLOBAL_STATE_CHECK_WORKS:
        check = leaves.global_state_check()
        what = "a global setting of torch (grad mode, autocast, default dtype, threads, …)"
        yield StateIs(what, "{state_same}()", (("state_same", check),))
    else:
        yield from _settings()
    yield StateIs(
        "the stack of torch-function modes",
        "not {mode_count}()",
        (("mode_count", torch._C._len_torch_function_stack),),
    )
    yield StateIs("the trace function", "{gettrace}() is None", (("gettrace", sys.gettrace),))
    hooks = torch._C._autograd._top_saved_tensors_default_hooks
    yield StateIs(
        "the saved-tensor hooks", "{saved_hooks}(True) is None", (("saved_hooks", hooks),)
    )
    if not (has_tensors and leaves.TENSOR_CHECK_WORKS):
        yield from _dispatch_state()


def _dispatch_state() -> Iterator[StateIs]:
    inference = torch.is_inference_mode_enabled
    yield StateIs(
        "inference mode", f"{{inference}}() is {inference()}", (("inference", inference),)
    )
    yield StateIs(
        "the stack of torch-dispatch modes",
        "not {dispatch_count}()",
        (("dispatch_count", torch._C._len_torch_dispatch_stack),),
    )
    yield StateIs(
        "the stack of function transforms",
        "{transforms}() is None",
        (("transforms", torch._C._functorch.peek_interpreter_stack),),
    )
    yield StateIs(
        "the tracing state of torch.jit",
        "{tracing}() is None",
        (("tracing", torch._C._get_tracing_state),),
    )
    yield StateIs(
        "the level of forward-mode differentiation",
        f"{{forward_ad}}._current_level == {forward_ad._current_level}",
        (("forward_ad", forward_ad),),
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
