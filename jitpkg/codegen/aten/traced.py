"""What a recorder knows of a program's tensors, and what it notes on the nodes of its graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import torch
from torch import fx

from jitpkg.codegen.aten.views import View
from jitpkg.dataclass import dataclass
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals.ops import op_name

NO_GRAD = "no_grad"
"""Set for nodes of what runs with grad mode off, in `meta`."""

WRITTEN_TO = "written to"
"""Set for the nodes of values to which something is written that autograd does not see."""

WRITES_OVER = "writes over"
"""The key in `meta` of a node that stands for a write: the node of what its memory held before."""

REPLACES = "replaces"
"""The same, of the node of what the memory holds afterwards."""

ONE_OF_SEVERAL = "one of several"
"""Set for a node that stands for a write to a view that an op has returned with others."""

PART = "part"
"""The key in `meta` of the part of a graph that a node belongs to: see `Recorder.within`."""

NUMBER = "number"
"""The key in `meta` of a number for a node: see `Recorder.numbered`."""


class Declined(Exception):
    """A program that cannot be written down as a functional graph."""


@dataclass(eq=False, slots=True)
class Memory:
    """What tensors share."""

    input: int | None
    version: int = 0
    """How often it has been written to."""


@dataclass(eq=False, slots=True)
class Traced:
    """A tensor of the program."""

    tensor: torch.Tensor
    memory: Memory
    facts: TensorFacts
    parent: Traced | None = None
    view: View | None = None
    """What made it of `parent`."""
    grad_mode: bool = True
    """Grad mode where that was done."""
    node: fx.Node | None = None
    """What computes it as of `version` of its memory."""
    version: int = 0

    @property
    def is_unrecorded(self) -> bool:
        """Whether a view has no history: what is written to it has none, either."""
        if self.view is None:
            return False
        return not self.grad_mode or op_name(self.view.op) == "aten::detach"

    def base(self) -> Traced:
        return self if self.parent is None else self.parent.base()

    def shown(self) -> Iterator[Traced]:
        """This and the tensors that it is a view of."""
        each: Traced | None = self
        while each is not None:
            yield each
            each = each.parent

    def views(self) -> tuple[View, ...]:
        """From the base to this."""
        if self.parent is None or self.view is None:
            return ()
        return (*self.parent.views(), self.view)


@dataclass
class Log:
    """What a call has done so far."""

    nodes: list[fx.Node] = field(default_factory=list)
    read: list[tuple[Traced, fx.Node | None, int]] = field(default_factory=list)
    made: list[Traced] = field(default_factory=list)
    wrote: bool = False
