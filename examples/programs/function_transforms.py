"""Train by function transforms: clipped per-sample gradients, an ensemble, a differential equation.

$ python function_transforms.py --steps 20
$ python function_transforms.py --compile
"""

import argparse
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, hessian, jacrev, stack_module_state, vmap


def spirals(n, generator):
    """Two arms, and which of them each point is on."""
    labels = torch.randint(0, 2, (n,), generator=generator)
    radius = torch.rand(n, generator=generator) * 3 + 0.3
    angle = radius * 2 + labels * torch.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return points + 0.1 * torch.randn(n, 2, generator=generator), labels


def classifier(width):
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))


def detached(module):
    return {name: each.detach().clone() for name, each in module.named_parameters()}


def private_step(model):
    """A step of descent with the gradient of each sample clipped, and noise added."""

    def loss(parameters, x, y):
        logits = functional_call(model, parameters, (x.unsqueeze(0),))
        return F.cross_entropy(logits, y.unsqueeze(0))

    def step(parameters, x, y, noise, lr):
        each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        new = {}
        for name, p in parameters.items():
            g = torch.einsum("n,n...->...", scale, each[name]) / len(x)
            new[name] = p - lr * (g + noise * torch.randn_like(p) / len(x))
        return new, norms.mean()

    return step


def ensemble_step(model):
    """A step of descent of several networks at once."""

    def loss(parameters, x, y):
        return F.cross_entropy(functional_call(model, parameters, (x,)), y)

    def step(parameters, x, y, lr):
        gradients = vmap(grad(loss), in_dims=(0, None, None))(parameters, x, y)
        losses = vmap(loss, in_dims=(0, None, None))(parameters, x, y)
        return {name: p - lr * gradients[name] for name, p in parameters.items()}, losses

    return step


def equation_step(model):
    """A step towards a solution of u''(t) = -u(t) with u(0) = 0 and u'(0) = 1."""

    def solution(parameters, t):
        return functional_call(model, parameters, (t.reshape(1, 1),)).squeeze()

    def loss(parameters, times):
        u = vmap(solution, in_dims=(None, 0))(parameters, times)
        bent = vmap(hessian(solution, argnums=1), in_dims=(None, 0))(parameters, times)
        start = torch.zeros(())
        slope = jacrev(solution, argnums=1)(parameters, start)
        return ((bent + u) ** 2).mean() + solution(parameters, start) ** 2 + (slope - 1) ** 2

    def step(parameters, times, lr):
        gradients = grad(loss)(parameters, times)
        return {name: p - lr * gradients[name] for name, p in parameters.items()}

    return step, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--networks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    x, y = spirals(args.samples, generator)
    network, curve = (
        classifier(args.width),
        nn.Sequential(nn.Linear(1, args.width), nn.Tanh(), nn.Linear(args.width, 1)),
    )
    private, together = private_step(network), ensemble_step(network)
    solve, residual = equation_step(curve)
    if args.compile:
        import jitpkg

        private, together, solve = map(jitpkg.jit, (private, together, solve))
    own = detached(network)
    stacked, _ = stack_module_state([classifier(args.width) for _ in range(args.networks)])
    stacked = {name: each.detach() for name, each in stacked.items()}
    equation = detached(curve)
    times = torch.linspace(0, 3, 24)
    for step in range(args.steps):
        began = time.perf_counter()
        own, norm = private(own, x, y, 0.5, 0.5)
        stacked, losses = together(stacked, x, y, 0.5)
        equation = solve(equation, times, 0.02)
        print(f"step {step}: {1000 * (time.perf_counter() - began):.2f} ms", file=sys.stderr)
        if step % 4 == 3:
            print(f"{step}: norm {norm:.4f}, losses {losses.mean():.4f} to {losses.max():.4f}")
    right = functional_call(network, own, (x,)).argmax(1) == y
    print(f"private: {right.float().mean():.3f} right")
    votes = vmap(lambda p: functional_call(network, p, (x,)))(stacked).softmax(-1).mean(0)
    print(f"ensemble: {(votes.argmax(1) == y).float().mean():.3f} right")
    print(f"equation: {residual(equation, times):.4f} off")


if __name__ == "__main__":
    main()
