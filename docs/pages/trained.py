"""The functions that docs/training.md follows."""

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def loss(x, weight, target):
    hidden = functional.gelu(x @ weight)
    return ((hidden - target) ** 2).mean()


class Clipped(torch.autograd.Function):
    """The identity, whose gradient is bounded."""

    @staticmethod
    def forward(ctx, x, bound):
        ctx.bound = bound
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-ctx.bound, ctx.bound), None


def clipped_loss(x, weight, target):
    return loss(Clipped.apply(x, 0.1), weight, target)


def update(weights, optimizer):
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()


def step(weight, x, target, optimizer):
    found = loss(x, weight, target)
    found.backward()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return found.detach()


def block(x, weight):
    return functional.gelu(x @ weight).softmax(-1)


def deep(x, weight):
    for _ in range(4):
        x = checkpoint(block, x, weight, use_reentrant=False)
    return x.sum()


def deep_without(x, weight):
    for _ in range(4):
        x = block(x, weight)
    return x.sum()


def classified(x, weight, target):
    logits = x @ weight
    return functional.cross_entropy(logits, target), logits
