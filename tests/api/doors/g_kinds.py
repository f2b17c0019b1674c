"""Callables of odd kinds."""

import concurrent.futures
import enum
import functools
import gc
import queue
import sys
import threading
import types
import warnings
import weakref

import torch
from torch import nn

from tests.api.doors.support import Obj, X, plain


def bound_builtin_methods(C):
    xs = [1]
    d = {"a": X}
    C(xs.append)(2)
    C(xs.extend)([3])
    return (
        xs,
        C(d.get)("a"),
        C(d.get)("b", 1),
        C("a-b".split)("-"),
        C(X.add)(1),
        C(X.clone().add_)(1),
        C((3).__add__)(4),
        C(str.upper)("a"),
    )


def unbound_methods(C):
    class A:
        k = 2

        def f(self, x):
            return x * self.k

    return (
        C(A.f)(A(), X),
        C(torch.Tensor.add)(X, 1),
        C(list.index)([1, 2], 2),
        C(nn.Module.train)(nn.Tanh()).training,
        C(dict.fromkeys)("ab", 1),
    )


def callable_in_torch_apis(C):
    x = X.clone()
    f = C(Obj(3))
    lr = torch.optim.lr_scheduler.LambdaLR(
        torch.optim.SGD([nn.Parameter(X)], lr=1.0), C(lambda e: 0.5**e)
    )
    y = torch.func.jvp(C(torch.sin), (x,), (torch.ones(2),))
    z = torch.utils.checkpoint.checkpoint(
        C(lambda x: x * 2), x.clone().requires_grad_(), use_reentrant=False
    )
    return (
        lr.get_last_lr(),
        y,
        z,
        torch.func.vmap(f)(X[None]),
        x.apply_(C(lambda v: v + 1)),
        x.map_(x, C(lambda a, b: a + b)),
    )


def data_loader_callbacks(C):
    class D(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        @C
        def __getitem__(self, k):
            return torch.full((2,), float(k))

    loader = torch.utils.data.DataLoader(
        D(), batch_size=2, collate_fn=C(lambda xs: torch.stack(xs) * 2)
    )
    return [b for b in loader]


def in_executors(C):
    f = C(lambda x, k=1: x * k)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        several = list(pool.map(f, [X, X + 1, X + 2]))
        return several, pool.submit(C(functools.partial(f, k=3)), X).result()


def timer_and_queue(C):
    q = queue.Queue()
    t = threading.Timer(0.001, C(lambda: q.put(plain(X * 2))))
    t.start()
    t.join()
    return q.get()


def finalizers_and_callbacks(C):
    log = []

    class A:
        pass

    a = A()
    weakref.finalize(a, C(log.append), "gone")
    r = weakref.ref(a, C(lambda r: log.append("dead")))
    del a
    gc.collect()
    return sorted(log), r() is None


def atexit_like_and_signal(C):
    import atexit

    log = []
    f = C(lambda: log.append(1))
    atexit.register(f)
    atexit.unregister(f)
    f()
    return log


def excepthook_like(C):
    try:
        C(lambda: 1 / 0)()
    except ZeroDivisionError as e:
        return str(e), e.__traceback__.tb_next.tb_frame.f_code.co_name


def warnings_location(C):
    def f(x):
        warnings.warn("careful")
        return x + 1

    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        C(f)(X)
        C(functools.partial(f, X))()
    return [
        (str(x.message), x.filename == __file__, x.lineno - f.__code__.co_firstlineno) for x in w
    ]


def locals_and_frames(C):
    def f(x, k=2):
        y = x * k
        return sorted(locals()), sys._getframe().f_code.co_name, y

    return C(f)(X), C(functools.partial(f, k=3))(X)


def globals_and_eval(C):
    def f(x):
        return eval("x * 2"), "X" in globals(), len(dir())

    return C(f)(X)


def super_without_arguments_in_call(C):
    class A(Obj):
        def __call__(self, x):
            def inner():
                return 1

            return super().__call__(x) + inner()

    f = C(A(3))
    return f(X), C(A(4).__call__)(X)


def class_cell(C):
    class A:
        def f(self, x):
            return x, __class__.__name__

    A.f = C(A.f)
    return A().f(X), C(A().f)(X)


def name_mangling(C):
    class A:
        __k = 3

        @C
        def f(self, x):
            return x * self.__k

    return A().f(X)


def slots_with_dict_and_weakref(C):
    class A:
        __slots__ = ("__dict__", "__weakref__", "k")

        def __init__(self):
            self.k = 1
            self.z = 2

        def __call__(self, x):
            return x * self.k + self.z

    a = A()
    f = C(a)
    r = f(X)
    f.z = 5
    f.k = 2
    return r, f(X), a.z, a.k, vars(f)


def callable_deque_subclass(C):
    class L(list):
        def __call__(self, x):
            return x * len(self)

    class D(dict):
        def __call__(self, x):
            return x * self["k"]

    l, d = L([1, 2]), D(k=3)
    f, g = C(l), C(d)
    a = f(X), g(X)
    l.append(1)
    d["k"] = 4
    return a, f(X), g(X)


def callable_exception_and_int(C):
    class E(Exception):
        def __call__(self, x):
            return x * len(self.args)

    class I(int):
        def __call__(self, x):
            return x * int(self)

    class S(str):
        def __call__(self, x):
            return x * len(self)

    return C(E(1, 2))(X), C(I(3))(X), C(S("abc"))(X)


def callable_enum_member(C):
    class Op(enum.Enum):
        ADD = "add"
        MUL = "mul"

        def __call__(self, x):
            return getattr(torch, self.value)(x, 2)

    return C(Op.ADD)(X), C(Op.MUL)(X), C(lambda o, x: o(x))(Op.ADD, X)


def callable_tensor_subclass(C):
    class T(torch.Tensor):
        def __call__(self, x):
            return self.as_subclass(torch.Tensor) + x

    return C(X.clone().as_subclass(T))(X)


def callable_module_type(C):
    class M(types.ModuleType):
        def __call__(self, x):
            return x * self.k

    m = M("m")
    m.k = 3
    f = C(m)
    a = f(X)
    m.k = 4
    return a, f(X)


def dynamic_class_creation(C):
    A = type("A", (Obj,), {"__call__": C(lambda self, x: x - self.k)})
    B = types.new_class("B", (A,))
    return A(1)(X), B(2)(X), C(B(3))(X)


def monkeypatched_call_then_restored(C):
    o = Obj(3)
    f = C(o)
    a = f(X)
    old = Obj.__call__
    try:
        Obj.__call__ = C(lambda self, x: x * 100)
        b = f(X)
    finally:
        Obj.__call__ = old
    return a, b, f(X)


def default_mutable_of_inner(C):
    inner = C(lambda x, acc=[]: (acc.append(1), x * len(acc))[1])
    outer = C(lambda x: inner(x) + inner(x))
    return outer(X), outer(X), inner.__defaults__
