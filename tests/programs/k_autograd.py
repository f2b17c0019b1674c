"""Grad modes, backward, gradients, hooks, functions of the program's own, checkpoints."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.programs.program import Programs, call, floats, grid, leaf

program = Programs()


@program(call(leaf(1, 2)), call(leaf(1, 2)), every_break=True)
def results_require_grad(x):
    y = x * 2
    z = y.detach() + x
    return y, z, y.requires_grad, z.is_leaf, x.is_leaf


@program(call(leaf(1, 2)), call(floats(1, 2)), every_break=True)
def no_grad_block(x):
    with torch.no_grad():
        y = x * 2
        inside = torch.is_grad_enabled()
    return y + x, y.requires_grad, inside, torch.is_grad_enabled()


@program(call(leaf(1, 2)), call(leaf(1, 2)))
def grad_modes_nested(x):
    with torch.no_grad():
        with torch.enable_grad():
            y = x * 2
        with torch.set_grad_enabled(False):
            z = x * 3
    return y, z, y.requires_grad, z.requires_grad


@torch.no_grad()
def without_grad(x):
    return x * 5


@program(call(leaf(1, 2)))
def grad_mode_decorator(x):
    return without_grad(x) * x, without_grad(x).requires_grad


@program(call(leaf(1, 2)), graphs=None)
def grad_mode_left_switched(x):
    torch.set_grad_enabled(False)
    y = x * 2
    return y, torch.is_grad_enabled()


@program(call(leaf(1, 2)), graphs=None)
def inference_mode_block(x):
    with torch.inference_mode():
        y = x * 2
    return y, y.is_inference(), torch.is_inference_mode_enabled()


@program(
    call(leaf(1, 2), floats(3, 4)), call(leaf(1, 2), floats(3, 4)), graphs=None, every_break=True
)
def backward_inside(x, y):
    loss = (x * y).sum()
    loss.backward()
    return loss.detach() + x.grad


@program(call(leaf(1, 2)), graphs=None)
def gradient_read_and_reset(x):
    before = x.grad
    (x**2).sum().backward()
    first = x.grad.clone()
    x.grad = None
    (x**3).sum().backward()
    x.grad.zero_()
    return before, first, x.grad


@program(call(leaf(1, 2)), graphs=None)
def gradient_by_function(x):
    y = (x**3).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    return g, gg


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > ctx.low) * 10, None


@program(call(leaf(1, 2)), call(leaf(3, 0)))
def own_autograd_function(x):
    return Clamp.apply(x * 1, 1.5) * 2


def block(x, w):
    return torch.tanh(x @ w)


@program(call(leaf(1, 2).view(1, 2), grid(2, 2)), graphs=None)
def checkpointed(x, w):
    return checkpoint(block, x, w, use_reentrant=False).sum() + 1


@program(call(leaf(1, 2)), graphs=None)
def hooks_on_tensors(x):
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return y * 3


@program(call(leaf(1, 2)), graphs=None)
def retained_gradient(x):
    y = x * 2
    y.retain_grad()
    (y**2).sum().backward()
    return y.grad, x.grad


@program(call(floats(1, 2)), graphs=None)
def requires_grad_switched_on(x):
    w = torch.ones(2).requires_grad_()
    y = (x * w).sum()
    y.backward()
    return w.grad, w


@program(call(leaf(1, 2)), call(leaf(1, 2)))
def in_place_on_intermediate(x):
    y = x * 2
    y += 1
    z = y * y
    y_view = z[0]
    return z, y_view.mul(3)


@program(call(leaf(1, 2)), graphs=None)
def in_place_on_a_leaf_raises(x):
    y = x + 1
    try:
        x.add_(1)
    except RuntimeError as error:
        return y, str(error)


@program(call(leaf(1, 2), floats(0)), call(leaf(1, 2), floats(0)))
def parameter_update(w, step):
    with torch.no_grad():
        w -= 0.1 * w
        step += 1
    return w * step


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(floats(2))

    def forward(self, x):
        return Straight.apply(x * self.scale) / self.scale


program(call(leaf(1.3, 2.6)), call(leaf(0.2, 0.4)), name="straight_through")(Quantised())


@program(call(leaf(1, 2)), graphs=None)
def double_backward(x):
    y = x.exp().sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (g * x).sum().backward()
    return x.grad


@program(call(leaf(1, 2), floats(2, 3)), graphs=None)
def training_step_by_hand(w, x):
    losses = []
    for _ in range(3):
        loss = ((w * x).sum() - 1) ** 2
        loss.backward()
        with torch.no_grad():
            w -= 0.01 * w.grad
            w.grad = None
        losses.append(loss.item())
    return w, losses


@program(call(leaf(1, 2)), graphs=None)
def saved_tensor_hooks(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = x.sin()
    return y * 2


@program(call(leaf(1, 2)), graphs=None)
def optimizer_step(x):
    w = nn.Parameter(floats(1, 2))
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        ((w - x.detach()) ** 2).sum().backward()
        optimizer.step()
    return w * x


@program(call(leaf(1, 2)), graphs=None)
def functional_gradients(x):
    return torch.func.grad(lambda v: (v**2).sum())(x), torch.func.vmap(lambda v: v * 2)(x)


@program(call(leaf(1, 2)), graphs=None)
def jacobians(x):
    return torch.autograd.functional.jacobian(lambda v: v**2, x), torch.func.jacrev(torch.sin)(x)
