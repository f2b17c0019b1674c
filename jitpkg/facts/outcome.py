"""What a call does to tensors, described by facts; or why that cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts.sizes import Length, Relation, Size
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals import tensors, trees
from jitpkg.internals.ops import OpOverload, op_name, schema
from jitpkg.internals.tensors import memory


class DataDependent(Exception):
    """A result's shape or value depends on the data of a tensor."""


class NoFacts(Exception):
    """There is no way to say what an op returns."""


class NeedsNumbers(Exception):
    """The answer is known only where sizes that vary are numbers."""


class WouldRaise(Exception):
    """The op raises on tensors like these.

    Attributes:
        error: what it raised.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class TheArgument:
    """A result that is an argument itself, as an in-place op's is."""

    index: int
    """Among the distinct tensor arguments, in the order in which pytree walks them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call returns and what it does to its arguments."""

    result: Any
    """The result's structure, with `TensorFacts` or `TheArgument` where it has tensors."""
    shares: tuple[int | None, ...]
    """For each tensor of the result, the first tensor argument whose memory it shares."""
    arguments: tuple[TensorFacts, ...]
    """The facts of the tensor arguments after the call."""
    mutated: frozenset[int]
    """The tensor arguments that were written to."""
    random: bool
    """Whether the call draws from a random stream."""
    relations: tuple[Relation, ...] = ()
    """Under which it is so, where sizes vary."""
    warns: bool = False
    """Whether the call warns."""


def with_numbers(leaf: Any, number: Callable[[Size], Any]) -> Any:
    """An argument with numbers for expressions: for itself, or for the bounds of a slice."""
    match leaf:
        case Size():
            return number(leaf)
        case slice(start=start, stop=stop, step=step):
            return slice(*(with_numbers(part, number) for part in (start, stop, step)))
        case _:
            return leaf


class Shape(tuple[Any, ...]):
    """What a `torch.Size` is known to be: its lengths may be expressions."""


class StandIns:
    """Tensors without data that stand for the tensor arguments of one call."""

    def __init__(
        self,
        args: Any,
        kwargs: Any,
        device: torch.device | None = None,
        number: Callable[[Length], Any] = lambda length: length,
    ) -> None:
        """Make one for each distinct `TensorFacts`, on `device` or else on its own.

        `number` makes numbers of lengths that are expressions.

        Raises:
            NoFacts: nothing can stand for one of them.
        """
        leaves, self._spec = trees.flatten((args, kwargs), is_leaf=_is_facts)
        made = {id(f): _stand_in(f, device, number) for f in leaves if isinstance(f, TensorFacts)}
        self.tensors = list(made.values())
        numbers = (with_numbers(leaf, number) for leaf in leaves)
        self._leaves = [made.get(id(leaf), leaf) for leaf in numbers]
        self._versions = [_version(tensor) for tensor in self.tensors]
        self._makes_size = False

    def call(self, function: Callable[..., Any]) -> Any:
        args, kwargs = trees.unflatten(self._leaves, self._spec)
        made = function(*args, **kwargs)
        self._makes_size = isinstance(made, torch.Size)
        return made

    def outcome(
        self,
        result: Any,
        facts: Callable[[torch.Tensor], TensorFacts],
        *,
        written: frozenset[int],
        random: bool,
    ) -> Outcome:
        """What a call did that returned `result`.

        Args:
            facts: reads the facts of a stand-in or of a tensor that the call made.
            written: the memory that was written to, perhaps without a trace in a version.
            random: whether the call draws from a random stream.
        """
        by_identity = {id(tensor): k for k, tensor in enumerate(self.tensors)}
        by_storage: dict[int, int] = {}
        for k, tensor in enumerate(self.tensors):
            by_storage.setdefault(memory(tensor), k)
        leaves, spec = trees.flatten(result)
        described: list[object] = []
        shares: list[int | None] = []
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                described.append(leaf)
                continue
            index = by_identity.get(id(leaf))
            described.append(facts(leaf) if index is None else TheArgument(index))
            shares.append(by_storage.get(memory(leaf)))
        mutated = frozenset(
            k
            for k, tensor in enumerate(self.tensors)
            if _version(tensor) != self._versions[k] or memory(tensor) in written
        )
        return Outcome(
            Shape(described) if self._makes_size else trees.unflatten(described, spec),
            tuple(shares),
            tuple(map(facts, self.tensors)),
            mutated,
            random,
        )


