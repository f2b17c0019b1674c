"""A training graph as one autograd function of our own, where nothing but its tensors is at stake.

AOTAutograd's runtime looks at each call for what few graphs have: writes to inputs, views among
results, subclasses, symbolic sizes. That takes 150 us for a forward and a backward call. Where a
graph has none of it, its two halves are called directly, in 25 us; calls that are unlike others
still take the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.autograd.function import FunctionCtx

from jitpkg.codegen.partial_backward import Halves, refusal

Function = Callable[..., Any]


def direct(
    gm: fx.GraphModule, inputs: Sequence[Any], halves: Halves, metadata: Any, long_way: Function
) -> Function | None:
    """A function of the graph's inputs; None where it is not so simple."""
    forward, backward = halves.forward_graph, halves.backward_graph
    if halves.forward is None or forward is None or backward is None:
        return None
    if not _is_simple(gm, inputs, metadata) or not _has_plain_ends(forward, inputs, metadata):
        return None
    (end,) = backward.find_nodes(op="output")
    gradients: Any = end.args[0]
    tangents = backward.find_nodes(op="placeholder")[-halves.tangents :]
    if len(gradients) != len(inputs) or halves.tangents == 0:
        return None
    differentiable = [k for k, info in enumerate(metadata.output_info) if info.requires_grad]
    if len(differentiable) != halves.tangents:
        return None
    layouts = tuple(_Layout.of(node.meta["val"]) for node in tangents)
    if any(type(n) is not int for layout in layouts for n in (*layout.size, *layout.stride)):
        return None
    unused = tuple(k for k, gradient in enumerate(gradients) if gradient is None)
    apply = _autograd_function(halves, len(metadata.output_info), differentiable, layouts)
    is_plain = _is_plain

    def run(*given: Any) -> Any:
        if not is_plain():
            return long_way(*given)
        if unused:  # then no gradient goes there: eager code would say that it was not used
            given = tuple(x.detach() if k in unused else x for k, x in enumerate(given))
        return apply(*given)

    return run


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the backward graph takes a gradient to be."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, value: torch.Tensor) -> _Layout:
        return cls(tuple(value.shape), value.stride(), value.dtype, value.device)

    def zeros(self) -> torch.Tensor:
        made = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)
        return made.zero_()

    def copied(self, gradient: torch.Tensor) -> torch.Tensor:
        made = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)
        return made.copy_(gradient)


def _is_plain() -> bool:
    """Whether this call is like most: what else there is, AOTAutograd's runtime knows."""
    return (
        torch.is_grad_enabled()
        and not torch.is_inference_mode_enabled()
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch._C._is_any_autocast_enabled()
    )


def _is_simple(gm: fx.GraphModule, inputs: Sequence[Any], metadata: Any) -> bool:
    counts = (
        "num_intermediate_bases",
        "num_mutated_inp_runtime_indices",
        "num_outputs_aliased",
        "num_unsafe_view_outputs",
        "num_symints_saved_for_bw",
        "num_opaque_objects_saved_for_bw",
        "num_tensors_saved_with_no_vc_check",
        "num_backward_tokens",
        "num_graphsafe_rng_states",
        "num_mutated_graph_handled_indices",
    )
    return (
        _is_plain()
        and all(getattr(metadata, name, 0) in (0, None) for name in counts)
        and not metadata.is_rng_op_functionalized
        and not metadata.tokens
        and not metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw
        and metadata.grad_enabled_mutation is None
        and all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in inputs)
        and not any(info.mutates_data or info.mutates_metadata for info in metadata.input_info)
        and not any(node.target is torch._C._set_grad_enabled for node in gm.graph.nodes)
        and all(
            info.output_type.name == "non_alias" and issubclass(info.raw_type, torch.Tensor)
            for info in metadata.output_info
        )
    )


def _has_plain_ends(forward: fx.Graph, inputs: Sequence[Any], metadata: Any) -> bool:
    """Whether the forward graph takes each input, and returns tensors that it makes itself."""
    given = forward.find_nodes(op="placeholder")
    (end,) = forward.find_nodes(op="output")
    values: Any = end.args[0]
    returned = values[: len(metadata.output_info)]
    made = all(isinstance(node, fx.Node) and node.op == "call_function" for node in returned)
    saved = all(isinstance(node.meta.get("val"), torch.Tensor) for node in values)
    return len(given) == len(inputs) and made and saved and len(set(returned)) == len(returned)


def _autograd_function(
    halves: Halves, results: int, differentiable: Sequence[int], layouts: tuple[_Layout, ...]
) -> Function:
    assert halves.forward is not None
    forward_half: Function = halves.forward
    part = halves.part
    constant = [k for k in range(results) if k not in differentiable]

    class Kernels(torch.autograd.Function):
        """The two halves of a graph."""

        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            made = forward_half(*inputs)
            # A view would keep what it is a view of, which may be the result of this function.
            ctx.save_for_backward(*(x.detach() if x._is_view() else x for x in made[results:]))
            ctx.set_materialize_grads(False)
            returned = tuple(made[:results])
            if constant:
                ctx.mark_non_differentiable(*(returned[k] for k in constant))
            return returned

        @staticmethod
        def backward(ctx: Any, *given: torch.Tensor | None) -> Any:
            gradients = [given[k] for k in differentiable]
            undefined = frozenset(k for k, each in enumerate(gradients) if each is None)
            if len(undefined) == len(gradients):
                return (None,) * len(ctx.needs_input_grad)
            arguments = list(ctx.saved_tensors)
            for gradient, layout in zip(gradients, layouts, strict=True):
                if gradient is None:
                    gradient = layout.zeros()
                elif (
                    gradient.stride() != layout.stride
                    or gradient.shape != layout.size
                    or gradient.is_neg()
                ):
                    gradient = layout.copied(gradient)
                arguments.append(gradient)
            del gradients, given
            run = part(undefined)
            if torch.is_grad_enabled():
                recorded: Function = _Gradients.apply
                return recorded(run, torch.empty(0, requires_grad=True), *arguments)
            return tuple(run(arguments))

    apply: Function = Kernels.apply
    return apply


class _Gradients(torch.autograd.Function):
    """Gradients that a graph is recorded of: its derivatives are refused in words that help."""

    @staticmethod
    def forward(_: FunctionCtx, run: Function, *arguments: torch.Tensor) -> Any:
        return tuple(run(list(arguments[1:])))

    @staticmethod
    def backward(_: FunctionCtx, *__: torch.Tensor | None) -> Any:
        raise refusal()
