"""The one door to FakeTensor: a call's facts, by running it on tensors without data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from jitpkg.facts.tensor import TensorFacts, contiguous_stride, facts_of, why_not_plain


class DataDependent(Exception):
    """A result's shape or value depends on the data of a tensor."""


class NoFacts(Exception):
    """FakeTensor cannot say what an op returns."""


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


_HIDDEN_WRITES = {
    "aten::native_batch_norm": 5,
    "aten::cudnn_batch_norm": 5,
    "aten::miopen_batch_norm": 5,
}
"""Ops that write running statistics (arguments 3 and 4) although their schema does not say so, and
the position of the argument `training`."""


class _Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every ATen op of a call."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.random = False
        self.written: set[int] = set()
        """Identities of tensors that were written to without a trace in their version."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.random = True
        training = _HIDDEN_WRITES.get(func._schema.name)
        if training is not None and args[training]:
            self.written.update(id(statistic) for statistic in args[3:5])
        return func(*args, **(kwargs or {}))


class FakeFacts:
    """Facts by FakeTensor. Not safe for threads: the caller holds a lock."""

    def __init__(self) -> None:
        self._mode = FakeTensorMode(allow_non_fake_inputs=False)

    def of_call(self, call: Callable[..., Any], args: Any, kwargs: Any) -> Outcome:
        """The outcome of `call(*args, **kwargs)`, with `TensorFacts` in place of tensors.

        The same facts object in two places stands for one tensor.

        Grad mode, autocast and default dtype are the process's at the moment.

        Raises:
            DataDependent: the result depends on the data of a tensor.
            WouldRaise: the call raises on such arguments.
            NoFacts: there is no way to tell.
        """
        leaves, spec = pytree.tree_flatten((args, kwargs), is_leaf=_is_facts)
        observer = _Observer()
        with self._mode:
            made = {id(leaf): _fake(leaf) for leaf in leaves if isinstance(leaf, TensorFacts)}
            fakes = list(made.values())
            versions = [_version(fake) for fake in fakes]
            filled = [made.get(id(leaf), leaf) for leaf in leaves]
            fake_args, fake_kwargs = pytree.tree_unflatten(filled, spec)
            with observer, _translated_errors():
                result = call(*fake_args, **fake_kwargs)
            mutated = frozenset(
                k
                for k, fake in enumerate(fakes)
                if _version(fake) != versions[k] or id(fake) in observer.written
            )
            return _outcome(result, fakes, mutated, observer.random)


def _is_facts(leaf: object) -> bool:
    return isinstance(leaf, TensorFacts)


def _fake(facts: TensorFacts) -> torch.Tensor:
    """A fake tensor with these facts; the fake mode is on."""
    with torch.inference_mode(facts.is_inference):
        tensor = _fake_values(facts)
    if facts.cls is not torch.Tensor:
        return torch.nn.Parameter(tensor, requires_grad=facts.requires_grad)
    return tensor


def _fake_values(facts: TensorFacts) -> torch.Tensor:
    def empty() -> torch.Tensor:
        return torch.empty_strided(facts.size, facts.stride, dtype=facts.dtype, device=facts.device)

    if not facts.requires_grad or facts.cls is not torch.Tensor:
        return empty()
    if facts.is_leaf:
        return empty().requires_grad_()
    with torch.enable_grad():
        made = empty().requires_grad_().clone()
        if made.stride() != facts.stride or facts.stride != contiguous_stride(facts.size):
            made = made.as_strided(facts.size, facts.stride)
        return made


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@contextmanager
def _translated_errors() -> Iterator[None]:
    quiet = _LOG.disabled
    _LOG.disabled = True  # it logs what it raises
    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise DataDependent(str(error)) from error
    except (UnsupportedOperatorException, NotImplementedError) as error:
        raise NoFacts(str(error)) from error
    except Exception as error:
        raise WouldRaise(error) from error
    finally:
        _LOG.disabled = quiet


def _outcome(
    result: Any, fakes: list[torch.Tensor], mutated: frozenset[int], random: bool
) -> Outcome:
    leaves, spec = pytree.tree_flatten(result)
    by_identity = {id(fake): k for k, fake in enumerate(fakes)}
    by_storage: dict[int, int] = {}
    for k, fake in enumerate(fakes):
        by_storage.setdefault(fake.untyped_storage()._cdata, k)
    described: list[object] = []
    shares: list[int | None] = []
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            described.append(leaf)
            continue
        if (why := _why_not_plain(leaf)) is not None:
            raise NoFacts(f"the result is {why}")
        shares.append(by_storage.get(leaf.untyped_storage()._cdata))
        index = by_identity.get(id(leaf))
        described.append(_facts_of_fake(leaf) if index is None else TheArgument(index))
    return Outcome(
        pytree.tree_unflatten(described, spec),
        tuple(shares),
        tuple(map(_facts_of_fake, fakes)),
        mutated,
        random,
    )


def _why_not_plain(fake: torch.Tensor) -> str | None:
    why = why_not_plain(fake)
    return None if why is not None and why.startswith("a tensor subclass, FakeTensor") else why


def _facts_of_fake(fake: torch.Tensor) -> TensorFacts:
    facts = facts_of(fake)
    cls = torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor
    return TensorFacts(
        cls=cls,
        dtype=facts.dtype,
        device=fake.device,
        size=facts.size,
        stride=facts.stride,
        requires_grad=facts.requires_grad,
        is_leaf=facts.is_leaf,
        is_inference=facts.is_inference,
    )
