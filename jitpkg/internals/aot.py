"""AOTAutograd and Inductor: how they are called, and what they say of a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.internals.row import Attribute, Missing, Row
from jitpkg.interrupts import from_outside

_OP_BY_OP = "graphs that are trained run op by op"
_EAGER = "the backend aot_eager runs graphs op by op"
_INDUCTOR = "the backend inductor runs graphs op by op"

Function = Callable[..., Any]

MODULE = Row[Function](
    "torch._functorch.aot_autograd.aot_module_simplified",
    use="differentiating graphs ahead of time",
    lost=_OP_BY_OP,
)
PARTITION = Row[Function](
    "torch._functorch.partitioners.default_partition",
    use="parting forward from backward for aot_eager",
    lost=_EAGER,
)
SMALLEST_PARTITION = Row[Function](
    "torch._functorch.partitioners.min_cut_rematerialization_partition",
    use="choosing what is saved for the backward pass",
    lost=_OP_BY_OP,
)
CONFIG = Row[Any]("torch._functorch.config", use="AOTAutograd's settings", lost=_OP_BY_OP)
CONTEXT = Row[Any](
    "torch._guards.TracingContext",
    use="learning from AOTAutograd what a graph writes to, and what it returns",
    lost=_OP_BY_OP,
)
TRACING = Row[Callable[[Any], AbstractContextManager[object]]](
    "torch._guards.tracing", use="calling AOTAutograd", lost=_OP_BY_OP
)
FAKE_MODE = Row[Callable[[Any], Any]](
    "torch._guards.detect_fake_mode", use="compiling parts of backward graphs", lost=_INDUCTOR
)


def _node() -> object:
    class Example(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    with torch.enable_grad():
        made: torch.Tensor = Example.apply(torch.ones(1, requires_grad=True))  # type: ignore[no-untyped-call]
    return made.grad_fn


FUNCTION_OF_NODE = Attribute[Any](
    "torch.autograd.function.BackwardCFunction._forward_cls",
    use="finding AOTAutograd's own nodes among those of autograd",
    lost=_OP_BY_OP,
    of=_node,
)

# Inductor

COMPILE = Row[Function](
    "torch._inductor.compile_fx.compile_fx", use="calling Inductor", lost=_INDUCTOR
)
COMPILE_HALF = Row[Function](
    "torch._inductor.compile_fx.compile_fx_inner", use="calling Inductor", lost=_INDUCTOR
)
INDUCTOR_CONFIG = Row[Any]("torch._inductor.config", use="Inductor's options", lost=_INDUCTOR)
MODE_OPTIONS = Row[Callable[[str], Mapping[str, Any]]](
    "torch._inductor.list_mode_options",
    use="the options that a mode of Inductor stands for",
    lost="the backend inductor takes no mode",
)

# What AOTAutograd says of a graph

METADATA = Row[type[Any]](
    "torch._functorch._aot_autograd.schemas.ViewAndMutationMeta",
    use="knowing what AOTAutograd has found out about a graph",
    lost=_OP_BY_OP,
)


@dataclass(frozen=True, slots=True)
class InputInfo:
    """What a graph does to an input."""

    mutates_data: bool
    mutates_metadata: bool
    """Sizes, strides, or where in its memory it begins."""
    is_written: bool
    """Its data, or its metadata."""
    requires_grad: bool
    refused: bool
    """Whether autograd sees a write to its data: eager code may refuse it."""
    mutation: str
    """Where the write happens."""


@dataclass(frozen=True, slots=True)
class OutputInfo:
    """What a graph returns."""

    kind: str
    raw_type: type
    base: int | None
    """The input that it is a view of, or is."""
    requires_grad: bool
    has_tangent: bool
    """Whether it requires a gradient in the backward graph."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What AOTAutograd has found out about a graph."""

    raw: Any
    inputs: tuple[InputInfo, ...]
    outputs: tuple[OutputInfo, ...]
    bases: int
    """Tensors that are returned because results are views of them."""
    is_plain: bool
    """Whether there is nothing that few graphs have: views among results, tokens."""


