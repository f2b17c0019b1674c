"""Tensors: aliasing, mutation, gradients, hooks and errors."""

import copy

import torch

from tests.footguns.support import floats, outcome, plain


def C01_inplace_on_input(C):
    x = floats(1, 2)
    v = x._version
    r = C(lambda x: x.add_(1))(x)
    return plain(x), r is x, x._version > v


def C04_output_aliases_output(C):
    a, b = C(lambda x: (lambda y: (y, y[0:1]))(x + 1))(floats(1, 2))
    b.mul_(10)
    return plain(a), a.data_ptr() == b.data_ptr()


def C05_same_output_twice(C):
    a, b = C(lambda x: (lambda y: (y, y))(x + 1))(floats(1))
    return a is b


def C06_detach_data_shares(C):
    x = floats(1).requires_grad_()

    def f(x):
        y = x.detach()
        y.add_(5)
        return x * 1

    return plain(C(f)(x)), plain(x)


def C07_data_setter(C):
    x = floats(1, 2)

    def f(x):
        x.data = torch.zeros(2)
        return x + 1

    return outcome(C(f), x), plain(x)


def C08_grad_field_read_none_then_set(C):
    x = floats(1).requires_grad_()
    f = C(lambda x: x + (0 if x.grad is None else x.grad))
    a = plain(f(x))
    x.grad = floats(5)
    return a, plain(f(x))


def C09_backward_inside(C):
    w = floats(2).requires_grad_()

    def f(x):
        (w * x).sum().backward()
        return w.grad * 1

    g = C(f)
    a = plain(g(floats(3)))
    return a, plain(g(floats(3))), plain(w.grad)


def C10_grad_accumulate_and_zero(C):
    w = floats(2).requires_grad_()

    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    return plain(C(f)(floats(3))), plain(w.grad)


def C11_retain_grad_hook(C):
    x = floats(2).requires_grad_()
    seen = []

    def f(x):
        y = x * 3
        y.register_hook(lambda g: seen.append(plain(g)) or g * 2)
        return (y * y).sum()

    C(f)(x).backward()
    return plain(x.grad), seen


def C12_hook_on_input(C):
    x = floats(2).requires_grad_()
    seen = []

    def f(x):
        x.register_hook(lambda g: seen.append(plain(g)))
        return (x * x).sum()

    C(f)(x).backward()
    return plain(x.grad), seen


def C14_set_grad_enabled_leaks(C):
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    x = floats(1).requires_grad_()
    try:
        r = C(f)(x)
        return r.requires_grad, torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def C18_mask_index_and_assign(C):
    def f(x):
        x[x > 1] = 0
        return x.sum()

    x = floats(1, 2, 3)
    return plain(C(f)(x)), plain(x)


def C19_setitem_slice_alias(C):
    def f(x):
        y = x[1:]
        y[0] = 9
        return x * 1

    x = floats(1, 2, 3)
    return plain(C(f)(x)), plain(x)


def C23_channels_last_preserved(C):
    x = torch.randn(1, 2, 3, 3).to(memory_format=torch.channels_last)
    y = C(lambda x: x.relu())(x)
    return y.is_contiguous(memory_format=torch.channels_last)


def C24_view_then_mutate_base(C):
    def f(x):
        v = x.view(-1)
        x.add_(1)
        return v * 1

    x = torch.zeros(2, 1)
    return plain(C(f)(x))


def C25_tensor_subclass_torch_function(C):
    class S(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            r = super().__torch_function__(func, types, args, kwargs or {})
            return r

    x = floats(1).as_subclass(S)
    y = C(lambda x: x + 1)(x)
    return type(y).__name__, plain(y)


def C26_double_backward(C):
    x = floats(3).requires_grad_()
    y = C(lambda x: (x**3).sum())(x)
    r = outcome(lambda: torch.autograd.grad(y, x, create_graph=True)[0].sum().backward())
    return r[:2], plain(x.grad) if x.grad is not None else None


def C27_autograd_function(C):
    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.k = 3
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x * ctx.k

    x = floats(2).requires_grad_()
    C(lambda x: F.apply(x).sum())(x).backward()
    return plain(x.grad)


def C28_checkpoint(C):
    from torch.utils.checkpoint import checkpoint

    x = floats(2).requires_grad_()
    C(lambda x: checkpoint(lambda v: v.sin() * v, x, use_reentrant=False).sum())(x).backward()
    return plain(x.grad)


def C29_mutated_input_needs_grad_view(C):
    w = torch.ones(2, requires_grad=True)

    def f(w):
        y = w * 1
        y[0].mul_(5)
        return y.sum()

    C(f)(w).backward()
    return plain(w.grad)


def C30_tensor_bool_int_float_conv(C):
    g = C(lambda x: [bool(x), int(x), float(x)])
    return g(torch.tensor(2.5)), g(torch.tensor(0.0))


def C33_deepcopy_tensor_and_module(C):
    def f(x):
        y = copy.deepcopy(x)
        y.add_(1)
        return x + y

    return plain(C(f)(floats(1)))


def C34_version_counter_error(C):
    x = floats(2).requires_grad_()

    def f(x):
        y = x.exp()
        z = y * y
        y.add_(1)
        return z.sum()

    return outcome(lambda: C(f)(x).backward())[:2]


def C35_integer_inplace_promotion_error(C):
    return outcome(C(lambda x: x.add_(0.5)), torch.ones(2, dtype=torch.int64))[:2]


def C36_shape_mismatch_error_type(C):
    return outcome(C(lambda a, b: a + b), torch.ones(2), torch.ones(3))[:2]


def C38_runtime_error_caught_by_user(C):
    def f(a, b):
        try:
            return a + b
        except RuntimeError:
            return a * 10

    return plain(C(f)(torch.ones(2), torch.ones(3)))
