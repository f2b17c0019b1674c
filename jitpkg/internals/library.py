"""Torch's own Python code, by the names of its modules, and what its compiler leaves on functions.

Where PyTorch has other names for these, a function of its library is traced, or a mark of
`torch.compiler` is not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Container
from types import FunctionType

from jitpkg.internals.row import Row

OF_C = frozenset({"torch._C", "torch._ops"})
"""Modules of functions that are written in C, and of ops."""

NEVER_TRACED = (
    "torch._dynamo",
    "torch._functorch",
    "torch._inductor",
    "torch._library",
    "torch._logging",
    "torch._subclasses",
)
"""Modules whose functions are called for real."""

TRANSFORMS = ("torch._functorch", "torch._C._functorch")
"""Modules of function transforms (vmap, grad)."""

COMPILER = "torch._dynamo"
"""What torch.compile is made of."""

PATCHED_INIT = "torch._dynamo.mutation_guard.install_generation_tagging_init.<locals>.patched_init"
"""What it makes of `nn.Module.__init__`, to note which modules are new."""

PATCHED_SETSTATE = (
    "torch._dynamo.mutation_guard.install_generation_tagging_init.<locals>.patched_setstate"
)
"""The same of `nn.Module.__setstate__`."""

INDEXING_MODE = (
    "torch._dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex.__torch_function__"
)
"""What torch's mode does that lets `x[i]` be mapped over by `i`."""

FUNCTION_MODES = frozenset(
    f"torch.overrides.{name}"
    for name in """
        TorchFunctionMode.__init__ TorchFunctionMode.__enter__ TorchFunctionMode.__exit__
        BaseTorchFunctionMode.__torch_function__ _push_mode _pop_mode
        """.split()
)
"""How torch-function modes are entered and left."""

ANNOTATE = "torch.fx.traceback.annotate"
"""What torch's compiler is told by a `with` block."""

DECIDING_OPTIMIZERS = ("torch.optim.lbfgs", "torch.optim._adafactor")
"""Those of which a step asks each tensor for numbers, to decide or to compute with."""

GRAD_OF_STEPS = "torch.optim.optimizer._use_grad_for_differentiable.<locals>._use_grad"
"""What optimizers wrap their `step` in."""

_MAKING = "vmap grad grad_and_value jacrev jacfwd hessian _wraps_without_dynamo_attrs"
_HELPING = """
    error_if_complex _safe_zero_index _slice_argnums _validate_and_wrap_argnum
    _validate_and_wrap_argnums _check_unique_non_empty _chunked_standard_basis_for_
    _construct_standard_basis_for safe_unflatten get_chunk_sizes _check_randomness_arg
    """
TRACED_TRANSFORMS = frozenset(
    {
        f"{module}.{name}"
        for module in (
            *(f"torch._functorch.{each}" for each in ("apis", "eager_transforms", "vmap")),
            "torch.func",
        )
        for name in (*_MAKING.split(), *_HELPING.split())
    }
)
"""Functions of torch's that make transforms, and compute Jacobians by others: they are traced,
though their modules are not."""

CUSTOM_OP_CALL = "torch._library.custom_ops.CustomOpDef.__call__"
"""The call of what `torch.library.custom_op` has made: it calls the op."""

HIDDEN = (
    "torch._compile._disable_dynamo.<locals>.inner",
    "torch._dynamo.eval_frame.DisableContext.__call__.<locals>._fn",
)
"""What torch wraps functions of its own in that its own compiler shall not see: in the second once
that is loaded; a function that a program disables is wrapped in it, too."""
OPTIMIZERS = "torch.optim."
"""How the names of their modules begin."""

# What FX keeps

TEXTS = Row[dict[str, str]](
    "torch.fx.graph_module._loader.eval_cache",
    use="forgetting the text of graphs that are dropped",
    lost="the text of each graph stays in memory",
)

# Marks of torch.compiler

_RULES = "torch._dynamo.trace_rules"

ALLOWED = Row[Container[int]](
    f"{_RULES}._allowed_callable_ids.function_ids",
    use="seeing what torch.compiler.allow_in_graph has marked",
    lost="its marks do not count, those of jitpkg.allow_in_graph do",
)


def is_allowed(function: object) -> bool:
    """Whether it is marked by `allow_in_graph`: torch's compiler is loaded then."""
    if _RULES not in sys.modules:
        return False
    allowed = ALLOWED.found()
    return allowed is not None and id(function) in allowed


def is_constant(function: FunctionType) -> bool:
    """Whether it is marked by `assume_constant_result`."""
    return "_dynamo_marked_constant" in function.__dict__


def disabled(function: FunctionType) -> object:
    """What marks it as one that is not to be compiled; false where nothing does."""
    return function.__dict__.get("_torchdynamo_disable")
