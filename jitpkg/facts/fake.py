"""The one door to FakeTensor: a call's facts, by running it on tensors without data.

It answers for every op, takes 130-500 µs for each, and a second of imports for the first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.corrected import corrected_mode
from jitpkg.facts.decomposed import is_cast_inside, is_lstm, is_wrong, lstm_is_right, reads_lengths
from jitpkg.facts.meta import products_compare_sizes
from jitpkg.facts.outcome import (
    DataDependent,
    NeedsNumbers,
    NoFacts,
    Outcome,
    StandIns,
    WouldRaise,
    is_random,
    written_by,
)
from jitpkg.facts.rows.common import CPU
from jitpkg.facts.shape_env import Bridge, context_of, name_of, symint, test_of
from jitpkg.facts.tensor import (
    TensorFacts,
    facts_of,
    plain_classes,
    why_no_history,
    why_no_strides,
    why_not_plain,
)
from jitpkg.internals import Missing, Row, dispatch, fake_tensors, trees
from jitpkg.internals.tensors import BASE
from jitpkg.marks import Dims


class _Observer:
    """Sees every ATen op of a call."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode
        self.random = False
        self.written: set[int] = set()
        """The memory that was written to, perhaps without a trace in a version."""

    def see(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if is_random(func, args, kwargs):
            self.random = True
        written = written_by(func, args, kwargs)
        self.written |= written
        if not written or not self._mode.cache_enabled:
            return func(*args, **kwargs)
        self._mode.cache_enabled = False  # what is remembered gives an `out=` no other size
        try:
            return func(*args, **kwargs)
        finally:
            self._mode.cache_enabled = True


class FakeFacts:
    """Facts by FakeTensor. Not safe for threads: the caller holds a lock."""

    def __init__(self) -> None:
        self._mode = corrected_mode(allow_non_fake_inputs=False)

    def of_call(
        self, call: Callable[..., Any], args: Any, kwargs: Any, values: Mapping[str, int]
    ) -> Outcome:
        """See `jitpkg.facts.answers.Facts.of_call`."""
        if reads_lengths(call, args, kwargs):
            raise DataDependent("the lengths of a packed sequence")
        if is_wrong(call, args, kwargs):
            raise NoFacts("torch's own decomposition of it is wrong")
        if is_cast_inside(call, args):
            raise NoFacts("autocast casts inside of it")
        if not values:
            return _asked(self._mode, call, args, kwargs)
        if is_lstm(call) and not lstm_is_right():
            raise NeedsNumbers("an LSTM, of which this PyTorch has a wrong decomposition")
        bridge = Bridge(values)
        mode = corrected_mode(allow_non_fake_inputs=False, shape_env=bridge.env)
        mode.cache_enabled = False
        with dispatch.PYTHON.get()() if products_compare_sizes() else nullcontext():
            outcome = _asked(mode, call, args, kwargs, bridge)
        return replace(outcome, relations=bridge.relations())


def _asked(
    mode: Any,
    call: Callable[..., Any],
    args: Any,
    kwargs: Any,
    bridge: Bridge | None = None,
) -> Outcome:
    observer = _Observer(mode)
    with mode:
        stand_ins = (
            StandIns(args, kwargs)
            if bridge is None
            else StandIns(args, kwargs, number=bridge.symint)
        )
        with dispatch.mode(observer.see):
            result = _translating(partial(stand_ins.call, call))
        return stand_ins.outcome(
            result if bridge is None else trees.mapped(partial(_number, bridge), result),
            partial(_facts, bridge),
            written=frozenset(observer.written),
            random=observer.random,
        )


def _number(bridge: Bridge, leaf: Any) -> Any:
    match leaf:
        case torch.SymInt():
            return bridge.length(leaf)
        case torch.SymBool():
            return bool(leaf)
        case torch.SymFloat():
            raise NeedsNumbers("a floating number")
        case _:
            return leaf


@dataclass(frozen=True, slots=True)
class Fakes:
    """What stands for the inputs of a graph while it is compiled: tensors without their data."""

    mode: Any
    """Of FakeTensor."""
    values: list[Any]
    """Fake tensors, and SymInts for ints."""
    varies: frozenset[int] = frozenset()
    """Which of them have symbols."""

    def test(self) -> Callable[..., bool]:
        """A function of real inputs: whether what has been relied on holds for them, too."""
        return test_of(self.mode.shape_env, self.values, self.varies)


def relied_on(mode: Any) -> int:
    """How many things torch has relied on about the symbols of a mode, so far."""
    return len(mode.shape_env.guards) if mode is not None and mode.shape_env is not None else 0


def fakes(tensors: Sequence[torch.Tensor]) -> Fakes:
    """Real tensors without their data, for a backend: views, aliases and leaves as they are.

    Sizes are plain numbers: an entry's guards hold them fixed.
    """
    mode = corrected_mode(shape_env=fake_tensors.SHAPE_ENV.get()())
    given = [apart(tensor) for tensor in tensors]
    with mode:
        made = [mode.from_tensor(tensor, static_shapes=True) for tensor in given]
    return Fakes(mode, made)


def apart(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor, where it is a view of one of a subclass, as a view of a plain one."""
    base = BASE.get()(tensor)
    if base is None or type(base) in plain_classes():
        return tensor
    with torch.no_grad():
        made = tensor.new_empty(0)
        made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    return made.requires_grad_().view_as(made) if tensor.requires_grad else made


def varying(values: Sequence[Any], dims: Sequence[Dims | None]) -> Fakes:
    """The same, with symbols for ints and for these dims of tensors."""
    env = fake_tensors.SHAPE_ENV.get()(duck_shape=False)
    mode = corrected_mode(shape_env=env)
    given = [apart(value) if isinstance(value, torch.Tensor) else value for value in values]
    made: list[Any] = []
    with mode:
        for k, (value, varying) in enumerate(zip(given, dims, strict=True)):
            source = fake_tensors.named(name_of(k))
            if not isinstance(value, torch.Tensor):
                made.append(symint(env, value, source))
                continue
            context = context_of(value, varying or Dims())
            made.append(mode.from_tensor(value, source=source, symbolic_context=context))
    varies = (k for k, varying in enumerate(dims) if varying is None or varying)
    return Fakes(mode, made, frozenset(varies))


_LOG = logging.getLogger(fake_tensors.LOGGER)


def _translating(call: Callable[[], Any]) -> Any:
    """What a call returns, or one of our exceptions for what it raises.

    No context manager: the generator of one that raises another exception makes a cycle of the
    first one's traceback, which keeps all that is being traced until the collector comes.
    """
    quiet = _LOG.disabled
    _LOG.disabled = True  # it logs what it raises
    data_dependent = _known(fake_tensors.DATA_DEPENDENT, fake_tensors.DYNAMIC_SHAPE)
    unsupported: tuple[type[Exception], ...] = (
        NotImplementedError,
        *_known(fake_tensors.UNSUPPORTED),
    )
    try:
        return call()
    except data_dependent as error:
        raise DataDependent(str(error)) from error
    except (NeedsNumbers, Missing):
        raise
    except unsupported as error:
        raise NoFacts(str(error)) from error
    except Exception as error:
        if "fake impl" in str(error):  # torch.library's own words for an op that has none
            raise NoFacts("no fake implementation is registered") from error
        raise WouldRaise(error) from error
    finally:
        _LOG.disabled = quiet


def _known(*rows: Row[type[Exception]]) -> tuple[type[Exception], ...]:
    return tuple(cls for row in rows if (cls := row.found()) is not None)


def _facts(bridge: Bridge | None, fake: torch.Tensor) -> TensorFacts:
    why = why_not_plain(fake)
    if why is not None and why.startswith("a tensor subclass, FakeTensor"):
        why = why_no_strides(fake) or why_no_history(fake)
    if why is not None:
        raise NoFacts(f"the result is {why}")
    facts = facts_of(fake)
    cls = torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor
    return TensorFacts(
        cls=cls,
        dtype=facts.dtype,
        device=CPU if fake.device.type == "cpu" else fake.device,  # no tensor says "cpu:0"
        size=facts.size if bridge is None else tuple(map(bridge.length, facts.size)),
        stride=facts.stride if bridge is None else tuple(map(bridge.length, facts.stride)),
        requires_grad=facts.requires_grad,
        is_leaf=facts.is_leaf,
        is_inference=facts.is_inference,
    )
