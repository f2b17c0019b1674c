"""What is active in a thread: modes, function transforms, hooks, tracers, autocast."""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import AbstractContextManager, ExitStack, nullcontext

import torch

from jitpkg.internals.row import Row, Setting, Variable

_NOTHING = "no function is compiled, for nobody can tell whether it may be"
_STAYS = "a mode stays active that an exception of a signal handler has left behind"
_BREAKS = "a call of it breaks the graph"

# Modes

DISPATCH_DEPTH = Row[Callable[[], int]](
    "torch._C._len_torch_dispatch_stack",
    use="seeing whether a torch-dispatch mode is active",
    lost=_NOTHING,
)
LEAVE_DISPATCH_MODE = Row[Callable[[None], object]](
    "torch._C._pop_torch_dispatch_stack",
    use="leaving torch-dispatch modes that an exception has left behind",
    lost=_STAYS,
)
FUNCTION_DEPTH = Row[Callable[[], int]](
    "torch._C._len_torch_function_stack",
    use="seeing whether a torch-function mode is active",
    lost=_NOTHING,
)
LEAVE_FUNCTION_MODE = Row[Callable[[], object]](
    "torch._C._pop_torch_function_stack",
    use="leaving torch-function modes that an exception has left behind",
    lost=_STAYS,
)
FUNCTION_MODE_AT = Row[Callable[[int], object]](
    "torch._C._get_function_stack_at",
    use="seeing whether the active torch-function modes are default devices",
    lost="under a default device no function is compiled",
)
ENTER_FUNCTION_MODE = Row[Callable[[object], object]](
    "torch._C._push_on_torch_function_stack",
    use="compiling without a default device",
    lost="under a default device no function is compiled",
)
DEVICE_CONTEXT = Row[type](
    "torch.utils._device.DeviceContext",
    use="knowing what torch.set_default_device and `with torch.device(...)` enter",
    lost="under a default device no function is compiled",
)
MADE_ON_DEFAULT_DEVICE = Row[Callable[[], Set[Callable[..., object]]]](
    "torch.utils._device._device_constructors",
    use="knowing which functions ask for the default device",
    lost="under a default device no function is compiled",
)
FUNCTIONS_ENABLED = Row[Callable[[], bool]](
    "torch._C._is_torch_function_enabled",
    use="seeing whether torch functions are disabled",
    lost=_NOTHING,
)


def _with_subclasses() -> Callable[[], AbstractContextManager[object]]:
    return nullcontext


WITHOUT_SUBCLASSES = Row[Callable[[], AbstractContextManager[object]]](
    "torch._C.DisableTorchFunctionSubclass",
    use="reading and copying tensors of subclasses",
    lost="a subclass of tensors sees how jitpkg.testing copies it, and breaks the graph",
    instead=_with_subclasses,
)


def unasked(tensor: object) -> AbstractContextManager[object]:
    """What to enter for a look at a tensor, or None: a class of its own hears of nothing inside."""
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, type(None))
    return nullcontext() if is_plain else WITHOUT_SUBCLASSES.get()()


NO_FUNCTION = Row[object](
    "torch._C._disabled_torch_function_impl",
    use="knowing which subclasses of tensors are plain tensors",
    lost="each subclass of tensors breaks the graph",
)
FUNCTION_MODES_ENABLED = Row[Callable[[], bool]](
    "torch._C._is_torch_function_mode_enabled",
    use="tracing code that asks for it",
    lost=_BREAKS,
)

_AFTER = "forgetting a dispatch mode that an exception has left behind"
_NOTED = "what torch notes of it besides stays"
IN_DISPATCH_MODE = Setting[bool](
    "torch.utils._python_dispatch._is_in_torch_dispatch_mode", use=_AFTER, lost=_NOTED
)
IN_USERS_DISPATCH_MODE = Setting[bool](
    "torch.utils._python_dispatch._is_in_non_infra_torch_dispatch_mode", use=_AFTER, lost=_NOTED
)
IN_VISIBLE_DISPATCH_MODE = Setting[bool](
    "torch.utils._python_dispatch._is_in_any_mode_without_ignore_compile_internals",
    use=_AFTER,
    lost=_NOTED,
)
LEFT_DISPATCH_MODE = (IN_DISPATCH_MODE, IN_USERS_DISPATCH_MODE, IN_VISIBLE_DISPATCH_MODE)
"""What torch notes of modes besides: each is False where none is active."""

