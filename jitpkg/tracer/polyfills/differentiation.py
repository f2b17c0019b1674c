"""What `backward()` means in a trace: gradients are an op of the graph, and `.grad` is assigned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

One = Tensor | None
Several = Tensor | Sequence[Tensor]


def backward_of_tensor(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Several | None = None,
) -> None:
    """`torch.Tensor.backward`"""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def backward(
    tensors: Several,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Several | None = None,
) -> None:
    """`torch.autograd.backward`"""
    if create_graph:
        refused("create_graph=True")
    if grad_variables is not None:
        refused("the argument grad_variables")
    roots = _several(tensors)
    if not roots:
        refused("no tensors")
    tangents = _tangents(roots, grad_tensors, False)
    leaves = leaves_of(roots, None if inputs is None else _several(inputs))
    if not leaves:
        return
    found = derivatives(roots, tangents, leaves, bool(retain_graph))
    for leaf, gradient in zip(leaves, found, strict=True):
        _accumulate(leaf, gradient)


def grad(
    outputs: Several,
    inputs: Several,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """`torch.autograd.grad`"""
    if is_grads_batched or not only_inputs or isinstance(inputs, dict):
        refused("is_grads_batched, only_inputs=False, or inputs by name")
    if materialize_grads and allow_unused is False:
        refused("materialize_grads without allow_unused, which raises")
    roots, wanted = _several(outputs), _several(inputs)
    if not roots or not wanted:
        refused("no tensors, which raises")
    tangents = _tangents(roots, grad_outputs, True)
    keep = create_graph if retain_graph is None else retain_graph
    found = asked(roots, tangents, wanted, bool(create_graph), bool(keep))
    if materialize_grads:
        return tuple(
            [
                torch.zeros_like(x, requires_grad=create_graph) if each is None else each
                for x, each in zip(wanted, found, strict=True)
            ]
        )
    if not allow_unused and any(each is None for each in found):
        refused("a gradient by what was not used, which raises")
    return found


def _several(given: Any) -> tuple[Any, ...]:
    return (given,) if given is None or torch.is_tensor(given) else tuple(given)


def _tangents(roots: tuple[Any, ...], given: Any, may_train: bool) -> tuple[Tensor, ...]:
    gradients = (None,) * len(roots) if given is None else _several(given)
    if len(gradients) != len(roots):
        refused("gradients of another number than tensors, which raises")
    pairs = zip(roots, gradients, strict=True)
    return tuple([_tangent(root, each, may_train) for root, each in pairs])


def _tangent(root: Any, given: Any, may_train: bool) -> Tensor:
    """The gradient of what is differentiated, by default that of a number by itself."""
    if not torch.is_tensor(root) or not root.requires_grad:
        refused("what requires no grad is differentiated, which raises")
    if given is None:
        if root.numel() != 1 or not root.is_floating_point():
            refused("what is differentiated is no number, which raises")
        return torch.ones_like(root, memory_format=torch.preserve_format)
    if not torch.is_tensor(given) or given.shape != root.shape:
        refused("a gradient of another shape, which raises")
    if given.requires_grad and not may_train:
        refused("a gradient that requires grad itself")
    if given.is_complex() != root.is_complex():
        refused("a gradient of another kind of number, which raises")
    return given


def _accumulate(leaf: Tensor, gradient: Tensor) -> None:
    before = leaf.grad
    if before is None:
        leaf.grad = gradient
        return
    with torch.no_grad():
        before.add_(gradient)


def leaves_of(roots: tuple[Tensor, ...], inputs: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
    """The leaves that get a gradient; the tracer answers."""
    raise NotImplementedError


def derivatives(
    roots: tuple[Tensor, ...],
    tangents: tuple[Tensor, ...],
    leaves: tuple[Tensor, ...],
    retain_graph: bool,
) -> tuple[Tensor, ...]:
    """The gradients of leaves; the tracer makes an op of it."""
    raise NotImplementedError


def asked(
    roots: tuple[Tensor, ...],
    tangents: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    create_graph: bool,
    retain_graph: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients of anything; the tracer makes an op of it."""
    raise NotImplementedError


def refused(why: str) -> NoReturn:
    """Call torch's function for real: the tracer ends the trace here."""
    raise NotImplementedError(why)