def metadata_of(raw: Any) -> Metadata:
    """Read what AOTAutograd says.

    Raises:
        Missing: it says it in another way.
    """
    METADATA.get()
    try:
        return Metadata(
            raw,
            tuple(map(_input, raw.input_info)),
            tuple(map(_output, raw.output_info)),
            raw.num_intermediate_bases,
            _is_plain(raw),
        )
    except AttributeError as error:
        raise Missing(METADATA, f"does not say what it did ({error})") from error


def _input(info: Any) -> InputInfo:
    hidden = info.mutations_under_no_grad_or_inference_mode or info.mutations_hidden_from_autograd
    return InputInfo(
        mutates_data=bool(info.mutates_data),
        mutates_metadata=bool(info.mutates_metadata),
        is_written=bool(info.mutates_data or info.mutates_metadata),
        requires_grad=bool(info.requires_grad),
        refused=bool(info.mutates_data and not hidden),
        mutation=info.mutation_type.name,
    )


def _output(info: Any) -> OutputInfo:
    return OutputInfo(
        kind=info.output_type.name,
        raw_type=info.raw_type,
        base=info.base_idx,
        requires_grad=bool(info.requires_grad),
        # torch 2.11 has one for both.
        has_tangent=bool(getattr(info, "requires_grad_for_backward", info.requires_grad)),
    )


_COUNTS = (
    "num_intermediate_bases",
    "num_mutated_inp_runtime_indices",
    "num_outputs_aliased",
    "num_opaque_objects_saved_for_bw",
    "num_tensors_saved_with_no_vc_check",
    "num_backward_tokens",
    "num_graphsafe_rng_states",
    "num_mutated_graph_handled_indices",
)
_OTHERS = frozenset(
    """
    act_input_indices act_input_paths bw_donated_idxs compile_id_str deterministic
    grad_enabled_mutation graphsafe_rng_device graphsafe_rng_state_index
    indices_of_inputs_that_requires_grad_with_mutations_in_bw input_info is_train
    keep_input_mutations mutated_inp_stream_indices num_symints_saved_for_bw output_info
    saved_tensor_is_graph_input static_input_indices subclass_fw_graph_out_meta
    subclass_inp_meta subclass_tangent_meta
    tangent_source_stack_traces tokens traced_tangent_metas traced_tangents
    traced_tangents_descs
    """.split()
)
"""What it says besides, in all versions that are known."""


def _is_plain(raw: Any) -> bool:
    return (
        all(getattr(raw, name) in (0, None) for name in _COUNTS)
        and not raw.is_rng_op_functionalized
        and not raw.tokens
        and not raw.indices_of_inputs_that_requires_grad_with_mutations_in_bw
        and raw.grad_enabled_mutation is None
        and not any(map(_is_set, _unknown(raw)))
    )


def _unknown(raw: Any) -> list[object]:
    """What a newer version may say, and nobody here knows what it means."""
    fields = (field.name for field in dataclasses.fields(raw))
    return [getattr(raw, name) for name in fields if name not in _OTHERS and name not in _COUNTS]


def _is_set(value: object) -> bool:
    return value is not None and value is not False and value not in (0, "", [], (), {})


def keep_saved(raw: Any) -> None:
    """Nothing that is saved is freed early, which would forbid `backward(retain_graph=True)`, or
    gets an attribute."""
    raw.bw_donated_idxs = []
    raw.dynamic_saved_tensors_idxs = {}


def leave_results(raw: Any) -> None:
    """No result gets an attribute."""
    raw.dynamic_outputs = False


def forward_returns(raw: Any) -> int | None:
    """How many of the forward half's results are not saved for the backward half."""
    return getattr(raw, "num_forward_returns", None)


def _function_of(node: Any) -> Any:
    try:
        return FUNCTION_OF_NODE.get()(node)
    except AttributeError as error:
        if from_outside(error):
            raise
        return None


def is_node_of(node: Any, metadata: Metadata) -> bool:
    """Whether a node of autograd is that of AOTAutograd's function for such a graph."""
    return getattr(_function_of(node), "metadata", None) is metadata.raw


def takes_a_list(run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Tell AOTAutograd that a function takes its arguments out of a list: they can be freed."""
    run._boxed_call = True  # type: ignore[attr-defined]
    return run
