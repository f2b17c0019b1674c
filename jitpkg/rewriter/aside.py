"""Running a graph aside: for the time that it takes, with nothing to be seen of it afterwards.

Results are dropped, tensors that the graph writes to are copied before, and random streams are set
back. So the next call finds all as it was, and no result depends on whether anything was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts.random_streams import RandomStreams
from jitpkg.facts.thread_state import snapshot
from jitpkg.internals.ops import OpOverloadPacket
from jitpkg.tracer.trace import Trace

Function = Callable[..., Any]

_MOST_BYTES = 2**30
"""Of inputs: beyond, there may be no room for a second set of results."""

_PLAIN_MODULES = ("torch", "_operator", "math", "builtins")
_PLAIN_SPACES = frozenset({"aten", "prims"})


@dataclass(frozen=True, eq=False, slots=True)
class Aside:
    """How to run a graph aside."""

    written: frozenset[int]
    """Positions of inputs that it writes to."""
    streams: RandomStreams | None
    """What it draws from."""

    @classmethod
    def of(cls, trace: Trace, module: fx.GraphModule) -> Aside | None:
        """None where somebody might see it."""
        inputs = [i.example for i in trace.inputs]
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        rest = [each for each in inputs if not isinstance(each, torch.Tensor)]
        sources = {i.source: k for k, i in enumerate(trace.inputs)}
        written = {sources.get(source) for source in trace.writes}
        if (
            not trace.repeats
            or None in written
            or not all(map(_is_plain_tensor, tensors))
            or not all(isinstance(each, int | float | bool) for each in rest)
            or not all(map(_is_plain_call, module.graph.nodes))
            or any(device.type != "cpu" for device in trace.draws)
        ):
            return None
        positions = frozenset(k for k in written if k is not None)
        return cls(positions, RandomStreams(trace.draws) if trace.draws else None)

    def timed(
        self,
        functions: Sequence[Function],
        inputs: Sequence[Any],
        clock: Callable[[], float],
        budget: float,
        rounds: int,
    ) -> list[list[float]] | None:
        """Run functions of the same inputs in turn; for each the seconds that its runs took.

        With gradients, a run is a forward and a backward pass.

        Args:
            budget: seconds after which no more rounds begin; one is made in any case.
            rounds: how many are made at most.
        """
        if sum(x.nbytes for x in inputs if isinstance(x, torch.Tensor)) > _MOST_BYTES:
            return None
        put_back = snapshot()
        saved = () if self.streams is None else self.streams.save()
        took: list[list[float]] = [[] for _ in functions]
        try:
            given = self._copies(inputs)
            if _are_gradients_computed(given):
                _differentiate_something()
            began = clock()
            for _ in range(rounds):
                for function, seconds in zip(functions, took, strict=True):
                    seconds.append(_run(function, given, clock))
                    put_back()
                if clock() - began > budget:
                    break
        finally:
            put_back()
            if self.streams is not None:
                self.streams.restore(saved)
        return took

    def _copies(self, inputs: Sequence[Any]) -> list[Any]:
        """Tensors without history; where one is written to, all that share its memory are copied
        together."""
        storages: dict[int, torch.UntypedStorage] = {}
        for k in self.written:
            storage = inputs[k].untyped_storage()
            storages[storage.data_ptr()] = storage.clone()
        return [_copy(x, storages) if isinstance(x, torch.Tensor) else x for x in inputs]


def _copy(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    made = tensor.detach()
    storage = storages.get(tensor.untyped_storage().data_ptr())
    if storage is not None:
        made = torch.empty((), dtype=tensor.dtype, device=tensor.device).set_(
            storage, tensor.storage_offset(), tensor.shape, tensor.stride()
        )
    return made.requires_grad_(tensor.requires_grad)


def _run(function: Function, inputs: Sequence[Any], clock: Callable[[], float]) -> float:
    began = clock()
    results = function(*inputs)
    seconds = clock() - began
    ends = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
    if not ends:
        return seconds
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    ones = [torch.ones_like(x) for x in ends]
    began = clock()
    torch.autograd.grad(ends, leaves, ones, allow_unused=True)
    return seconds + clock() - began


def _are_gradients_computed(inputs: Sequence[Any]) -> bool:
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        return False
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)


def _differentiate_something() -> None:
    """The first backward pass of a process makes torch import things: a second."""
    x = torch.ones((), requires_grad=True)
    torch.autograd.grad([x * 2], [x], [torch.ones(())])


def _is_plain_tensor(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _is_plain_call(node: fx.Node) -> bool:
    """Whether a node does nothing that torch's own functions do not do."""
    target: Any = node.target
    if "generator" in node.kwargs:
        return False
    if node.op != "call_function":
        return node.op != "call_module"
    if isinstance(target, OpOverloadPacket) or hasattr(target, "namespace"):
        return getattr(target, "namespace", None) in _PLAIN_SPACES
    if isinstance(target, FunctionType):
        return (target.__module__ or "").partition(".")[0] in _PLAIN_MODULES
    owner = getattr(target, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
        return False
    module = getattr(target, "__module__", None) or "torch"
    return module.partition(".")[0] in _PLAIN_MODULES
