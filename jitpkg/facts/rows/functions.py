"""Functions that choose their ATen ops by device: what they return as a whole, on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.asked import asked_once
from jitpkg.facts.layout import preserved
from jitpkg.facts.rows.common import empty, is_usual, lies_in_order, sure, tensors
from jitpkg.facts.rows.creation import plain
from jitpkg.facts.rows.layers import windows
from jitpkg.internals import trees


@dataclass(frozen=True)
class Made:
    """What a function returns: new tensors, through which gradients flow to some of its inputs."""

    tensors: tuple[torch.Tensor, ...]
    inputs: tuple[torch.Tensor, ...]
    random: bool = False


def one(made: torch.Tensor, *inputs: torch.Tensor) -> tuple[Made, Any]:
    """A single new tensor."""
    return Made((made,), inputs), lambda tensors: tensors[0]


class _Flow(torch.autograd.Function):
    """Makes results require grad where inputs do."""

    @staticmethod
    def forward(_ctx: Any, made: Made, *_inputs: torch.Tensor) -> Any:
        return made.tensors


def flowing(made: Made) -> tuple[torch.Tensor, ...]:
    if torch.is_grad_enabled() and any(t.requires_grad for t in made.inputs):
        tensors: tuple[torch.Tensor, ...] = _Flow.apply(made, *made.inputs)  # type: ignore[no-untyped-call]
        return tensors
    return made.tensors


flash_is_on: Callable[[], bool] = vars(torch.backends.cuda)["flash_sdp_enabled"]
_math_is_on: Callable[[], bool] = vars(torch.backends.cuda)["math_sdp_enabled"]
_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Made, Any]:
    """`scaled_dot_product_attention`: one kernel (see `use_flash_attention_cpp`), or products."""
    sure(0.0 <= dropout_p < 1.0 and not enable_gqa)
    sure(query.dtype in _FLOATS and query.dtype is key.dtype is value.dtype)
    sure(query.dim() == key.dim() == value.dim() == 4)
    batch, heads, length, width = query.shape
    sure(key.shape == value.shape and tuple(key.shape[:2]) == (batch, heads))
    sure(key.shape[3] == width and query.numel() > 0 and key.numel() > 0)
    sure(all(t.stride(3) == 1 for t in (query, key, value)))
    if attn_mask is not None:
        sure(not is_causal and attn_mask.dim() in (2, 4))
        sure(attn_mask.dtype in (torch.bool, query.dtype))
        sure(attn_mask.shape[-2] == length and attn_mask.shape[-1] == key.shape[2])
        if attn_mask.dim() == 4:
            sure(attn_mask.shape[0] in (1, batch) and attn_mask.shape[1] in (1, heads))
    given = [query, key, value]
    if attn_mask is not None and attn_mask.requires_grad:
        sure(torch.is_grad_enabled())
        given.append(attn_mask)
    if dropout_p or len(given) > 3 or not flash_is_on():  # then it is matmul, softmax, matmul
        sure(query.dtype in _FLOATS[:2] and _math_is_on())
        made = empty(query.shape, query.dtype)
        return Made((made,), tuple(given), dropout_p > 0), lambda tensors: tensors[0]
    inner = heads * width
    layout: tuple[int, ...] = (length * inner, width, inner, 1)
    if _follows_query():
        layout = preserved(tuple(query.shape), query.stride())
    made = empty(query.shape, query.dtype, layout)
    return Made((made,), tuple(given)), lambda tensors: tensors[0]


@asked_once
def _follows_query() -> bool:
    """Whether the kernel's result is laid out as the query is; it was by batch, length, head."""
    query = torch.zeros(1, 2, 2, 2, dtype=torch.float32, device="cpu")
    made = torch.nn.functional.scaled_dot_product_attention(query, query, query)
    return made.stride() == query.stride()


