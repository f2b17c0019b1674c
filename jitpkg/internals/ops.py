"""Ops of ATen: their classes, their schemas, and those that are not public."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitpkg.internals.op_classes import OpOverload, OpOverloadPacket
from jitpkg.internals.row import Attribute, Row

__all__ = ["OpOverload", "OpOverloadPacket", "op_name", "overload_name", "schema"]

SCHEMA = Attribute[Any](
    "torch.ops.aten.add.Tensor._schema",
    use="knowing what an op takes, returns, writes to and shares",
    lost="nothing is known of what ops do: each breaks the graph",
)
HIGHER_ORDER = Row[type[Any]](
    "torch._ops.HigherOrderOperator",
    use="calling operators of functions for real",
    lost="torch's own code for them is traced",
)
HIGHER_ORDER_MODULES = "torch._higher_order_ops."
"""How the names of the modules begin in which they are called."""
WHILE_LOOP, SCAN, MAP = (
    Row[Callable[..., Any]](
        f"torch._higher_order_ops.{name}.{name}",
        use=f"making {name} a part of the graph",
        lost=f"calls of {name} break the graph",
    )
    for name in ("while_loop", "scan", "map")
)
LAYERS = Row[Any](
    "torch._C._nn",
    use="knowing which functions of torch.nn.functional are ops",
    lost="some of those that are written in C break the graph",
)
FUNCTIONS = Row[Any](
    "torch._C._VariableFunctions",
    use="knowing which functions of torch are ops",
    lost="some that torch.overrides does not list break the graph",
)
FOREACH, FUSED = "_foreach_", "_fused_"
"""How the names begin of ops on lists of tensors, and of those that are an optimizer's step."""
FOREACH_ADD = Row[Callable[..., Any]](
    "torch._foreach_add_",
    use="knowing what a list of counters holds that is counted up",
    lost="a counter's .item() breaks the graph then",
)
FOREACH_MUL = Row[Callable[..., Any]](
    "torch._foreach_mul_",
    use="knowing what a list of products holds that is multiplied",
    lost="a product's .item() breaks the graph then",
)
GROUP_TENSORS = Row[Callable[..., Any]](
    "torch._C._group_tensors_by_device_and_dtype",
    use="tracing optimizers that go through lists of tensors",
    lost="they break the graph",
)
ASSERT_SCALAR = Row[Callable[..., Any]](
    "torch.ops.aten._assert_scalar.default",
    use="tracing graphs of torch.compile that check sizes",
    lost="a call of it breaks the graph",
)
UNSAFE_VIEW = Row[Callable[..., Any]](
    "torch.ops.aten._unsafe_view.default",
    use="returning views of what nobody else has from a graph that is trained",
    lost="such graphs run op by op",
)
LINEAR_OF_ONEDNN = Row[Any](
    "torch.ops.mkldnn._linear_pointwise.default",
    use="multiplying large matrices on AMD processors",
    lost="MKL multiplies them, which is slower there",
)
ATTENTION = Row[Any](
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",
    use="differentiating attention by our own backward pass",
    lost="it goes through AOTAutograd",
)
ATTENTION_BY_MATH = Row[Any](
    "torch.ops.aten._scaled_dot_product_attention_math.default",
    use="differentiating attention whose mask is trained, too",
    lost="it goes through AOTAutograd",
)
FUNCTIONAL_BATCH_NORM = Row[Any](
    "torch.ops.aten._native_batch_norm_legit_functional.default",
    use="graphs of batch norm that write nothing",
    lost="they go through AOTAutograd, or run op by op",
)


def _one_by_one() -> Callable[[Any, Any], object]:
    def copy_each(into: Any, values: Any) -> None:
        for one, value in zip(into, values, strict=True):
            one.copy_(value)

    return copy_each


COPY_EACH = Row[Callable[[Any, Any], object]](
    "torch._foreach_copy_",
    use="handing the inputs to a CUDA graph",
    lost="they are copied one by one, which is slower",
    instead=_one_by_one,
)


def schema(op: OpOverload) -> Any:
    """What an op takes, returns, writes to and shares."""
    return SCHEMA.get()(op)


def is_of_another_library(call: object) -> bool:
    """Whether it is an op that is not ATen's; it may have the name of one of torch's functions."""
    module = getattr(call, "__module__", None) or ""
    return module.startswith("torch._ops.") and module != "torch._ops.aten"


def op_name(op: Any) -> str:
    """As in `aten::add`; all overloads have the same."""
    name: str = op.name()
    return name.partition(".")[0]


def overload_name(op: Any) -> str:
    """As in `Tensor`, or `default`."""
    name: str = op.name()
    return name.partition(".")[2] or "default"
