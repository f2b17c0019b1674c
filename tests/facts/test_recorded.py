"""Functions that are recorded on stand-ins come to the ops that they come to on the CPU, and so do
their gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch.nn import functional

from jitpkg.codegen.aten.views import VIEWS
from jitpkg.facts import single
from jitpkg.facts.rows.common import Unsure
from jitpkg.facts.single import Singles, Unanswered, elsewhere
from jitpkg.facts.tensor import facts_of
from jitpkg.internals import dispatch, trees
from jitpkg.internals.ops import op_name, schema
from tests.opinfo import changes
from tests.opinfo.samples import database
from tests.portions import portion
from tests.torch_versions import RELEASE

SAMPLES = 12
"""Of each op in the database."""

FEW = 20
"""Calls of a function that are all compared; of more, half."""

LAID_OUT = 4
"""Of these, those whose tensors lie in memory in other ways, too."""

NAMED = sorted(single.RECORDED)

OTHERWISE = ("mish",)
"""Functions whose gradient is an op of its own on a CPU, and made of others on stand-ins."""

LIE_OTHERWISE = frozenset(
    "batch_norm diag_embed glu group_norm huber_loss pixel_unshuffle prelu".split()
    + "diagonal_scatter fft_irfftn index_fill select_scatter slice_scatter".split()
    * (RELEASE < (2, 12))
)
"""Functions whose results lie otherwise on stand-ins, of some operands: the recorder sees that, and
declines."""

READS = ("narrow", "repeat_interleave")
"""Functions that read a number out of a tensor, where the recorder declines."""


NO_GRADIENT = frozenset({"aminmax"} if RELEASE < (2, 12) else ())
"""Functions that this PyTorch does not differentiate."""


@dataclass(frozen=True)
class Ops:
    """The ops of a call, and of its gradients, with what is known of their operands."""

    forward: list[str]
    backward: list[str] | None
    """None where the recorder declines."""
    lie: list[tuple[int, ...]]
    """How its results lie in memory."""


def ops_of(function: Any, args: Any, kwargs: Any, run: Any = None) -> Ops:
    seen: list[str] = []

    def see(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        seen.append(f"{func}{trees.mapped(described, (args, dict(kwargs)))}")
        return run(func, args, kwargs) if run else func(*args, **kwargs)

    with torch.enable_grad(), dispatch.mode(see):
        results = trees.leaves_of(function(*args, **kwargs))
        forward = len(seen)
        ends = [x for x in results if x.requires_grad]
        leaves = [x for x in trees.leaves_of((args, kwargs)) if is_leaf(x)]
        declined = False
        if ends and leaves:
            tangents = [torch.ones_like(x) for x in ends]
            try:
                torch.autograd.grad(ends, leaves, tangents, allow_unused=True)
            except (Unsure, NotImplementedError):
                declined = True
    lie = [x.stride() for x in results]
    return Ops(seen[:forward], None if declined else seen[forward:], lie)


def is_leaf(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


IMAGES: Mapping[str, Any] = MappingProxyType(
    {
        "group_norm": lambda x: functional.group_norm(x, x.shape[1]),
        "instance_norm": functional.instance_norm,
        "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x, 2),
        "adaptive_max_pool2d": lambda x: functional.adaptive_max_pool2d(x, 2),
        "local_response_norm": lambda x: functional.local_response_norm(x, 2),
        "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x, 1),
        "channel_shuffle": lambda x: functional.channel_shuffle(x, 1),
        "glu": lambda x: functional.glu(x, -1),
    }
)
"""Calls for images, of which torch has no sample calls."""


def as_recorded(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What the recorder answers, where it does not run the op on stand-ins."""
    if op_name(func) in VIEWS or schema(func).is_mutable:
        return func(*args, **kwargs)
    try:
        return Singles().of_op(func, args, kwargs)
    except Unanswered:
        return func(*args, **kwargs)


def described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        seen = [s for n, s in zip(value.shape, value.stride(), strict=True) if n > 1]
        return tuple(value.shape), value.numel() and seen, value.dtype
    return "device" if isinstance(value, torch.device) else value


def without_data(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return single.stand_in(facts_of(x)).requires_grad_(x.requires_grad)


LAYOUTS: tuple[changes.Change, ...] = (
    changes.images,
    changes.expanded,
    changes.sliced,
    changes.spaced,
    changes.transposed,
)


def samples_of(name: str) -> Iterator[tuple[Any, Any, Any]]:
    """Sample calls, each with tensors that lie in memory in several ways."""
    if name in CELLS:
        yield from _cell_calls(name)
    for op in database():
        if getattr(op.op, "__name__", "") != name or op.name.startswith("masked."):
            continue
        every = op.sample_inputs("cpu", torch.float32, requires_grad=True)
        for k, sample in enumerate(islice(every, SAMPLES)):
            call = (sample.input, *sample.args), sample.kwargs
            yield op.op, *call
            for change in LAYOUTS if k < LAID_OUT else ():
                for versions in change(op, call):
                    yield op.op, *versions[0]
    if name in IMAGES:
        for x in (torch.randn(2, 6, 4, 4), torch.randn(2, 6, 1, 4), torch.randn(2, 1, 4, 4)):
            for made in (x, x.to(memory_format=torch.channels_last), x.transpose(0, 1)):
                yield IMAGES[name], (made.clone().requires_grad_(),), {}


def _cell_calls(name: str) -> Iterator[tuple[Any, Any, Any]]:
    """Of recurrent cells, which the database does not have: with biases and without."""
    gates = CELLS[name]

    def drawn(*size: int) -> torch.Tensor:
        return torch.randn(*size, requires_grad=True)

    for size in (1, 3):
        x, state = drawn(size, 4), drawn(size, 5)
        states = (state, drawn(size, 5)) if name == "lstm_cell" else state
        weights = drawn(gates * 5, 4), drawn(gates * 5, 5)
        for biases in ((), (drawn(gates * 5), drawn(gates * 5))):
            yield getattr(torch, name), (x, states, *weights, *biases), {}


CELLS = {"gru_cell": 3, "lstm_cell": 4, "rnn_relu_cell": 1, "rnn_tanh_cell": 1}
"""Each, and how many matrices its weights are."""


@pytest.mark.parametrize("name", NAMED)
def test_same_ops(name: str) -> None:
    if name not in CELLS and not any(getattr(op.op, "__name__", "") == name for op in database()):
        pytest.skip("this PyTorch has no sample calls of it")
    compared = 0
    every = list(samples_of(name))
    for function, args, kwargs in portion(every, 4, name) if len(every) > FEW else every:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wanted = ops_of(function, args, kwargs)
            except (RuntimeError, ValueError):  # of a sample that is to raise
                continue
            given = elsewhere(trees.mapped(without_data, (args, kwargs)))
            try:
                found = ops_of(function, *given, as_recorded)
            except RuntimeError:
                assert name in READS
                continue
        if found.lie != wanted.lie:
            assert name in LIE_OTHERWISE
            continue
        assert found.forward == wanted.forward
        assert found.backward in (None, wanted.backward) or name in OTHERWISE
        compared += 1
    assert compared or name in NO_GRADIENT
