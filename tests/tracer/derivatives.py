"""Functions with derivatives of their own, and what can be seen of programs that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

BACKENDS = ("eager", "aot_eager", "jitpkg")
Program = Callable[..., Any]


def leaf(*size: int, seed: int = 0, grad: bool = True) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator).requires_grad_(grad)


class Silu(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s)) * 2  # to be told apart


class Exp(Function):
    """Keeps its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return grad * result * 3


class Scaled(Function):
    """With `setup_context`, and an argument that is no tensor."""

    @staticmethod
    def forward(x: Tensor, by: float) -> Tensor:
        return x * by

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.by = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def vjp(ctx: Any, grad: Tensor) -> Any:
        x, output = ctx.saved_tensors
        return grad * ctx.by + 0 * x + 0 * output, None


class Product(Function):
    """Asks which gradients are needed; what it keeps is computed by the way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, names: list[str]) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.twice, ctx.count = x * 2, len(names)
        return x @ w

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _, w = ctx.saved_tensors
        gx = gw = None
        if ctx.needs_input_grad[0]:
            gx = grad @ w.t()
        if ctx.needs_input_grad[1]:
            gw = ctx.twice.t() @ grad / ctx.count
        return gx, gw, None


class Largest(Function):
    """Several results, of which one is of integers, one marked, and one nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        values, indices = x.max(-1)
        mean = x.mean(-1)
        ctx.mark_non_differentiable(mean)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return values, indices, mean, None

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *others: Any) -> Tensor:
        (indices,) = ctx.saved_tensors
        out = torch.zeros(ctx.shape)
        return out.scatter(-1, indices.unsqueeze(-1), grad.unsqueeze(-1) * 5) + others[1].sum()


class Straight(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = x.clone()
        out[out > 0] = 1
        return out.round_()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone()
        grad[grad.abs() > 1] = 0
        return grad


class Reversed(Function):
    """A view of its argument."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, by: float) -> Tensor:
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.neg() * ctx.by, None


class Same(Function):
    """Its argument itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * 3


class Dropped(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        mask = torch.rand_like(x) > 0.5
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (mask,) = ctx.saved_tensors
        return grad * mask


class Nested(Function):
    """Another one forward, and another one backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return Exp.apply(x).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return Silu.apply(x) * grad


class Unmaterialized(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Any:
        return None if grad is None else grad * 2


class Derived(Silu):
    """With a helper of the class, and `super`."""

    @classmethod
    def helper(cls, x: Tensor) -> Tensor:
        return x.cos()

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return Silu.forward(ctx, x) + Derived.helper(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return Silu.backward(ctx, grad) * 7


silu = Silu.apply


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.w = nn.Parameter(torch.randn(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return Product.apply(x, self.w, ["a", "b"]).relu()


LAYER = Layer()

PROGRAMS: dict[str, Program] = {
    "saves its argument": lambda x: Silu.apply(x * 2) + 1,
    "bound before": lambda x: silu(silu(x)),
    "saves its result": lambda x: Exp.apply(x.sin()).cos(),
    "setup_context": lambda x: Scaled.apply(x, 2.5) * 2,
    "several arguments": lambda x: Product.apply(x, x.t(), ["a"]).sum(-1),
    "of a parameter": LAYER,
    "several results": lambda x: Largest.apply(x * 3),
    "writes to its own": lambda x: Straight.apply(x * 3) * x,
    "a view": lambda x: Reversed.apply(x * 2, 0.5).sin(),
    "itself": lambda x: Same.apply(x * 2).sin(),
    "nested": lambda x: Nested.apply(x) * 2,
    "not materialized": lambda x: Unmaterialized.apply(x) * 2,
    "derived": lambda x: Derived.apply(x) * 2,
    "in a loop": lambda x: sum(Silu.apply(x * k) for k in range(3)),
    "without grad mode": torch.no_grad()(lambda x: Silu.apply(x)),
    "of a constant": lambda x: Silu.apply(x.detach()) * x,
    "of integers": lambda x: Scaled.apply(x.long(), 2).float() * x,
    "among others": lambda x: functional.layer_norm(Silu.apply(x) + Exp.apply(x), (4,)),
}


def seen(program: Program, *given: Tensor) -> list[Any]:
    """What the program returns, and the gradients of all."""
    torch.manual_seed(3)
    result = program(*given)
    results = [r for r in (result if isinstance(result, tuple) else (result,)) if r is not None]
    loss = sum((r * (k + 1.5)).sum() for k, r in enumerate(results) if r.requires_grad)
    leaves = [x for x in (*given, *LAYER.parameters()) if x.requires_grad]
    found: Any = ()
    if isinstance(loss, Tensor):
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
    plain = [*(r.detach() for r in results), *(r.requires_grad for r in results)]
    return [*plain, *found, torch.rand(1)]


def alike(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, Tensor):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=3e-5)
        else:
            assert a is b
