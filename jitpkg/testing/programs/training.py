"""A grammar of programs that are trained: leaves among the arguments, derivatives of the program's
own, checkpoints, hooks, partial and repeated backward passes.

    python -m jitpkg.testing.programs --grammar jitpkg.testing.programs.training:TRAINING
"""

from __future__ import annotations

from dataclasses import replace

from jitpkg.testing.programs.writing import GRAMMAR

FUNCTIONS = """
*12 class <Name>(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, n):
        ctx.save_for_backward(v)
        ctx.n = n
        return <Name>.value(v, n)
    @staticmethod
    def value(v, n):
        <body vec v=vec n=int>
    @staticmethod
    def slope(g, v, n):
        <body vec g=vec v=vec n=int>
    @staticmethod
    def backward(ctx, g):
        return <Name>.slope(g, *ctx.saved_tensors, ctx.n), None
-> vec: *4 <Name>.apply(<vec>, <int>)
-> : *4 <new:vec> = <Name>.apply(<vec>, <int>)

*8 class <Name>(torch.autograd.Function):
    @staticmethod
    def forward(v, w):
        return v * 2 + w, w.abs()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)
    @staticmethod
    def backward(ctx, g, h):
        v, w, a, b = ctx.saved_tensors
        first = second = None
        if ctx.needs_input_grad[0]:
            first = g * <vec>
        if ctx.needs_input_grad[1]:
            second = (g + h * w).sum_to_size(w.shape)
        return first, second
-> vec: *3 <Name>.apply(<vec>, <vec>)[0]
-> : *3 <new:vec>, <new:vec> = <Name>.apply(<vec>, <vec>)
-> : *2 <new:vec>, <new:vec> = <Name>.apply(<x=vec>, <x>)

*6 class <Name>(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        result = v.abs() + 1
        result[:1] = <number>
        ctx.save_for_backward(result)
        ctx.twice = result * 2
        return result
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        (result,) = ctx.saved_tensors
        g = g.clone()
        g[g > <number>] = 1
        return g * result + ctx.twice
-> vec: *3 <Name>.apply(<vec>)
-> fn: *3 <Name>.apply

*6 class <Name>(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, by):
        ctx.by = by
        return v.view_as(v)
    @staticmethod
    def backward(ctx, g):
        return -g * ctx.by, None
-> vec: *3 <Name>.apply(<vec>, <number>)
-> : *3 <new:vec> = <Name>.apply(<vec:var>, <number>)

*4 class <Name>(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        top, at = v.sort()
        rounded = v.round()
        ctx.mark_non_differentiable(rounded)
        ctx.save_for_backward(at)
        return top, at, rounded
    @staticmethod
    def backward(ctx, g, *others):
        (at,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter(0, at, g * 3)
-> vec: *2 <Name>.apply(<vec>)[0]
-> : *2 <new:vec>, <new:ivec>, <new:vec> = <Name>.apply(<vec>)

*4 class <Name>(torch.autograd.Function):
    seen = []
    @staticmethod
    def forward(ctx, v):
        <Name>.seen.append(1)
        ctx.mark_dirty(v)
        return v.mul_(2)
    @staticmethod
    def backward(ctx, g):
        <Name>.seen.append(2)
        return g * 2
-> vec: *2 <Name>.apply(<vec>.clone())
-> int: len(<Name>.seen)
"""

_EXPRESSIONS = """
vec:
    *30 torch.utils.checkpoint.checkpoint(<fn>, <vec>, use_reentrant=False)
    *10 torch.utils.checkpoint.checkpoint(<module>, <vec>, use_reentrant=<bool>)
    *10 torch.utils.checkpoint.checkpoint(torch.mul, <vec>, <vec>, use_reentrant=False)
    *5 torch.utils.checkpoint.checkpoint(lambda v, n: v * n, <vec>, <number>, use_reentrant=False)
    *14 <vec>.detach().requires_grad_()
    *10 <vec:var>.grad
    !rounds *10 torch.utils.checkpoint.checkpoint(F.dropout, <vec>, use_reentrant=False)

optimizer:
    *30 torch.optim.SGD([<vec:var>], lr=0.1, momentum=0.9)
    *20 torch.optim.Adam([<vec:var>], lr=0.1, maximize=<bool>)
    *20 torch.optim.AdamW([<vec:var>], lr=<int> / 10 % 1, foreach=True)
    *10 torch.optim.NAdam([<vec:var>, <vec:var>.detach().requires_grad_()], lr=0.1)
    *10 torch.optim.RMSprop([<vec>.detach().requires_grad_(), <vec:var>], foreach=<bool>)
    *10 torch.optim.ASGD([<vec:var>], lr=0.1)
    *5 torch.optim.Adamax([torch.ones(2, requires_grad=True)])
"""

_STATEMENTS = """
*30 <new:vec> = torch.utils.checkpoint.checkpoint(<fn>, <vec>, use_reentrant=False)

*18 <vec:var>.register_hook(lambda grad: grad if grad is None else grad * 2)

*15 <f=new:any> = lambda v: (v * 2, v.abs())
<new:vec>, <new:vec> = torch.utils.checkpoint.checkpoint(<f>, <vec>, use_reentrant=False)

*15 <vec>.sum().backward(retain_graph=True)

*15 torch.autograd.backward([<vec:var>.sum(), <vec>.sum()])

*30 (<vec> * <vec>).exp().sum().backward()

*15 (<vec> * <v=vec:var>).sum().backward(inputs=[<v>])

*15 <v=vec:var>.grad = <v>.detach() * 2

*20 for <new:int> in range(2):
    (<vec> * <v=vec:var>).tanh().sum().backward()
    if <v>.grad is not None:
        with torch.no_grad():
            <v> -= 0.1 * <v>.grad

*15 <new:vec>, = torch.autograd.grad((<vec> * <v=vec:var>).sum(), [<v>], retain_graph=True)

*10 with torch.no_grad():
    <vec:var>.mul_(<number>)

*10 <vec:var>.retain_grad()

*20 <new:optimizer> = <optimizer>

*20 <o=optimizer:var>.zero_grad(set_to_none=<bool>)
(<vec> * <vec>).sum().backward()
<o>.step()

*20 for <new:int> in range(3):
    <o=optimizer:var>.param_groups[0]["lr"] *= 0.5
    <o>.step()

*20 <optimizer:var>.step()

*5 torch.nn.utils.clip_grad_norm_([<vec:var>], 1.0)

*5 <vec:var>.grad = None
"""

TRAINING = replace(
    GRAMMAR.with_rows(expressions=_EXPRESSIONS, statements=_STATEMENTS),
    classes=FUNCTIONS,
    leaves=60,
)
"""The usual grammar, with these rows, and leaves in three arguments of five."""
