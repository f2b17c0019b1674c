"""A sample of ops times contexts times backends. `make opinfo ARGS="--contexts all"` runs all."""

from __future__ import annotations

import random
from functools import cache
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch

from jitpkg import config
from tests.opinfo.allowed import ROWS
from tests.opinfo.changes import mapped
from tests.opinfo.check import Check, quiet
from tests.opinfo.compare import Allowed, Outcome, difference
from tests.opinfo.contexts import CONTEXTS
from tests.opinfo.run import BACKENDS, ONCE, float32_and_another
from tests.opinfo.samples import Task, database, tasks

ROOT = Path(__file__).parents[2]
OPS = """
    abs add addcmul addmm all amax arange argmax baddbmm bmm cat clamp clone constant_pad_nd cos
    cumsum diff div einsum empty_like eq exp expand flip full full_like gather index_add index_put
    index_select isinf kthvalue lerp linalg_vector_norm log_softmax logsumexp masked_fill
    matmul max_binary maximum mean mm mul narrow native_batch_norm native_layer_norm
    new_full nn_functional_adaptive_avg_pool2d nn_functional_avg_pool2d nn_functional_conv2d
    nn_functional_cross_entropy nn_functional_gelu nn_functional_group_norm
    nn_functional_layer_norm nn_functional_linear nn_functional_max_pool2d nn_functional_mse_loss
    nn_functional_one_hot nn_functional_pad_reflect nn_functional_relu6
    nn_functional_scaled_dot_product_attention nn_functional_silu norm ones_like outer permute pow
    prod remainder repeat reshape roll round rsub scatter_add select sigmoid sign slice softmax
    sort split sqrt squeeze stack std sub sum t topk transpose tril unbind unfold unsqueeze var
    var_mean view_copy where zeros_like
""".split()
OF_EACH = 2
"""So many ops in each context with each backend."""

ALWAYS: dict[str, str] = {
    "autocast_inside": "mm bmm einsum softmax",
    "autocast_inside_grad": "mm sort",
    "autocast_around_grad": "mm",
    "varying_numbers": "full add",
    "channels_last": "zeros_like nn_functional_relu6",
    "beside_grad": "nn_functional_one_hot",
    "special_values": "nn_functional_gelu clamp",
    "inference_tensors": "native_batch_norm",
    "deterministic": "empty_like",
    "out": "dot",
    "misfit": "index_add all",
    "misfit_grad": "clamp pow nn_functional_soft_margin_loss",
    "other_dtype": "index_fill round_decimals_0",
    "other_dtype_grad": "nn_functional_mse_loss",
    "another_dtype": "_softmax_backward_data",
    "another_dtype_grad": "nn_functional_multi_margin_loss",
    "other_number_grad": "unfold_copy",
}
"""Where something was wrong once."""


@cache
def ops() -> dict[str, Any]:
    return {op.formatted_name: op for op in database()}


def sample(context: str, backend: str) -> list[Task]:
    """Tasks, the same ones each time."""
    chosen = random.Random(f"{context} {backend}").sample(OPS, OF_EACH)
    names = {*ALWAYS.get(context, "").split(), *chosen}
    here = [ops()[name] for name in sorted(names & ops().keys())]  # a PyTorch may not have them all
    contexts = {context: bool(CONTEXTS[context].grad)}
    return list(tasks(here, "", float32_and_another, contexts, [backend]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_ops_in_a_context(context: str, backend: str) -> None:
    with quiet(), config.patch(strict=True):
        for task in sample(context, backend):
            done = Check(ops()[task.op], task, most=2).all()
            assert not done.wrong, "\n".join([f"{task}: {done.wrong[0]}", "", done.programs[0]])


def test_a_program_that_fails_is_printed(tmp_path: Path) -> None:
    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return lambda *args: tuple(x * 2 for x in gm(*args))

    task = Task("expand_as", "float32", "expanded", "eager")
    done = Check(ops()["expand_as"], task, backend, most=1).all()
    assert len(done.wrong) == len(done.programs) == 1
    assert "torch.tensor([" in done.programs[0] and "as_strided" in done.programs[0]
    names: dict[str, Any] = {}
    exec(compile(done.programs[0], "<program>", "exec"), names)  # right, with the real backend
    assert names["difference"](*[names["run"](names["program"], names["calls"](0))] * 2) is None


@pytest.mark.parametrize(("op", "dtype"), [("sin", "float32"), ("bitwise_not", None)])
def test_a_backend_of_torchs_own_kernels_gets_one_dtype_that_the_op_supports(
    op: str, dtype: str | None
) -> None:
    contexts = {"plain": False, "sliced": False}
    every = list(tasks([ops()[op]], "", float32_and_another, contexts, BACKENDS, ONCE))
    for context in contexts:
        got = {
            name: [task.dtype for task in every if (task.backend, task.context) == (name, context)]
            for name in BACKENDS
        }
        assert got["aot_eager"] == got["jitpkg"][:1] and got["eager"] == got["jitpkg"]
        assert dtype in (None, *got["aot_eager"])


def tensor(*, like: torch.Tensor | None = None) -> Outcome:
    given = [((torch.ones(2, 1),), {})]
    return Outcome([torch.ones(2, 1) if like is None else like], None, given)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (torch.ones(2, 1), None),
        (torch.ones(1, 2).t(), "idle strides"),
        (torch.ones(4)[2:].view(2, 1), None),
        (torch.ones(3)[1:3].view(2, 1), None),
    ],
)
def test_what_of_layouts_is_compared(found: torch.Tensor, why: str | None) -> None:
    said = difference(tensor(like=found), tensor())
    assert said is None if why is None else why in (said or "")


