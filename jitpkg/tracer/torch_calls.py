"""Which callables of torch are ops of the graph, which happen for real, and which are state."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional
from torch.overrides import get_overridable_functions

from jitpkg.internals import Row, modes, ops
from jitpkg.internals.ops import OpOverload, schema

_FACTORIES = """
    arange as_tensor asarray bartlett_window blackman_window broadcast_shapes can_cast complex empty
    empty_permuted empty_strided eye finfo full hamming_window hann_window iinfo is_tensor
    kaiser_window linspace logspace normal ones promote_types rand rand_like randint randint_like
    randn randn_like randperm result_type scalar_tensor tensor tril_indices triu_indices vander
    zeros broadcast_tensors meshgrid einsum block_diag cartesian_prod cdist chain_matmul
    tensordot unravel_index where is_floating_point is_complex numel
    fft.fftfreq fft.rfftfreq
""".split()
"""Functions of torch that take no tensor, or that torch.overrides does not list."""

_NOT_OPS = frozenset(
    """
    from_numpy frombuffer from_file load save manual_seed seed initial_seed get_rng_state
    set_rng_state compile cond vmap export fork wait typename set_default_device set_printoptions
    unsafe_chunk unsafe_split unsafe_split_with_sizes multi_head_attention_forward
    gaussian_nll_loss
    """.split()
)

REAL_METHODS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("item", "tolist", "numpy", "__array__", "__float__", "__int__", "__index__"), "value"
        ),
        **dict.fromkeys(("__complex__", "is_nonzero", "__contains__", "__long__"), "value"),
        **dict.fromkeys(("__repr__", "__format__", "__str__", "__nonzero__"), "value"),
        **dict.fromkeys(
            """
            register_hook register_post_accumulate_grad_hook retain_grad requires_grad_
            data_ptr const_data_ptr storage untyped_storage storage_type set_ resize_ resize_as_
            resize_as_sparse_ sparse_resize_ sparse_resize_and_clear_ share_memory_ is_shared
            is_pinned pin_memory record_stream apply_ map_ map2_ module_load __dlpack__
            __dlpack_device__ __deepcopy__ __reduce_ex__ __setstate__ __reduce__ _is_view is_set_to
            detach_ storage_offset rename_ rename refine_names align_to as_subclass __array_wrap__
            _view_func _make_subclass type to_sparse to_mkldnn _typed_storage new
            unsafe_chunk unsafe_split unsafe_split_with_sizes
            """.split(),
            "use",
        ),
    }
)
"""Methods of tensors that need the real tensor: its data, or its storage, hooks and history; and
those of which the schema is wrong (they return views)."""


@cache
def graph_functions() -> Mapping[Callable[..., Any], str]:
    """Functions that become nodes of the graph, with their names."""
    listed = get_overridable_functions()
    found: dict[Callable[..., Any], str] = {}
    modules = (
        torch,
        torch.functional,
        torch.nn.functional,
        torch.linalg,
        torch.fft,
        torch.special,
    )
    for module in modules:
        for function in listed.get(module, ()):
            if _is_function(function) and function.__name__ not in _NOT_OPS:
                found[function] = function.__name__
    for name in _FACTORIES:
        function = attrgetter(name)(torch)
        if _is_function(function):
            found[function] = name.rpartition(".")[2]
    layers = ops.LAYERS.found()
    for name in () if layers is None else dir(layers):
        function = getattr(layers, name)
        if _is_function(function) and not name.startswith("__"):
            found[function] = name
    found.update(
        (function, name)
        for name, function in vars(torch.nn.functional).items()
        if isinstance(function, types.BuiltinFunctionType) and not name.startswith("_")
    )
    return MappingProxyType(found)


_TENSORS = tuple(cls for cls in reversed(torch.Tensor.__mro__) if cls is not object)


def _is_function(function: object) -> bool:
    return isinstance(function, types.FunctionType | types.BuiltinFunctionType)


@cache
def tensor_methods() -> Mapping[object, str]:
    """Methods of tensors that become nodes of the graph, by descriptor or function."""
    found: dict[object, str] = {}
    listed = set(get_overridable_functions()[torch.Tensor])
    for cls in _TENSORS:
        for name, member in vars(cls).items():
            if name in REAL_METHODS or name in _PYTHON_METHODS:
                continue
            is_c = isinstance(member, types.MethodDescriptorType | types.WrapperDescriptorType)
            is_python = isinstance(member, types.FunctionType) and member in listed
            if (is_c and name not in _OBJECT_METHODS) or is_python:
                found[member] = name
    return MappingProxyType(found)


@cache
def real_methods() -> Mapping[object, str]:
    """Methods of tensors that need the real tensor, by descriptor or function."""
    return MappingProxyType(
        {
            member: name
            for cls in _TENSORS
            for name, member in vars(cls).items()
            if name in REAL_METHODS and callable(member)
        }
    )


_OBJECT_METHODS = frozenset(
    {"__getattribute__", "__setattr__", "__delattr__", "__init__", "__new__", "__hash__"}
)
_PYTHON_METHODS = frozenset(
    {"__len__", "__iter__", "__bool__", "__hash__", "__torch_function__", "backward"}
)
"""Methods with rules of their own."""


def is_graph_function(function: object) -> bool:
    """Whether a Python or builtin function is an op of the graph."""
    try:
        if function in graph_functions():
            return True
    except TypeError:
        return False
    if not isinstance(function, types.BuiltinFunctionType):
        return False
    name = function.__name__
    found = getattr(ops.FUNCTIONS.found(), name, None)
    return found is function and _is_aten_function(name)


@cache
def _is_aten_function(name: str) -> bool:
    """Whether a function that torch.overrides does not list is an ATen op by another name.

    The schemas tell: it takes tensors, gives nothing but tensors, and leaves their shapes alone.
    """
    if name in _NOT_OPS or name.startswith(_INTERNAL):
        return False
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and all(
        _is_of_tensors(getattr(packet, overload)) for overload in packet.overloads()
    )


_INTERNAL = ("_assert", "_functional_", "_print", "_copy_from", "_test_", "_from_blob", "_foobar")
"""How functions begin that have an effect which no schema tells, or are none for users."""


def _is_of_tensors(op: OpOverload) -> bool:
    known = schema(op)
    return (
        any("Tensor" in str(argument.type) for argument in known.arguments)
        and all("Tensor" in str(result.type) for result in known.returns)
        and torch.Tag.inplace_view not in op.tags
    )


@cache
def state_getters() -> frozenset[Callable[..., Any]]:
    """Functions that read state which the guards hold fixed, or which a process never changes."""
    private = (row.found() for row in _ASKED)
    return frozenset({*_GETTERS, *(getter for getter in private if getter is not None)})


_GETTERS: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.is_grad_enabled,
        torch.is_autocast_enabled,
        torch.get_autocast_dtype,
        torch.is_autocast_cache_enabled,
        torch.is_inference_mode_enabled,
        torch.get_default_dtype,
        torch.are_deterministic_algorithms_enabled,
        torch.get_num_threads,
        vars(torch.jit)["is_scripting"],
        vars(torch.jit)["is_tracing"],
        torch.cuda.is_available,
        torch.cuda.device_count,
        torch.cuda.is_initialized,
        torch.cuda.is_bf16_supported,
        torch.xpu.is_available,
        torch.distributed.is_available,
        torch.accelerator.current_accelerator,
        torch.accelerator.is_available,
        torch.accelerator.device_count,
    }
)
_ASKED: tuple[Row[Callable[..., Any]], ...] = (
    modes.DISPATCH_DEPTH,
    modes.IS_TRACING,
    modes.TRACING_STATE,
    modes.FUNCTIONS_ENABLED,
    modes.FUNCTION_MODES_ENABLED,
    modes.TRANSFORMS,
    modes.AUTOCAST_AVAILABLE,
    modes.PRIVATE_BACKEND,
)
"""Those that torch's own code calls."""
