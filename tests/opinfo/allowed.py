"""What may differ from eager code, and why: rows, each with a reason that docs/backends.md has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.opinfo.compare import Allowed
from tests.opinfo.samples import Task


@dataclass(frozen=True, slots=True)
class Row:
    """What may differ in tasks of these ops, contexts and backends: regular expressions."""

    why: str
    may: Allowed
    ops: str = ""
    contexts: str = ""
    backends: str = ""
    dtypes: str = ""
    exact: bool = True
    """Whether the backend `eager` must give the same bits."""

    def fits(self, task: Task) -> bool:
        return all(
            re.fullmatch(pattern, name)
            for pattern, name in (
                (self.ops, task.op),
                (self.contexts, task.context),
                (self.backends, task.backend),
                (self.dtypes, task.dtype),
            )
            if pattern
        )


ROWS: Sequence[Row] = (
    Row(
        "`grad_fn` is one node for the graph, and a view of a result may have another history.",
        Allowed(ignore=("grad_fn", "view", "version")),
        backends="aot_eager",
    ),
    Row(
        "`grad_fn` is one node for the graph, and a view of a result may have another history.",
        Allowed(ignore=("grad_fn", "view", "version")),
        backends="jitpkg",
    ),
    Row(
        "What `torch.empty` returns holds whatever the memory held.",
        Allowed(values=True),
        ops="empty|empty_like|empty_permuted|empty_strided|new_empty|new_empty_strided",
        contexts="(?!deterministic).*",
    ),
    Row(
        "What `resize_` adds to a tensor holds whatever the memory held.",
        Allowed(values=True),
        ops="resize_",
        contexts="(?!deterministic).*",
    ),
    Row(
        "The mean of `multi_margin_loss` and `multilabel_margin_loss` over no examples is whatever"
        " the memory held.",
        Allowed(values=True),
        ops="nn_functional_multi(label)?_margin_loss",
        contexts="empty",
    ),
    Row(
        "The gradient of `mish` is rounded at each of its steps in a narrow dtype.",
        Allowed(atol=2e-3),
        ops="nn_functional_mish",
        contexts=".*grad.*",
        dtypes="b?float16",
    ),
    Row(
        "The median along an expanded dim, in PyTorch, is whatever the memory held.",
        Allowed(values=True),
        ops="(masked_)?(nan)?median",
        contexts="expanded.*",
    ),
    Row(
        "`_segment_reduce`, told not to look at lengths, leaves what these do not reach as it was.",
        Allowed(values=True),
        ops="_segment_reduce.*",
        contexts="misfit.*|(varying|other)_number.*",
    ),
    Row(
        "`grid_sampler_2d` of an interpolation that it does not know leaves its result as it was.",
        Allowed(values=True),
        ops="grid_sampler_2d",
        contexts="(varying|other)_number.*",
    ),
    Row(
        "A norm of one element is 0, where eager code has the rounding of a difference of sums.",
        Allowed(atol=1e-4),
        ops="native_layer_norm",
    ),
    Row(
        "Of 0.0 and -0.0, which is the greater depends, in eager code, on where the element lies.",
        Allowed(zeros=True),
        ops="minimum|maximum|clamp.*|amin|amax|nn_functional_softshrink|max.*|min.*|aminmax",
        contexts="special_values",
    ),
    Row(
        "A norm with an infinite weight is infinite where eager code subtracts infinities: NaN.",
        Allowed(infinite=True),
        ops=".*(batch|group|instance)_norm.*",
        contexts="special_values",
        backends="jitpkg",
    ),
    Row(
        "A mean beside a variance is infinite where eager code subtracts infinities: NaN.",
        Allowed(infinite=True),
        ops="var_mean|native_layer_norm",
        contexts="special_values",
        backends="jitpkg",
        dtypes="float(16|32)",
    ),
    Row(
        "A layer norm of numbers whose squares overflow is 0, where eager code has NaN.",
        Allowed(finite=True),
        ops="native_layer_norm",
        contexts="special_values",
        backends="jitpkg",
        dtypes="float(16|32)",
    ),
    Row(
        "`multi_margin_loss` of numbers whose differences are infinite is NaN.",
        Allowed(not_a_number=True),
        ops="nn_functional_multi_margin_loss",
        contexts="special_values",
        backends="aot_eager",
    ),
    Row(
        "Linear interpolation weights an infinite pixel beside another one by 0: NaN.",
        Allowed(not_a_number=True),
        ops="nn_functional_(upsample_bilinear|interpolate_(bi|tri)?linear)",
        contexts="special_values",
        backends="aot_eager",
    ),
    Row(
        "A complex gradient may be a conjugate that is not computed yet, or be computed already.",
        Allowed(lazy=True),
        contexts="after_break_grad",
        backends="jitpkg|aot_eager",
        dtypes="complex64",
    ),
    Row(
        "In narrow dtypes, some ops round once, where ATen rounds each step: they are as near.",
        Allowed(rounds_once=True),
        ops="rsqrt|acosh?|special_xlog1py|nn_functional_glu|(masked_)?logsumexp|log_softmax"
        "|nn_functional_interpolate_(linear|trilinear|bicubic)",
        contexts="autocast_(inside|around)_grad",
        backends="jitpkg|aot_eager",
        dtypes="b?float16",
    ),
    Row(
        "The strides of dims of one element, on which the place of no element depends, may differ.",
        Allowed(ignore=("idle strides",)),
        ops="stack|diag_embed|nn_functional_huber_loss",
        contexts="channels_last",
        backends="jitpkg",
    ),
    Row(
        "The strides of dims of one element, on which the place of no element depends, may differ.",
        Allowed(ignore=("idle strides",)),
        ops="linalg_matrix_norm|__rmatmul__",
        contexts="grad|misfit_grad|other_(dtype|number)_grad",
        backends="jitpkg|aot_eager",
    ),
    Row(
        "The strides of dims of one element, on which the place of no element depends, may differ.",
        Allowed(ignore=("idle strides",)),
        ops="nn_functional_conv2d",
        contexts="channels_last_grad",
        backends="jitpkg|aot_eager",
    ),
    Row(
        "The strides of dims of one element, on which the place of no element depends, may differ.",
        Allowed(ignore=("idle strides",)),
        ops="nn_functional_binary_cross_entropy(_with_logits)?|rsub|lerp|log_softmax|fft_i?fftshift"
        "|bfloat16|half|double|nn_functional_rms_norm",
        contexts="channels_last_grad",
        backends="jitpkg",
    ),
    Row(
        "The gradient of `std_mean` of numbers that are all the same depends on how their mean is"
        " rounded.",
        Allowed(values=True),
        ops="std_mean(_unbiased)?",
        contexts="expanded_grad",
        backends="jitpkg",
    ),
    Row(
        "The sum of `triplet_margin_loss` over rows that are all the same has the rounding of one,"
        " as often.",
        Allowed(atol=2e-5),
        ops="nn_functional_triplet_margin_loss",
        contexts="expanded_grad",
        backends="jitpkg",
        dtypes="float32",
    ),
    Row(
        "A gradient of `__rpow__` in which large powers cancel is what their rounding leaves.",
        Allowed(atol=2e-3),
        ops="__rpow__",
        contexts="expanded_grad",
        backends="jitpkg",
        dtypes="float32",
    ),
    Row(
        "A gradient in float64 of what was computed in a narrower dtype has the digits of that"
        " one.",
        Allowed(atol=1e-5),
        contexts="other_dtype_grad",
        backends="jitpkg|aot_eager",
    ),
    Row(
        "The last digits of `lstsq` change from call to call, in eager code as well.",
        Allowed(),
        ops="linalg_lstsq.*",
        exact=False,
    ),
    Row(
        "`median` of an expanded tensor changes from call to call, in eager code as well.",
        Allowed(values=True),
        ops="median|nanmedian",
        contexts="expanded(_grad)?",
    ),
)


def allowed(task: Task) -> Allowed:
    """What may differ in a task."""
    rows = [row for row in ROWS if row.fits(task)]
    exact = task.backend == "eager" and all(row.exact for row in rows)
    may = Allowed(exact=exact, zeros=task.context != "special_values")
    for row in rows:
        may = may.joined(row.may)
    return may
