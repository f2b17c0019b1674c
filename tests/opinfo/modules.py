"""PyTorch's own module database, as rows like those of its op database: a call of a module, in
training and in evaluation, with its parameters and buffers beside it so that they are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

DTYPES = frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64})
"""Those in which each module is tried; what eager code refuses must be refused."""

CONTEXTS = frozenset(
    """
    plain grad second_derivatives no_grad autocast_inside autocast_inside_grad autocast_around
    autocast_around_grad
    """.split()
)
"""Those that leave arguments as they are."""


class Sample(NamedTuple):
    """As a sample of the op database."""

    input: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModuleOp:
    """What the op database says of an op, of a module."""

    info: Any
    training: bool

    @property
    def formatted_name(self) -> str:
        return f"module_{self.info.formatted_name}_{'train' if self.training else 'eval'}"

    @property
    def name(self) -> str:
        return self.formatted_name

    op: Callable[..., Any] = lambda module, state, args, kwargs: module(*args, **kwargs)
    inplace_variant: None = None
    supports_autograd: bool = True
    contexts: frozenset[str] = CONTEXTS

    def supported_dtypes(self, device: str) -> frozenset[torch.dtype]:
        return DTYPES

    def supported_backward_dtypes(self, device: str) -> frozenset[torch.dtype]:
        return DTYPES

    @staticmethod
    def sample_inputs_func(
        op: ModuleOp, device: str, dtype: torch.dtype, grad: bool
    ) -> Iterator[Sample]:
        given = {"device": device, "dtype": dtype, "requires_grad": grad}
        for each in op.info.module_inputs_func(op.info, **given, training=op.training):
            if each.forward_input is None:
                continue
            how = each.constructor_input
            module = op.info.module_cls(*how.args, **how.kwargs).to(device, dtype)
            module.train(op.training)
            state = state_of(module)
            for x in state:
                x.requires_grad_(grad and isinstance(x, nn.Parameter))
            forward = each.forward_input
            yield Sample(module, (state, tuple(forward.args), dict(forward.kwargs)), {})


def state_of(module: nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers that are there already."""
    return [x for x in (*module.parameters(), *module.buffers()) if not is_lazy(x)]


def modules() -> list[ModuleOp]:
    """Each module in training and in evaluation."""
    from torch.testing._internal.common_modules import module_db  # noqa: PLC0415  # seconds

    return [ModuleOp(info, training) for info in module_db for training in (True, False)]
