"""What autograd says of a graph before it runs: the graph on stand-ins, with histories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import fx

from jitpkg.facts.elsewhere import elsewhere
from jitpkg.facts.outcome import NoFacts
from jitpkg.facts.rows import ROWS
from jitpkg.facts.rows.common import META, Unsure
from jitpkg.facts.tensor import TensorFacts, size_of, stride_of
from jitpkg.internals import dispatch, modes
from jitpkg.internals.ops import op_name
from jitpkg.interrupts import from_outside

Given = TensorFacts | int | float | bool


class Replayed:
    """A graph of torch functions whose ops have run on stand-ins, with autograd as in eager code.

    Attributes:
        made: what each node has returned.
    """

    def __init__(
        self,
        graph: fx.Graph,
        given: Mapping[fx.Node, Given],
        records: Callable[[fx.Node], bool],
    ) -> None:
        """Run it.

        Args:
            given: what its inputs are: of tensors the facts, none of which varies.
            records: whether autograd records what a node does.

        Raises:
            NoFacts: an op needs data, raises, or runs under autocast.
        """
        self.made: dict[fx.Node, Any] = {}

        def run() -> None:
            for node in graph.nodes:
                if node.op == "placeholder":
                    self.made[node] = stand_in(given[node])
                elif node.target is not modes.SET_GRAD_ENABLED.found():
                    with torch.set_grad_enabled(records(node)):
                        self.made[node] = _called(node, self.made)

        on_stand_ins(run)

    def gradients(
        self,
        roots: list[torch.Tensor],
        tangents: list[torch.Tensor],
        inputs: list[torch.Tensor],
        *,
        create: bool,
    ) -> tuple[torch.Tensor | None, ...]:
        """What `torch.autograd.grad` returns for these stand-ins.

        Raises:
            NoFacts: it raises, or a formula needs data.
        """
        found: tuple[torch.Tensor | None, ...] = on_stand_ins(
            lambda: torch.autograd.grad(
                roots, inputs, tangents, retain_graph=True, create_graph=create, allow_unused=True
            )
        )
        return found


def on_stand_ins(call: Callable[[], Any]) -> Any:
    """What a call returns whose tensors are stand-ins.

    Raises:
        NoFacts: it raises, or autocast is active.
    """
    if modes.ANY_AUTOCAST.get()():
        raise NoFacts("autocast")
    try:
        with torch.inference_mode(False), dispatch.mode(_answer):
            return call()
    except Exception as error:
        if from_outside(error):
            raise
        raise NoFacts(f"{type(error).__name__} on tensors without data: {error}") from error


def _answer(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    row = None if "out" in kwargs else ROWS.get(op_name(op))
    if row is not None:
        with suppress(Unsure):
            return row(op, args, kwargs)
    return op(*elsewhere(args), **elsewhere(kwargs))


def stand_in(given: Given) -> Any:
    """A tensor without data; a number is itself."""
    if not isinstance(given, TensorFacts):
        return given
    made = torch.empty_strided(size_of(given), stride_of(given), dtype=given.dtype, device=META)
    return made.requires_grad_(given.requires_grad)


def _called(node: fx.Node, made: Mapping[fx.Node, Any]) -> Any:
    args: Any
    kwargs: Any
    args, kwargs = elsewhere(fx.map_arg((node.args, node.kwargs), made.__getitem__))
    if isinstance(node.target, str):
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    return node.target(*args, **kwargs)
