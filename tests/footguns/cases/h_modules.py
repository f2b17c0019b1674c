"""Modules: parameters, buffers, submodules and hooks that change."""

import torch
from torch import nn

from tests.footguns.support import CountingScale, floats, plain


def H01_buffer_mutation(C):
    m = CountingScale()
    g = C(m)
    return plain(g(floats(1))), plain(g(floats(1))), plain(m.cnt)


def H02_module_int_attr_counter(C):
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.n = 0

        def forward(s, x):
            s.n += 1
            return x + s.n

    m = M()
    g = C(m)
    return [plain(g(floats(0))) for _ in range(12)][-1], m.n


def H03_param_replaced(C):
    m = CountingScale()
    g = C(m)
    a = plain(g(floats(1)))
    m.w = nn.Parameter(floats(10))
    return a, plain(g(floats(1)))


def H04_param_data_replaced(C):
    m = CountingScale()
    g = C(m)
    a = plain(g(floats(1)))
    m.w.data = floats(10)
    return a, plain(g(floats(1)))


def H06_submodule_swapped(C):
    m = nn.Sequential(nn.Identity(), nn.ReLU())
    g = C(m)
    a = plain(g(floats(-1)))
    m[1] = nn.Identity()
    return a, plain(g(floats(-1)))


def H07_module_append(C):
    ml = nn.ModuleList([nn.Identity()])

    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = ml

        def forward(s, x):
            for m in s.l:
                x = m(x) + 1
            return x

    m = M()
    g = C(m)
    a = plain(g(floats(0)))
    ml.append(nn.Identity())
    return a, plain(g(floats(0)))


def H08_forward_hook_added_later(C):
    m = nn.Linear(1, 1)
    nn.init.ones_(m.weight)
    nn.init.zeros_(m.bias)
    w = nn.Sequential(m)
    g = C(w)
    a = plain(g(floats(1)))
    h = m.register_forward_hook(lambda m, i, o: o + 100)
    b = plain(g(floats(1)))
    h.remove()
    return a, b, plain(g(floats(1)))


def H09_pre_hook_and_kwargs(C):
    class M(nn.Module):
        def forward(s, x, k=1):
            return x * k

    m = M()
    m.register_forward_pre_hook(lambda m, a, kw: ((a[0] + 1,), {"k": 5}), with_kwargs=True)
    return plain(C(m)(floats(1)))


def H10_backward_hook(C):
    m = nn.Linear(1, 1)
    nn.init.ones_(m.weight)
    nn.init.zeros_(m.bias)
    log = []
    m.register_full_backward_hook(lambda m, gi, go: log.append(plain(go[0])))
    x = floats(2).requires_grad_()
    C(m)(x).sum().backward()
    return plain(x.grad), log


def H11_train_eval_bn(C):
    m = nn.BatchNorm1d(2)
    g = C(m)
    x = torch.arange(8.0).reshape(4, 2)
    m.train()
    g(x)
    g(x)
    m.eval()
    return (
        [round(v, 3) for v in plain(g(x))][:2],
        [round(v, 4) for v in plain(m.running_mean)],
        int(m.num_batches_tracked),
    )


def H12_forward_patched_on_instance(C):
    m = nn.Sequential(nn.ReLU())
    g = C(m)
    a = plain(g(floats(-1)))
    m[0].forward = lambda x: x + 7
    return a, plain(g(floats(-1)))


def H13_shared_module_two_names(C):
    l = nn.Linear(1, 1)
    nn.init.ones_(l.weight)
    nn.init.zeros_(l.bias)

    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.a = l
            s.b = l

        def forward(s, x):
            return s.a(x) + s.b(x)

    m = M()
    x = floats(2)
    C(m)(x).sum().backward()
    return plain(l.weight.grad)


def H14_many_instances_same_class(C):
    ms = [CountingScale() for _ in range(12)]
    for i, m in enumerate(ms):
        m.k = i

    def f(m, x):
        return m(x)

    g = C(f)
    return [plain(g(m, floats(1))) for m in ms]


def H18_lazy_module(C):
    m = nn.LazyLinear(1)
    g = C(m)
    y = g(torch.ones(1, 3))
    return tuple(y.shape), type(m).__name__


def H20_requires_grad_frozen_later(C):
    m = nn.Linear(1, 1)
    g = C(m)
    a = g(floats(1)).requires_grad
    m.requires_grad_(False)
    return a, g(floats(1)).requires_grad
