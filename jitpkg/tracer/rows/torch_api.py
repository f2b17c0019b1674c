"""Functions of torch and of jitpkg that mean something else in a trace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint

from jitpkg import marks
from jitpkg.guards import state
from jitpkg.guards.kinds import Answers
from jitpkg.guards.sources import Held
from jitpkg.internals import dispatch, library, modes, ops, tensors, trees
from jitpkg.internals import transforms as levels
from jitpkg.tracer import (
    asked_gradients,
    checkpoints,
    control_flow,
    differentiation,
    function_modes,
    numpy_scalars,
    parameters,
    reasons,
    subclasses,
    transforms,
)
from jitpkg.tracer.polyfills import (
    attention,
    autograd_functions,
    contexts,
    indexing_modes,
    optimizers,
    torch_functions,
)
from jitpkg.tracer.polyfills import control_flow as control_flow_calls
from jitpkg.tracer.polyfills import differentiation as backward_passes
from jitpkg.tracer.polyfills import transforms as transform_calls
from jitpkg.tracer.rows import numpy_arrays
from jitpkg.tracer.rows.table import CallTable, by_polyfill, text_of
from jitpkg.tracer.values import (
    FALSE,
    NONE,
    TRUE,
    Array,
    Constant,
    Number,
    Object,
    Tensor,
    Tuple,
    Value,
    class_in,
)
from jitpkg.tracer.vm import VM

TABLE = CallTable()
_NO_ARGS = Tuple(())


@TABLE.row(torch.utils.checkpoint.checkpoint)
def checkpoint(vm: VM, *args: Value, **kwargs: Value) -> Value:
    return checkpoints.call(vm, args, kwargs)


@TABLE.row(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, marks.is_compiling)
def is_compiling(vm: VM) -> Value:
    """Libraries branch on these. Optimizers would compute with other roundings then, and
    higher-order ops want to be given what Dynamo makes of functions."""
    asking = vm.frames[-1].namespace.get("__name__") if vm.frames else None
    return FALSE if isinstance(asking, str) and asking.startswith(_AS_EAGER) else TRUE


_AS_EAGER = (library.OPTIMIZERS, ops.HIGHER_ORDER_MODULES)


@TABLE.row(torch.compiler.is_exporting)
def is_exporting(vm: VM) -> Value:
    return FALSE


@TABLE.row(marks.graph_break)
def graph_break(vm: VM, message: Value | None = None) -> Value:
    said = vm.look(message) if message is not None else None
    text = said.value if isinstance(said, Constant) and isinstance(said.value, str) else ""
    vm.stop(reasons.ASKED, text)


@TABLE.row(torch.device.__enter__)
def enter_device(vm: VM, device: Value, /) -> Value:
    known = vm.look(device)
    if not isinstance(known, Constant) or not isinstance(known.value, torch.device):
        vm.stop(reasons.FOREIGN_CALL, "device.__enter__ of a device that varies")
    if vm.function_modes:
        vm.stop(reasons.UNSUPPORTED, "a default device inside of a torch-function mode")
    vm.devices = (*vm.devices, known.value)
    return known


@TABLE.row(torch.device.__exit__)
def leave_device(vm: VM, device: Value, /, *error: Value) -> Value:
    if len(vm.devices) <= len(vm.devices_before):
        vm.stop(reasons.FOREIGN_CALL, "device.__exit__ of a block that the graph has not entered")
    vm.devices = vm.devices[:-1]
    return NONE


@TABLE.row(torch.get_default_device)
def get_default_device(vm: VM) -> Value:
    device = vm.devices[-1] if vm.devices else torch.device("cpu")
    if device.type not in ("cpu", "meta") and device == torch.device(device.type):
        vm.stop(reasons.UNSUPPORTED, "a default device without a number, which the current one is")
    return Constant(device)


@TABLE.row(torch.is_tensor)
def is_tensor(vm: VM, value: Value, /) -> Value:
    return vm.call_object(isinstance, value, vm.trusted(torch.Tensor))


def _of_a_number(real: Callable[..., Any]) -> Callable[..., Value]:
    """A tensor made of a number that varies: by ops that take such numbers."""

    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        first = vm.peek(args[0]) if len(args) == 1 else None
        if isinstance(first, Array):
            return numpy_arrays.made(vm, real, first, kwargs)
        plain = len(args) == 1 and kwargs.keys() <= {"dtype", "device"}
        number = vm.peek(args[0]) if plain else None
        if isinstance(number, Constant) and numpy_scalars.is_number(number.value):
            dtype = kwargs.get("dtype", NONE)
            if vm.same(dtype, NONE):
                dtype = Constant(real(number.value).dtype)
            args = (Constant(numpy_scalars.plain(number.value)),)
            return vm.op(real, args, {**kwargs, "dtype": dtype})
        if not isinstance(number, Number) or type(number.value) is not float:
            return vm.op(real, args, kwargs)
        return vm.call(vm.trusted(torch_functions.tensor_of_number), args, kwargs)

    return row


for _real in (torch.tensor, torch.as_tensor):
    TABLE.add(_real, _of_a_number(_real))


@TABLE.row(torch.Tensor.requires_grad_)
def requires_grad_(vm: VM, tensor: Value, /, requires_grad: Value = TRUE) -> Value:
    """Nothing is done where it is so already; of what the function has made, a leaf is made."""
    known, asked = vm.look(tensor), vm.look(requires_grad)
    match known, asked:
        case Tensor(), Constant(value) if value is vm.facts(known).requires_grad:
            return known
        case Tensor(), Constant(True):
            return asked_gradients.made_leaf(vm, known)
    vm.stop(reasons.TENSOR_USE, "Tensor.requires_grad_")


def is_initialized(vm: VM) -> Value:
    vm.guard(state.process_group())
    return Constant(torch.distributed.is_initialized())


if torch.distributed.is_available():
    TABLE.add(torch.distributed.is_initialized, is_initialized)


@TABLE.row(torch_functions.exports)
def exports(vm: VM) -> Value:
    found = exports_now(None)
    what = "whether a model is being exported"
    vm.guard(Answers(Held(None), exports_now, (), answer=found, what=what))
    return Constant(found)


def exports_now(_: None) -> bool:
    return bool(torch.onnx.is_in_onnx_export())


@TABLE.row(modes.ANY_TRANSFORM)
def any_transform(vm: VM) -> Value:
    """The guards exclude those from before the graph."""
    return TRUE if vm.levels else FALSE


@TABLE.row(torch.overrides.is_tensor_like)
def is_tensor_like(vm: VM, value: Value, /) -> Value:
    value = vm.look(value)
    if isinstance(value, Tensor):
        return TRUE
    return vm.call_object(hasattr, value, vm.trusted("__torch_function__"))


@TABLE.row(
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
)
def has_torch_function(vm: VM, *values: Value) -> Value:
    """Modes but those that the trace enters are excluded by the guards."""
    asked = function_modes.are_asked(vm) or subclasses.are_asked(vm, values)
    return TRUE if asked else FALSE


@TABLE.row(torch.overrides.handle_torch_function)
def handle_torch_function(vm: VM, *args: Value, **kwargs: Value) -> Value:
    if vm.asked_modes:
        return function_modes.of_python(vm, args, kwargs)
    return subclasses.of_python(vm, args, kwargs)


@TABLE.row(vars(torch.Tensor)["__torch_function__"].__func__)
def torch_function(
    vm: VM,
    cls: Value,
    function: Value,
    types_: Value,
    args: Value = _NO_ARGS,
    kwargs: Value = NONE,
    /,
) -> Value:
    return subclasses.by_default(vm, cls, function, types_, args, kwargs)


def no_torch_function(
    vm: VM, function: Value, types_: Value, args: Value = _NO_ARGS, kwargs: Value = NONE, /
) -> Value:
    return subclasses.without_asking(vm, function, args, kwargs)


TABLE.add(modes.NO_FUNCTION, no_torch_function)


@TABLE.row(contexts.ask_no_subclasses)
def ask_no_subclasses(vm: VM) -> Value:
    before, vm.asks_subclasses = vm.asks_subclasses, False
    return TRUE if before else FALSE


@TABLE.row(contexts.ask_subclasses)
def ask_subclasses(vm: VM, before: Value, /) -> Value:
    known = vm.look(before)
    if not isinstance(known, Constant):
        vm.stop(reasons.FOREIGN_CALL, "leaving a block that the graph has not entered")
    vm.asks_subclasses = bool(known.value)
    return NONE


def make_wrapper(vm: VM, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    wanted = class_in(vm.look(cls))
    if wanted is None:
        vm.stop(reasons.RAISES, "_make_wrapper_subclass of what is no class")
    return subclasses.wrapper(vm, wanted, args, kwargs)


TABLE.add(dispatch.WRAPPER, make_wrapper)


def make_subclass(
    vm: VM, cls: Value, data: Value, require_grad: Value = FALSE, /, **options: Value
) -> Value:
    """Torch asks no class of this."""
    known, wanted = vm.look(data), class_in(vm.look(cls))
    known = vm.heap.read(known, "content") or known if isinstance(known, Object) else known
    if wanted is None or not isinstance(known, Tensor) or options or vm.truth(require_grad):
        vm.stop(reasons.TENSOR_USE, "Tensor._make_subclass")
    detached = vm.look(vm.op("detach", (known,)))
    assert isinstance(detached, Tensor)
    return subclasses.of_memory(vm, detached, wanted)


TABLE.add(tensors.MAKE_SUBCLASS, make_subclass)


@TABLE.row(torch.Tensor.as_subclass)
def as_subclass(vm: VM, tensor: Value, cls: Value, /) -> Value:
    known, wanted = vm.look(tensor), class_in(vm.look(cls))
    if not isinstance(known, Tensor) or wanted is None:
        vm.stop(reasons.TENSOR_USE, "Tensor.as_subclass")
    return subclasses.as_subclass(vm, known, wanted)


def enter_function_mode(vm: VM, mode: Value, /) -> Value:
    function_modes.enter(vm, vm.look(mode))
    return NONE


def leave_function_mode(vm: VM) -> Value:
    return function_modes.leave(vm)


@TABLE.row(indexing_modes.enter)
def enter_indexing_mode(vm: VM) -> Value:
    function_modes.enter(vm, vm.trusted(indexing_modes.indexed))
    return NONE


@TABLE.row(attention.refused)
def no_flex_attention(vm: VM, why: Value) -> Value:
    vm.stop(reasons.LIBRARY, f"flex_attention with {text_of(vm, why)}")


TABLE.add(indexing_modes.leave, leave_function_mode)
TABLE.add(modes.ENTER_FUNCTION_MODE, enter_function_mode)
TABLE.add(modes.LEAVE_FUNCTION_MODE, leave_function_mode)


@TABLE.row(autograd_functions.of_the_real_context)
def of_the_real_context(vm: VM, name: Value, /) -> Value:
    said = vm.look(name)
    asked = said.value if isinstance(said, Constant) else "an attribute"
    vm.stop(reasons.UNSUPPORTED, f"{asked} of the context of an autograd function")


@TABLE.row(torch_functions.check_that_fails)
def check_that_fails(vm: VM, error_type: Value, condition: Value, message: Value) -> Value:
    vm.stop(reasons.RAISES, "a check of what does not hold, or is no bool")


TABLE.add(torch.nn.Parameter, parameters.made)
TABLE.add(modes.CHECK, by_polyfill(torch_functions.check))
TABLE.add(modes.ASSERT_ASYNC, by_polyfill(torch_functions.assert_async))
TABLE.add(modes.CHECK_WITH, by_polyfill(torch_functions.check_with))
TABLE.add(torch.Tensor.backward, by_polyfill(backward_passes.backward_of_tensor))
TABLE.add(torch.autograd.backward, by_polyfill(backward_passes.backward))
TABLE.add(torch.autograd.grad, by_polyfill(backward_passes.grad))
TABLE.add(backward_passes.asked, asked_gradients.asked)
TABLE.add(backward_passes.leaves_of, differentiation.leaves_of)
TABLE.add(backward_passes.derivatives, differentiation.derivatives)
TABLE.add(torch.func.vjp, by_polyfill(transform_calls.vjp))
TABLE.add(torch.func.jvp, by_polyfill(transform_calls.jvp))
TABLE.add(levels.VMAP, by_polyfill(transform_calls.vmap))
TABLE.add(levels.GRAD, by_polyfill(transform_calls.grad))
TABLE.add(levels.GRAD_AND_VALUE, by_polyfill(transform_calls.grad_and_value))
TABLE.add(levels.VJP, by_polyfill(transform_calls.vjp))
TABLE.add(levels.JVP, by_polyfill(transform_calls.jvp))
for _step in (
    *("enter_vmap", "leave_vmap", "enter_grad", "leave_grad", "leave_vjp", "pulled"),
    *("enter_jvp", "leave_jvp"),
):
    TABLE.add(getattr(transform_calls, _step), getattr(transforms, _step))


TABLE.add(torch.cond, by_polyfill(control_flow_calls.cond))
TABLE.add(ops.WHILE_LOOP, by_polyfill(control_flow_calls.while_loop))
TABLE.add(ops.SCAN, by_polyfill(control_flow_calls.scan))
TABLE.add(ops.MAP, by_polyfill(control_flow_calls.map_))
for _step in ("enter_body", "leave_body", "chosen", "repeated", "scanned"):
    TABLE.add(getattr(control_flow_calls, _step), getattr(control_flow, _step))


@TABLE.row(transform_calls.flatten)
def flatten(vm: VM, tree: Value) -> Value:
    return vm.call_object(trees.FLATTEN.get(), tree)


@TABLE.row(transform_calls.unflatten)
def unflatten(vm: VM, leaves: Value, structure: Value) -> Value:
    return vm.call_object(trees.UNFLATTEN.get(), leaves, structure)


@TABLE.row(transform_calls.refused)
def no_transform(vm: VM, why: Value) -> Value:
    transforms.refuse(vm, text_of(vm, why))


@TABLE.row(backward_passes.refused)
def no_backward(vm: VM, why: Value) -> Value:
    vm.stop(reasons.BACKWARD, text_of(vm, why))


@TABLE.row(optimizers.refused)
def ungrouped(vm: VM) -> Value:
    vm.stop(reasons.UNSUPPORTED, "tensors of kinds that an optimizer may refuse to group")


@TABLE.row(sys._getframe)
def getframe(vm: VM, depth: Value | None = None, /) -> Value:
    vm.stop(reasons.FRAMES, "sys._getframe()")


@TABLE.row(modes.LOG_USAGE)
def log_api_usage_once(vm: VM, *args: Value) -> Value:
    return FALSE