def _recurrent(gates: int, states: int) -> Callable[..., tuple[Made, Any]]:
    def row(
        x: Any,
        hx: Any,
        weights: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Made, Any]:
        given = list(hx) if states == 2 else [hx]
        sure(isinstance(weights, list | tuple) and len(given) == states)
        sure(all(isinstance(t, torch.Tensor) for t in (x, *given, *weights)))
        sure(all(t.dtype is x.dtype and t.dtype in _FLOATS[:2] for t in (x, *given, *weights)))
        sure(x.dim() == 3 and x.numel() > 0)
        batch, length = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
        directions = 2 if bidirectional else 1
        each = 4 if has_biases else 2
        sure(len(weights) == num_layers * directions * each)  # no projections
        width = weights[1].shape[1]
        state = (num_layers * directions, batch, width)
        sure(all(tuple(t.shape) == state for t in given))
        for k in range(0, len(weights), each):
            inner = x.shape[2] if k < directions * each else directions * width
            sure(tuple(weights[k].shape) == (gates * width, inner))
            sure(tuple(weights[k + 1].shape) == (gates * width, width))
            sure(all(tuple(b.shape) == (gates * width,) for b in weights[k + 2 : k + each]))
        size = (length, batch, directions * width)
        out = empty(size, x.dtype)
        if batch_first:
            out = empty(
                (batch, length, directions * width),
                x.dtype,
                (directions * width, batch * directions * width, 1),
            )
        finals = tuple(empty(state, x.dtype) for _ in given)
        random = bool(train and dropout and num_layers > 1)
        return Made((out, *finals), (x, *given, *weights), random), tuple

    return row


def _group_norm(
    input: Any,  # noqa: A002
    num_groups: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> tuple[Made, Any]:
    """On the CPU only it keeps images with the channels innermost as they are."""
    x = input
    sure(x.is_floating_point() and x.dim() > 1 and x.numel() > 0 and is_usual(x))
    sure(type(num_groups) is int and num_groups > 0 and x.shape[1] % num_groups == 0)
    parameters = tensors((weight, bias))
    sure(all(t.dtype is x.dtype and tuple(t.shape) == (x.shape[1],) for t in parameters))
    return one(empty(x.shape, x.dtype), x, *parameters)


def _max_pool1d(
    input: Any,  # noqa: A002
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Made, Any]:
    """Where a gradient is needed, it is `max_pool2d`, whose result may lie otherwise."""
    x = input
    sure(x.dtype in _FLOATS and x.dim() in (2, 3) and not ceil_mode and not return_indices)
    needs_grad = x.requires_grad and torch.is_grad_enabled()
    sure(lies_in_order(x) or not needs_grad)
    sure(x.numel() > 0 and x.shape[-1] > 1)
    kernel, padding, dilation = (_single(n) for n in (kernel_size, padding, dilation))
    step = kernel if stride is None or stride in ((), []) else _single(stride)
    sure(min(kernel, step, dilation) > 0 and 0 <= 2 * padding <= kernel)
    count = windows(x.shape[-1], kernel, step, padding, dilation)
    return one(empty((*x.shape[:-1], count), x.dtype), x)


def _single(given: Any) -> int:
    """A setting of one number, which may be in a sequence."""
    if isinstance(given, tuple | list) and len(given) == 1:
        (given,) = given
    sure(type(given) is int)
    return int(given)


def one_hot(tensor: Any, num_classes: Any = -1) -> tuple[Made, Any]:
    """In order, whatever the order of the classes' numbers is."""
    sure(tensor.dtype is torch.int64 and type(num_classes) in (int, torch.SymInt))
    sure(num_classes > 0 and tensor.numel() > 0)
    return one(empty((*tensor.shape, num_classes), torch.int64))


def of_data(data: Any, **given: Any) -> tuple[Made, Any]:
    """`torch.tensor` of numbers and lists of them: torch itself says what it makes of these. Sizes
    that vary are ints."""
    sure(given.keys() <= {"dtype", "device", "requires_grad", "pin_memory"})
    sure(not given.get("requires_grad"))
    plain(given)
    leaves = trees.leaves_of(data)
    if any(type(leaf) is torch.SymInt for leaf in leaves):
        sure(given.get("dtype") in (None, torch.int64, *_FLOATS))
        sure(data is leaves[0] or type(data) in (tuple, list))
        numbers = leaves if data is leaves[0] else data
        sure(all(type(n) in (int, torch.SymInt) for n in numbers))
        size = () if data is leaves[0] else (len(data),)
        return one(empty(size, given.get("dtype") or torch.int64))
    sure(all(type(leaf) in (bool, int, float, complex) for leaf in leaves))
    made = torch.tensor(data, dtype=given.get("dtype"))
    return one(empty(made.shape, made.dtype))


FUNCTION_ROWS: Mapping[str, Callable[..., tuple[Made, Any]]] = MappingProxyType(
    {
        "group_norm": _group_norm,
        "max_pool1d": _max_pool1d,
        "one_hot": one_hot,
        "scaled_dot_product_attention": attention,
        "tensor": of_data,
        "as_tensor": of_data,
        "lstm": _recurrent(4, 2),
        "gru": _recurrent(3, 1),
        "rnn_tanh": _recurrent(1, 1),
        "rnn_relu": _recurrent(1, 1),
    }
)
"""By the name of the function: what it makes, and how the tensors are returned."""
