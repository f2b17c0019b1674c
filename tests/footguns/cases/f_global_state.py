"""Global state: random numbers, modes, defaults."""

import random

import torch
from torch import nn

from tests.footguns.support import floats, outcome, plain


def F01_python_random(C):
    g = C(lambda x: x + random.random())
    random.seed(0)
    a = [plain(g(floats(0))), plain(g(floats(0)))]
    b = round(random.random(), 4)
    return a, b


def F02_torch_rng_sequence(C):
    g = C(lambda x: x + torch.rand(1))
    torch.manual_seed(0)
    r = [plain(g(floats(0))) for _ in range(3)]
    return r, plain(torch.rand(1))


def F03_numpy_random(C):
    import numpy as np

    g = C(lambda x: x + np.random.rand())
    np.random.seed(0)
    r = [plain(g(floats(0))), plain(g(floats(0)))]
    return r, round(float(np.random.rand()), 4)


def F04_manual_seed_inside(C):
    def f(x):
        torch.manual_seed(7)
        return x + torch.rand(1)

    g = C(f)
    return plain(g(floats(0))), plain(g(floats(0)))


def F05_dropout_train_eval(C):
    m = nn.Dropout(0.5)
    g = C(m)
    m.eval()
    a = plain(g(torch.ones(3)))
    m.train()
    torch.manual_seed(0)
    b = plain(g(torch.ones(8)))
    torch.manual_seed(0)
    return a, b == plain(nn.functional.dropout(torch.ones(8), 0.5)), len(b)


def F06_grad_mode_switch(C):
    g = C(lambda x: (x * 2).requires_grad)
    x = floats(1).requires_grad_()
    a = g(x)
    with torch.no_grad():
        b = g(x)
    with torch.inference_mode():
        c = (g(x), torch.is_inference_mode_enabled())
    return a, b, c, g(x)


def F07_default_dtype_switch(C):
    g = C(lambda: torch.tensor(1.0).dtype)
    a = str(g())
    torch.set_default_dtype(torch.float64)
    try:
        return a, str(g())
    finally:
        torch.set_default_dtype(torch.float32)


def F12_num_threads(C):
    g = C(lambda x: x + torch.get_num_threads())
    n = torch.get_num_threads()
    a = plain(g(floats(0)))[0] - n
    torch.set_num_threads(n + 1)
    try:
        return a, plain(g(floats(0)))[0] - n
    finally:
        torch.set_num_threads(n)


def F13_torch_function_mode(C):
    from torch.overrides import TorchFunctionMode

    log = []

    class M(TorchFunctionMode):
        def __torch_function__(s, f, t, a=(), k=None):
            log.append(getattr(f, "__name__", "?"))
            return f(*a, **(k or {}))

    g = C(lambda x: x.sin() + 1)
    g(floats(0))
    with M():
        r = g(floats(0))
    return plain(r), "sin" in log


def F14_torch_dispatch_mode(C):
    from torch.utils._python_dispatch import TorchDispatchMode

    log = []

    class M(TorchDispatchMode):
        def __torch_dispatch__(s, f, t, a=(), k=None):
            log.append(str(f))
            return f(*a, **(k or {}))

    g = C(lambda x: x.sin() + 1)
    g(floats(0))
    with M():
        r = g(floats(0))
    return plain(r), any("sin" in s for s in log)


def F16_vmap_of_compiled(C):
    g = C(lambda x: x.sin().sum())
    return outcome(lambda: [round(v, 3) for v in plain(torch.vmap(g)(torch.ones(2, 3)))])


def F18_compiled_calls_func_grad(C):
    f = C(lambda x: torch.func.grad(lambda v: (v**3).sum())(x) + torch.vmap(torch.sin)(x))
    return plain(f(floats(2)))


def F20_torch_jit_is_compiling_flags(C):
    r = C(lambda x: (x + 1, torch.jit.is_scripting(), torch.jit.is_tracing()))(floats(0))
    return r[1:]