@pytest.mark.parametrize("other", [1.0, 1.5])
def test_roundings_of_sparse_tensors_are_compared(other: float) -> None:
    found, expected = (
        Outcome([torch.full((2, 2), x).to_sparse_csr()], None, []) for x in (1.0, other)
    )
    same = difference(found, expected, allowed=Allowed(rounds_alike=True)) is None
    assert same is (other == 1.0)


def test_memory_that_is_shared() -> None:
    x = torch.ones(2)
    apart, shared = Outcome([x, x.clone()], None, []), Outcome([x, x.view(2)], None, [])
    assert "memory" in (difference(shared, apart) or "")
    assert "identity" in (difference(Outcome([x, x], None, []), shared) or "")
    assert difference(apart, apart) is None


def test_writes_and_messages() -> None:
    untouched, written = ([((torch.ones(2),), {})] for _ in "12")
    written[0][0][0].add_(0)
    assert "written" in (
        difference(Outcome(None, None, written), Outcome(None, None, untouched)) or ""
    )
    one, other = (Outcome(error=ValueError(text)) for text in ("a", "b"))
    assert "raises" in (difference(one, other) or "")
    assert difference(one, other, allowed=Allowed(messages=True)) is None


def test_zeros_and_rounding() -> None:
    plus, minus = Outcome(torch.zeros(3)), Outcome(-torch.zeros(3))
    assert difference(plus, minus) is None
    assert "zeros" in (difference(plus, minus, allowed=Allowed(zeros=False)) or "")
    exact = torch.linspace(1, 2, 16, dtype=torch.float64)
    rounded, finer = Outcome(exact.bfloat16().float()), Outcome(exact.float())
    assert difference(finer, rounded, Outcome(exact)) is None
    strict = Allowed(rounds_alike=True)
    assert "close" in (difference(finer, rounded, Outcome(exact), strict) or "")
    once = Allowed(rounds_alike=True, rounds_once=True)
    assert difference(finer, rounded, Outcome(exact), once) is None
    assert difference(rounded, finer, Outcome(exact), once) is not None


@pytest.mark.parametrize(
    ("one", "instead", "may"),
    [
        (nan, inf, Allowed(infinite=True)),
        (-inf, nan, Allowed(not_a_number=True)),
        (nan, 0.0, Allowed(finite=True)),
    ],
)
def test_special_values_in_place_of_others(one: float, instead: float, may: Allowed) -> None:
    eager, other = Outcome(torch.tensor([one, 1.0])), Outcome(torch.tensor([instead, 1.0]))
    assert difference(other, eager) is not None
    assert difference(other, eager, allowed=may) is None
    assert difference(eager, other, allowed=may) is not None
    assert difference(Outcome(torch.tensor([instead, 2.0])), eager, allowed=may) is not None


def test_lazy_conjugates_of_gradients() -> None:
    x = torch.tensor([1 + 2j])
    lazy, computed = x.conj(), x.conj().resolve_conj()
    may = Allowed(lazy=True)
    assert "lazy" in (difference(Outcome(None, [lazy]), Outcome(None, [computed])) or "")
    assert difference(Outcome(None, [lazy]), Outcome(None, [computed]), allowed=may) is None
    assert "lazy" in (difference(Outcome([lazy]), Outcome([computed]), allowed=may) or "")


def test_one_tensor_stays_one() -> None:
    x = torch.ones(2, requires_grad=True)
    (a, [b]), named = mapped(((x, [x]), {"y": x}), torch.neg)
    assert a is b is named["y"] and a.is_leaf and a.requires_grad


def test_each_difference_has_a_reason_in_the_docs() -> None:
    page = " ".join((ROOT / "docs/backends.md").read_text().split())
    for row in ROWS:
        assert row.why.rstrip(".") in page, row.why