PROFILING = Row[Callable[[], bool]](
    "torch.autograd._profiler_enabled",
    use="seeing whether a profiler runs, where code has named a range for it",
    lost=_BREAKS,
)
LOG_USAGE = Row[Callable[[str], object]](
    "torch._C._log_api_usage_once",
    use="tracing torch's own code, which calls it",
    lost=_BREAKS,
)

CHECK = Row[Callable[..., object]](
    "torch._check",
    use="knowing what a program checks of its sizes",
    lost=_BREAKS,
)

CHECK_WITH = Row[Callable[..., object]](
    "torch._check_with",
    use="knowing what a program checks, with an exception of its own",
    lost=_BREAKS,
)
ASSERT_ASYNC = Row[Callable[..., object]](
    "torch._assert_async",
    use="knowing what a program asserts of a tensor",
    lost=_BREAKS,
)

# Transforms, and other compilers


def _is_compiling_nothing() -> Callable[[], object]:
    return lambda: None


TRANSFORMS = Row[Callable[[], object]](
    "torch._C._functorch.peek_interpreter_stack",
    use="seeing whether a function transform (vmap, grad) is active",
    lost=_NOTHING,
)
ANY_TRANSFORM = Row[Callable[[], bool]](
    "torch._C._are_functorch_transforms_active",
    use="tracing code that asks whether a function transform is active",
    lost=_BREAKS,
)
FRAME_CALLBACK = Row[Callable[[], object]](
    "torch._C._dynamo.eval_frame.get_eval_frame_callback",
    use="seeing whether torch.compile is compiling what runs",
    lost="functions that torch.compile calls are not left alone",
    instead=_is_compiling_nothing,
)
TRACING_STATE = Row[Callable[[], object]](
    "torch._C._get_tracing_state",
    use="tracing calls of modules, which ask for it",
    lost=_BREAKS,
)
IS_TRACING = Row[Callable[[], bool]](
    "torch._C._is_tracing",
    use="tracing torch.jit.is_tracing(), which asks for it",
    lost=_BREAKS,
)

# Autograd and autocast

FORWARD_LEVEL = Variable[int](
    "torch.autograd.forward_ad._current_level",
    use="seeing whether forward-mode differentiation is active",
    lost="graphs without tensor inputs are not compiled, and all others run op by op",
)
SAVED_TENSOR_HOOKS = Row[Callable[[bool], object]](
    "torch._C._autograd._top_saved_tensors_default_hooks",
    use="seeing whether there are hooks for saved tensors",
    lost=_NOTHING,
)


def _setter_of_grad_mode() -> Callable[[bool], object]:
    return torch.set_grad_enabled


SET_GRAD_ENABLED = Row[Callable[[bool], object]](
    "torch._C._set_grad_enabled",
    use="switching grad mode, in graphs as well",
    lost="torch.set_grad_enabled does it, and breaks the graph where a program calls it",
    instead=_setter_of_grad_mode,
)


def _is_autocast_on_any_device() -> Callable[[], bool]:
    return lambda: any(map(torch.is_autocast_enabled, ("cpu", "cuda")))


ANY_AUTOCAST = Row[Callable[[], bool]](
    "torch._C._is_any_autocast_enabled",
    use="seeing whether autocast is on",
    lost="torch.is_autocast_enabled is asked for each kind of device, which is slower",
    instead=_is_autocast_on_any_device,
)


def _autocast_off_on_each_device() -> Callable[[], AbstractContextManager[object]]:
    def off() -> AbstractContextManager[object]:
        stack = ExitStack()
        for kind in ("cpu", "cuda"):
            stack.enter_context(torch.autocast(kind, enabled=False))
        return stack

    return off


NO_AUTOCAST = Row[Callable[[], AbstractContextManager[object]]](
    "torch._C._DisableAutocast",
    use="running a graph that has its casts itself",
    lost="torch.autocast(enabled=False) does it for each kind of device, which is slower",
    instead=_autocast_off_on_each_device,
)
INFERENCE_MODE = Row[type](
    "torch._C._InferenceMode",
    use="tracing torch.inference_mode",
    lost=_BREAKS,
)
AUTOCAST_AVAILABLE = Row[Callable[[str], bool]](
    "torch._C._is_autocast_available",
    use="tracing torch.autocast, which asks for it",
    lost=_BREAKS,
)
PRIVATE_BACKEND = Row[Callable[[], str]](
    "torch._C._get_privateuse1_backend_name",
    use="tracing torch.autocast, which asks for it",
    lost=_BREAKS,
)
