"""Functions that become kernels where no gradient is needed: none is left to ATen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import jitpkg
from jitpkg import events
from tests.codegen.cpu.support import needs_llvm

Function = Callable[[torch.Tensor], torch.Tensor]

ONES = """
    abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad erf erfc exp exp2 expm1 floor
    frac log log10 log1p log2 logit neg rad2deg reciprocal round rsqrt sigmoid sign sgn sin sinc
    sinh sqrt square tan tanh trunc nan_to_num std var sum prod mean amax amin norm argmax nansum
    nanmean
""".split()

ACTIVATIONS = """
    relu6 elu selu celu leaky_relu hardswish hardsigmoid hardtanh silu mish gelu softplus softsign
    tanhshrink softshrink hardshrink logsigmoid normalize
""".split()

OTHERS: dict[str, Function] = {
    "threshold": lambda x: F.threshold(x, 0.1, 0.2),
    "celu of half": lambda x: F.celu(x, 0.5),
    "cumsum": lambda x: x.cumsum(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "softmin": lambda x: F.softmin(x, 1),
    "nanmean": lambda x: x.nanmean(1, keepdim=True),
    "norm of columns": lambda x: x.norm(1, 0),
    "normalize": lambda x: F.normalize(x, p=1, dim=0),
    "group_norm": lambda x: F.group_norm(x, 3, x[0], x[1]),
    "group_norm of images": lambda x: F.silu(F.group_norm(x.view(1, 7, 3, 11), 7)),
    "instance_norm": lambda x: F.instance_norm(x[None]),
    "glu": lambda x: F.glu(x[None, :6], 1),
    "prelu": lambda x: F.prelu(x, x[0]),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.cos()),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.abs(), x.cos()),
    "logits": lambda x: F.binary_cross_entropy_with_logits(x, x.cos(), pos_weight=x[2]),
    "kl_div": lambda x: F.kl_div(x, x.cos(), reduction="batchmean"),
    "poisson_nll_loss": lambda x: F.poisson_nll_loss(x, x.abs()),
    "special_ndtr": torch.special.ndtr,
    "hstack": lambda x: torch.hstack([x, x]) * 2,
    "fliplr": lambda x: torch.fliplr(x) * 2,
    "kron": lambda x: torch.kron(x, x[:1]),
    "avg_pool1d": lambda x: F.avg_pool1d(x[None], 2),
    "max_pool1d": lambda x: F.max_pool1d(x[None], 2),
}

FUNCTIONS: dict[str, Function] = {
    **{name: getattr(torch, name) for name in ONES},
    **{name: getattr(F, name) for name in ACTIVATIONS},
    **OTHERS,
}


@needs_llvm
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_left_to_aten(name: str) -> None:
    function = FUNCTIONS[name]
    x = torch.linspace(-0.9, 0.9, 7 * 33).reshape(7, 33)
    x[3, 5] = float("nan") if name.startswith("nan") else 0.5
    with torch.no_grad():
        wanted, found = function(x), []
        with events.STREAM.listening(found.append):
            made = jitpkg.compile(lambda t: function(t), backend="jitpkg")(x)
    torch.testing.assert_close(made, wanted, equal_nan=True)
    (fused,) = (event for event in found if isinstance(event, events.Fused))
    assert fused.kernels
    assert fused.calls == ()


@needs_llvm
@pytest.mark.parametrize("name", ["log_sigmoid", "nansum", "nanmean"])
def test_what_is_given_for_the_result_is_written(name: str) -> None:
    """The ops below name it in their own ways: `output` and `buffer`, for one."""
    function = torch._C._nn.log_sigmoid if name == "log_sigmoid" else getattr(torch, name)
    x = torch.linspace(-2, 2, 6)
    given, wanted = torch.empty(0), torch.empty(0)
    function(x, out=wanted)
    compiled = jitpkg.compile(lambda t, out: function(t, out=out), backend="jitpkg")
    assert compiled(x, given) is given
    assert torch.equal(given, wanted)
