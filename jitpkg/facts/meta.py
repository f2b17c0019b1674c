"""A call's facts by rows: the call runs on meta tensors, and each ATen op that it comes to is
answered by a row.

30-60 µs an op. What ATen ops a function comes to depends on nothing but facts for the functions
that are named here; others, such as attention, choose by device, and FakeTensor is asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts import sizes
from jitpkg.facts.asked import asked_once
from jitpkg.facts.casting import Casting, is_active
from jitpkg.facts.elsewhere import elsewhere
from jitpkg.facts.outcome import Outcome, StandIns, WouldRaise, is_random, written_by
from jitpkg.facts.rows import ROWS
from jitpkg.facts.rows.common import CPU, META, Raises, Unsure
from jitpkg.facts.rows.functions import FUNCTION_ROWS, flowing
from jitpkg.facts.rows.lengths import LENGTH_ROWS
from jitpkg.facts.rows.views import VIEWS, varies
from jitpkg.facts.symbolic import Decisions, length
from jitpkg.facts.tensor import TensorFacts, facts_of, some_floats, why_not_plain
from jitpkg.internals import Missing, dispatch, modes, trees
from jitpkg.internals.ops import op_name
from jitpkg.internals.tensors import memory

FUNCTIONS = frozenset(
    """
    T abs abs_ absolute acos acosh adaptive_avg_pool2d add add_ addcdiv addcdiv_ addcmul addcmul_
    addmm all amax amin and_ any arange argmax argmin argsort asin asinh atan atan2 atanh avg_pool2d
    baddbmm batch_norm bmm cat ceil celu chunk clamp clamp_ clamp_max clamp_max_ clamp_min
    clamp_min_ clip clone concat concatenate contiguous conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d copy_ cos cos_ cosh cross_entropy cumprod cumsum data detach diagonal diff
    digamma div div_ divide dot double dropout einsum elu embedding empty empty_like eq erf erfc
    erfinv exp exp2 exp_ expand expand_as expm1 fill_ flatten flip float floor floordiv fmod frac
    full full_like gather ge gelu getitem greater greater_equal gt half hardsigmoid hardswish
    hardtanh hardtanh_ histc huber_loss iadd imul index index_fill index_fill_ index_put index_put_
    index_select int interpolate invert isfinite isinf isnan isub itruediv l1_loss layer_norm le
    leaky_relu lerp less less_equal lgamma linear linspace log log10 log1p log2 log_ log_sigmoid
    log_softmax logical_and logical_not logical_or logical_xor logit logsumexp long lt mT
    masked_fill masked_fill_ matmul max max_pool2d maximum mean meshgrid min minimum mish mm mod
    movedim mse_loss mul mul_ multiply mv nan_to_num nanmean nansum narrow ne neg neg_ negative
    new_empty new_full new_ones new_zeros nll_loss norm normal_ normalize not_equal ones ones_like
    _native_multi_head_attention or_ outer pad permute pow pow_ prod rand rand_like randint randn
    randn_like ravel reciprocal reciprocal_ relu relu6 relu_ remainder repeat repeat_interleave
    reshape reshape_as rms_norm roll round rsqrt rsqrt_ rsub scatter scatter_ scatter_add
    scatter_add_ select selu setitem sigmoid sigmoid_ sign silu sin sin_ sinc sinh smooth_l1_loss
    softmax softmin softplus softsign sort split split_with_sizes sqrt sqrt_ square squeeze stack
    std std_mean sub sub_ subtract sum swapaxes swapdims t tan tanh tanh_ tanhshrink _threshold tile
    to topk _transformer_encoder_layer_fwd transpose tril triu true_divide truediv trunc type_as
    unbind unflatten unfold uniform_ unsafe_split unsqueeze var var_mean view view_as where xor
    binary_cross_entropy binary_cross_entropy_with_logits copysign cosine_similarity fmax fmin
    glu hypot kl_div prelu xlogy
    zero_ zeros zeros_like
    """.split()
)
"""Functions and methods of tensors, by name."""

METHODS: Mapping[str, str] = MappingProxyType(
    {
        f"__{name.strip('_')}__": name
        for name in (
            "abs add and_ div eq floordiv ge getitem gt iadd imul invert isub itruediv le lt "
            "matmul mod mul ne neg or_ pow rsub setitem sub truediv xor"
        ).split()
    }
)
"""The function for `__neg__` and its like: some methods, such as `neg`, go by such a name, too."""

RECORDED = frozenset(
    """
    adaptive_avg_pool1d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d addbmm addmv addr aminmax atleast_1d atleast_2d atleast_3d avg_pool1d
    avg_pool3d bilinear block_diag
    cartesian_prod cdist channel_shuffle cholesky cholesky_inverse cholesky_solve column_stack
    conv_transpose3d cosine_embedding_loss cross cummax cummin
    cumulative_trapezoid deg2rad diag diag_embed diagflat diagonal_scatter dist dstack fft_fft
    fft_fft2 fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn
    fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft
    fft_rfft2 fft_rfftn fliplr flipud float_power gradient grid_sample group_norm
    gru_cell hardshrink hinge_embedding_loss hstack i0 index_add index_copy index_reduce
    inner instance_norm kron kthvalue ldexp linalg_cholesky linalg_cholesky_ex
    linalg_cross linalg_det linalg_diagonal
    linalg_householder_product linalg_inv linalg_inv_ex linalg_lu linalg_lu_factor
    linalg_lu_factor_ex linalg_lu_solve linalg_matrix_power linalg_multi_dot linalg_pinv
    linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular
    linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm
    local_response_norm logaddexp2 logcumsumexp logdet lstm_cell margin_ranking_loss masked_scatter
    matrix_exp max_pool1d max_pool3d max_unpool1d max_unpool2d max_unpool3d mode msort
    multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss mvlgamma nanmedian
    pairwise_distance pdist pinverse pixel_shuffle pixel_unshuffle poisson_nll_loss positive
     put rad2deg rnn_relu_cell rnn_tanh_cell rot90
    scatter_reduce select_scatter slice_scatter soft_margin_loss
    softshrink special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr
    special_ndtr special_ndtri special_xlog1py stft take take_along_dim tensordot trace
    trapezoid trapz triplet_margin_loss triplet_margin_with_distance_loss vdot vstack
    """.split()
)
"""Others that come to the same ops on stand-ins as on the CPU: not all of these have rows."""


class _Rows:
    """Answers every ATen op by its row."""

    def __init__(self, *, varies: bool) -> None:
        self.varies = varies
        self.random = False
        self.written: set[int] = set()
        """The memory that was written to, perhaps without a trace in a version."""

    def answer(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        name = op_name(func)
        row = ROWS.get(name)
        if self.varies and name in VIEWS and varies(args):
            row = VIEWS[name]
        if row is None or "out" in kwargs:
            raise Unsure(name)
        if is_random(func, args, kwargs):
            self.random = True
        self.written |= written_by(func, args, kwargs)
        return row(func, args, kwargs)

    def as_a_whole(self, row: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            made, shape = row(*args, **kwargs)
            self.random = made.random
            return shape(flowing(made))

        return call


def of_call(
    name: str, call: Callable[..., Any], args: Any, kwargs: Any, values: Mapping[str, int]
) -> Outcome:
    """See `jitpkg.facts.answers.Facts.of_call`.

    Raises:
        Unsure: no row says what the call does, or it may raise.
        WouldRaise: it raises.
    """
    name = METHODS.get(name, name)
    whole = LENGTH_ROWS.get(name) if values else None
    if whole is not None and _is_usual_state():
        try:
            return _answered(call, args, kwargs, values, whole)
        except Unsure:
            pass
    whole = FUNCTION_ROWS.get(name)
    if values and name == "matmul" and products_compare_sizes():
        raise Unsure(name)
    if name in FUNCTIONS and is_active() and dispatch.WRAPPER.found() is not None:
        return _answered_under_autocast(call, args, kwargs, values)
    if whole is None and name not in FUNCTIONS:
        raise Unsure(name)
    if not _is_usual_state() and (whole is None or some_floats(trees.leaves_of((args, kwargs)))):
        raise Unsure(name)
    return _answered(call, args, kwargs, values, whole)


def _answered(
    call: Callable[..., Any],
    args: Any,
    kwargs: Any,
    values: Mapping[str, int],
    whole: Callable[..., Any] | None,
) -> Outcome:
    decisions = Decisions(values)
    rows = _Rows(varies=bool(values))

    def ask() -> Outcome:
        here = elsewhere(args), elsewhere(kwargs)
        stand_ins = StandIns(*here, META, decisions.symint)
        if whole is not None:
            result = stand_ins.call(rows.as_a_whole(whole))
        else:
            with dispatch.mode(rows.answer):
                result = stand_ins.call(call)
        return stand_ins.outcome(
            trees.mapped(_number, result) if values else result,
            facts_of_stand_in,
            written=frozenset(rows.written),
            random=rows.random,
        )

    outcome = _sure(ask)
    return replace(outcome, relations=tuple(decisions.relations)) if values else outcome


def _answered_under_autocast(
    call: Callable[..., Any], args: Any, kwargs: Any, values: Mapping[str, int]
) -> Outcome:
    """The same of a call that writes to nothing that requires grad."""
    decisions = Decisions(values)
    casting, rows = Casting(), _Rows(varies=bool(values))

    def ask() -> Outcome:
        stand_ins = StandIns(args, kwargs, META, decisions.symint)
        with dispatch.mode(casting.seeing(rows.answer)):
            result = stand_ins.call(casting.calling(call))
        written = [x for x in stand_ins.tensors if memory(x) in rows.written]
        if any(x.requires_grad for x in written):
            raise Unsure  # it is shown as a leaf
        unchanged = {id(x) for x in stand_ins.tensors} - set(map(id, written))

        def facts(tensor: torch.Tensor) -> TensorFacts:
            found = facts_of_stand_in(tensor)
            return found if id(tensor) in unchanged else casting.facts(tensor, found)

        return stand_ins.outcome(
            trees.mapped(_number, result) if values else result,
            facts,
            written=frozenset(rows.written),
            random=rows.random,
        )

    try:
        outcome = _sure(ask)
    finally:
        casting.end()
    return replace(outcome, relations=tuple(decisions.relations)) if values else outcome


def _sure(ask: Callable[[], Outcome]) -> Outcome:
    try:
        return ask()
    except Missing:
        raise
    except Raises as error:
        raise WouldRaise(error) from None
    except Exception as error:
        raise Unsure(str(error)) from None


def ops_of(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[Any], Any]:
    """The ATen ops that a call comes to that gets stand-ins, and what it returns then.

    Raises:
        Exception: whatever the call raises, or a row that is not sure.
    """
    rows = _Rows(varies=False)
    seen: list[Any] = []

    def answer(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        seen.append(func)
        return rows.answer(func, args, kwargs)

    with dispatch.mode(answer):
        result = call(*elsewhere(args), **elsewhere(kwargs))
    return seen, result


def is_view(op: Any) -> bool:
    """Whether an op only shows memory in another way."""
    return op_name(op) in VIEWS


@asked_once
def products_compare_sizes() -> bool:
    """Whether `matmul` takes sizes that vary for numbers: in torch 2.11 its C++ compares them."""
    decisions = Decisions({"n": 3})
    n = decisions.symint(sizes.symbol("n", 2))
    a = torch.empty_strided((2, n, 4), (n * 4, 4, 1), device=META)
    b = torch.empty_strided((2, 4, n), (n * 4, n, 1), device=META)
    try:
        with dispatch.mode(_Rows(varies=True).answer):
            torch.matmul(a, b)
    except Exception:  # it asks for the sizes themselves
        return True
    return bool(decisions.relations)


def _number(leaf: Any) -> Any:
    match leaf:
        case torch.SymInt():
            return length(leaf)
        case torch.SymBool():
            return bool(leaf)
        case torch.SymFloat():
            raise Unsure
        case _:
            return leaf


def _is_usual_state() -> bool:
    """Whether nothing changes what ops do that rows do not know of."""
    return not modes.ANY_AUTOCAST.get()()


def facts_of_stand_in(made: torch.Tensor) -> TensorFacts:
    """The facts of the tensor in main memory that one on the meta device stands for."""
    if why_not_plain(made) is not None or made.device != META:
        raise Unsure
    facts = facts_of(made)
    return TensorFacts(
        cls=facts.cls,
        dtype=facts.dtype,
        device=CPU,
        size=tuple(map(length, facts.size)),
        stride=tuple(map(length, facts.stride)),
        requires_grad=facts.requires_grad,
        is_leaf=facts.is_leaf,
        is_inference=facts.is_inference,
    )