def _is_facts(leaf: object) -> bool:
    return isinstance(leaf, TensorFacts)


def _stand_in(
    facts: TensorFacts, device: torch.device | None, number: Callable[[Length], Any]
) -> torch.Tensor:
    size, stride = tuple(map(number, facts.size)), tuple(map(number, facts.stride))
    with torch.inference_mode(facts.is_inference):
        tensor = _values(facts, size, stride, device or facts.device)
    if facts.cls is not torch.Tensor:
        return torch.nn.Parameter(tensor, requires_grad=facts.requires_grad)
    return tensor


def _values(
    facts: TensorFacts, size: tuple[Any, ...], stride: tuple[Any, ...], device: torch.device
) -> torch.Tensor:
    if facts.is_leaf or not facts.requires_grad or facts.cls is not torch.Tensor:
        made = torch.empty_strided(size, stride, dtype=facts.dtype, device=device)
        return made.requires_grad_(facts.requires_grad and facts.cls is torch.Tensor)
    if not (facts.dtype.is_floating_point or facts.dtype.is_complex):
        raise NoFacts("integers that require grad, for floats that do were written to them")
    reach = sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    memory = torch.empty(max(reach, 1), dtype=facts.dtype, device=device, requires_grad=True)
    with torch.enable_grad():
        return memory.clone().as_strided(size, stride)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensors.VERSION.get()(tensor)


HIDDEN_WRITES = {
    "aten::batch_norm": 5,
    "aten::instance_norm": 5,
    "aten::native_batch_norm": 5,
    "aten::cudnn_batch_norm": 5,
    "aten::miopen_batch_norm": 5,
}
"""Ops that write running statistics (arguments 3 and 4) although their schema does not say so, and
the position of the argument `training`."""


def written_by(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> set[int]:
    """The memory that an ATen op writes to. Versions do not tell where its tensors, or what they
    are views of, are of inference mode, or where the op is called by another one."""
    training = HIDDEN_WRITES.get(op_name(op))
    if training is not None and args[training]:
        return {memory(statistic) for statistic in args[3:5] if statistic is not None}
    if not schema(op).is_mutable:
        return set()
    found: list[Any] = []
    for position, argument in enumerate(schema(op).arguments):
        if argument.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            found.extend(given if isinstance(given, list | tuple) else [given])
    return {memory(each) for each in found if isinstance(each, torch.Tensor)}


def is_random(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an ATen op draws from a random stream: attention does where it drops something."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        return False
    for position, argument in enumerate(schema(op).arguments):
        if argument.name == "dropout_p":
            given = args[position] if position < len(args) else kwargs.get("dropout_p")
            return bool(argument.default_value if given is None else given)
    return True


def draws(node: fx.Node) -> bool:
    """Whether a node of an ATen graph draws from a random stream."""
    target = node.target
    return isinstance(target, OpOverload) and is_random(target, node.args, node.kwargs)


def draws_otherwise(node: fx.Node) -> bool:
    """Whether a node of an ATen graph stands for an op that fills a tensor with random numbers in
    place, and draws them in another order: they lie in another way."""
    target = node.target
    if not isinstance(target, OpOverload) or op_name(target) not in _FILLING:
        return False
    if len(node.args) == 1 and op_name(target) == "aten::bernoulli":  # it stands for itself
        return False
    filled, made = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    if any(type(n) is int and n == 0 for n in filled.stride()):
        return False  # expanded: eager code fills no such tensor, dropout's mask is drawn of it
    return tuple(filled.stride()) != tuple(made.stride())


_FILLING = frozenset(
    f"aten::{name}"
    for name in """
        bernoulli uniform normal_functional exponential cauchy geometric log_normal random
    """.split()
)
