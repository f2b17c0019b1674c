"""Tensors: metadata, classes, aliasing and attributes change; values need no entry."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.guards.support import (
    WAYS,
    Compiler,
    Way,
    X,
    check,
    entries,
    outcome,
    seen_and_back,
    unnoticed,
)

T = torch.Tensor


class Marked(torch.Tensor):
    """A subclass that does nothing of its own."""


def grid() -> T:
    return torch.arange(6.0).reshape(2, 3)


Make = Callable[[], T]

CHANGES: dict[str, tuple[Make, Make]] = {
    "dtype": (grid, lambda: grid().double()),
    "dtype, of equal width": (lambda: grid().int(), grid),
    "dtype, complex": (grid, lambda: torch.complex(grid(), grid())),
    "dtype, bool": (grid, lambda: grid() > 2),
    "dtype, half": (grid, lambda: grid().half()),
    "size": (grid, lambda: torch.ones(3, 3)),
    "size, of a dim that is 1": (lambda: torch.ones(1, 3), grid),
    "size, empty": (grid, lambda: torch.ones(0, 3)),
    "number of dims": (grid, lambda: grid()[None]),
    "no dims": (grid, lambda: torch.tensor(3.0)),
    "stride": (grid, lambda: torch.arange(6.0).reshape(3, 2).t()),
    "stride, of a slice": (grid, lambda: torch.ones(2, 6)[:, ::2]),
    "stride, expanded": (grid, lambda: torch.ones(1, 3).expand(2, 3)),
    "requires_grad": (grid, lambda: grid().requires_grad_()),
    "requires_grad, of a computed tensor": (grid, lambda: grid().requires_grad_() * 2),
    "device": (grid, lambda: grid().to("meta")),
    "class": (grid, lambda: torch.nn.Parameter(grid(), requires_grad=False)),
    "class, of the user's": (grid, lambda: grid().as_subclass(Marked)),
    "layout": (grid, lambda: grid().to_sparse()),
    "layout, compressed": (grid, lambda: grid().to_sparse_csr()),
    "quantised": (grid, lambda: torch.quantize_per_tensor(grid(), 0.1, 0, torch.qint8)),
    "conjugated": (
        lambda: torch.complex(grid(), grid()),
        lambda: torch.complex(grid(), grid()).conj(),
    ),
    "negated": (grid, lambda: torch.complex(grid(), grid()).conj().imag),
    "inference": (grid, lambda: in_inference_mode()),
}
"""A tensor and one that differs in one thing."""

OPAQUE = frozenset({"class, of the user's", "layout", "layout, compressed", "quantised"})
OPAQUE |= {"conjugated", "negated"}
"""What is not traced, so that nobody counts the entries."""


def in_inference_mode() -> T:
    with torch.inference_mode():
        return grid()


def seen(t: T) -> Any:
    """A function of the tensor, and all that Python can ask it for."""
    try:
        value = t + 1
    except (RuntimeError, NotImplementedError) as error:
        value = type(error).__name__
    facts = [t.dtype, t.layout, tuple(t.shape), t.requires_grad, t.device.type, t.is_contiguous]
    return value, str(facts[:-1]), t.is_floating_point(), t.is_conj(), t.is_neg(), t.is_inference()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", CHANGES)
def test_another_tensor(name: str, way: Way) -> None:
    first, second = CHANGES[name]

    def case(C: Compiler) -> Iterator[Any]:
        f = C(lambda x, t: (x.sin(), seen(t)))
        for make in (first, second, first, second):
            yield repr(f(X, make()))

    check(case, way, None if name in OPAQUE else (1, 2, 2, 2))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", CHANGES)
def test_another_tensor_in_a_cell(name: str, way: Way) -> None:
    """Not handed over by the hook, and found again by its path."""
    first, second = CHANGES[name]

    def case(C: Compiler) -> Iterator[Any]:
        t = [first()]
        f = C(lambda x: (x.sin(), t[0].dtype, seen(t[0])[0]))
        for make in (first, second, first):
            t[0] = make()
            yield repr(f(X))

    check(case, way, None if name in OPAQUE else (1, 2, 2))


# The same tensor, changed


InPlace = Callable[[T], Any]

IN_PLACE: dict[str, InPlace] = {
    "data, another shape": lambda t: setattr(t, "data", torch.ones(4)),
    "data, another stride": lambda t: setattr(t, "data", torch.arange(6.0).reshape(3, 2).t()),
    "transposed": lambda t: t.t_(),
    "resized": lambda t: t.resize_(3, 3).fill_(1.0),
    "squeezed": lambda t: t.unsqueeze_(0),
    "another storage": lambda t: t.set_(torch.ones(4, 4)),
    "storage of its own, strided": lambda t: t.as_strided_((2, 2), (1, 2)),
    "requires grad": lambda t: t.requires_grad_(),
    "class": lambda t: setattr(t, "__class__", Marked),
    "made a view by swapping": lambda t: torch.utils.swap_tensors(t, torch.ones(5)),
}
"""What identity of the object does not show."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", IN_PLACE)
def test_metadata_changed_in_place(name: str, way: Way) -> None:
    def case(C: Compiler) -> Iterator[Any]:
        t = grid()
        f = C(lambda x: (x.sin(), t * 2, tuple(t.shape), t.requires_grad, type(t).__name__))
        yield f(X)
        IN_PLACE[name](t)
        yield f(X)

    check(case, way, None if name == "class" else (1, 2))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", IN_PLACE)
def test_metadata_of_a_parameter_changed_in_place(name: str, way: Way) -> None:
    if name == "class":
        pytest.skip("a parameter's class has its own test")

    def case(C: Compiler) -> Iterator[Any]:
        m = torch.nn.Module()
        m.weight = torch.nn.Parameter(grid(), requires_grad=False)
        f = C(lambda x, m: (x.sin(), m.weight * 2, tuple(m.weight.shape)))
        yield f(X, m)
        IN_PLACE[name](m.weight)
        yield f(X, m)

    check(case, way, None)


@entries(1, 1, 1)
def test_values_may_differ(C):
    f, t = C(lambda x: x * 2 + x.sum()), grid()
    yield f(t)
    t.mul_(3)
    yield f(t)
    t.fill_(float("nan"))
    yield f(t)


@unnoticed
def test_storage_offset_may_differ(C):
    f, base = C(lambda x: x * 2), torch.arange(10.0)
    yield f(base[0:4])
    yield f(base[3:7])


@unnoticed
def test_pointer_may_be_unaligned(C):
    f, base = C(lambda x: x.sin() * 2), torch.arange(64.0)
    yield f(base[0:32])
    yield f(base[1:33])


@entries(1, 1)
def test_marks_of_another_compiler_are_not_read(C):
    f, x = C(lambda x: x * 2), grid()
    yield f(x)
    x._dynamo_dynamic_indices = {0}
    yield f(x)


@seen_and_back
def test_back_to_no_gradient(C):
    f, t = C(lambda x: ((x * 2).requires_grad, x * 3)), grid()
    yield f(t)
    t.requires_grad_()
    yield f(t)
    t.requires_grad_(False)
    yield f(t)


@seen_and_back
def test_memory_format_read(C):
    f = C(lambda x: x + (1 if x.is_contiguous() else 2))
    yield f(grid())
    yield f(torch.arange(6.0).reshape(3, 2).t())
    yield f(grid())


@entries(1, 2, 2)
def test_channels_last(C):
    f, image = C(lambda x: (x * 2).stride()), torch.ones(2, 3, 4, 4)
    yield f(image), f(image)
    yield f(image.to(memory_format=torch.channels_last))
    yield f(image)


# Two tensors


@seen_and_back
def test_two_tensors_become_one(C):
    def f(a, b):
        a.add_(1)
        return a + b

    f = C(f)
    yield f(grid(), grid())
    one = grid()
    yield f(one, one), one
    yield f(grid(), grid())


@seen_and_back
def test_one_tensor_becomes_two(C):
    def f(a, b):
        a.add_(1)
        return a + b

    f, one = C(f), grid()
    yield f(one, one), one
    yield f(grid(), grid())
    yield f(one, one), one


@seen_and_back
def test_identity_of_tensors(C):
    f, one = C(lambda a, b: a + (1 if a is b else 2)), grid()
    yield f(grid(), grid())
    yield f(one, one)
    yield f(grid(), grid())


@entries(None)
def test_tensors_begin_to_share_memory(C):
    """A write to one is seen through the other."""

    def f(a, b):
        a.mul_(2)
        return b + 0

    f, base = C(f), torch.arange(1.0, 6.0)
    yield f(torch.ones(3), torch.ones(3))
    yield f(base[0:3], base[1:4]), base
    yield f(base[0:3], base[0:3]), base
    yield f(base[0:3], base.view(5)[2:5]), base


@entries(None)
def test_parameter_and_argument_share_memory(C):
    def f(x, m):
        m.weight.data.mul_(2)
        return x + 1

    m = torch.nn.Linear(2, 2)
    torch.nn.init.ones_(m.weight)
    f = C(f)
    yield f(torch.ones(2, 2), m)
    yield f(m.weight.data, m)
    yield f(m.weight.detach()[:1], m)


@seen_and_back
def test_argument_is_a_parameter(C):
    m = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.ones_(m.weight)
    f = C(lambda p, m: m(X) + (1 if p is m.weight else 2))
    yield f(torch.nn.Parameter(torch.ones(2, 2)), m)
    yield f(m.weight, m)
    yield f(torch.nn.Parameter(torch.ones(2, 2)), m)


@entries(None)
def test_tied_parameters_untied(C):
    m = torch.nn.Module()
    m.a = torch.nn.Parameter(torch.ones(2))
    m.b = m.a
    f = C(lambda x, m: (x * m.a + m.b, m.a is m.b))
    yield f(X, m)
    m.b = torch.nn.Parameter(torch.full((2,), 3.0))
    yield f(X, m)
    m.b = m.a
    yield f(X, m)


# What hangs on a tensor


@seen_and_back
def test_gradient_present(C):
    f, t = C(lambda x, t: x + (1 if t.grad is None else 2)), grid().requires_grad_()
    yield f(X, t)
    t.grad = torch.ones(2, 3)
    yield f(X, t)
    t.grad = None
    yield f(X, t)


@entries(1, 1, 2)
def test_gradient_of_another_kind(C):
    f, t = C(lambda x, t: t.grad * 2), grid().requires_grad_()
    t.grad = torch.ones(2, 3)
    yield f(X, t)
    t.grad = torch.full((2, 3), 5.0)
    yield f(X, t)
    t.grad = torch.ones(3, 2).t()
    yield f(X, t)


@seen_and_back
def test_leaf_or_not(C):
    f, t = C(lambda t: t.detach() + (1 if t.is_leaf else 2)), grid().requires_grad_()
    yield f(t)
    yield f(t * 1)
    yield f(t)


def hooked(x: T) -> T:
    x.register_hook(lambda grad: grad * 10)
    return x


def hooked_after(x: T) -> T:
    def doubled(x: T) -> None:
        x.detach().mul_(2)

    x.register_post_accumulate_grad_hook(doubled)
    return x


def of_any_gradient(x: Any) -> T:
    if hasattr(x, "grad_dtype"):
        x.grad_dtype = None
    return x


NO_PLAIN_LEAVES: dict[str, Callable[[T], T]] = {
    "history": lambda x: x * 3,
    "view": lambda x: x[:1],
    "view without a history": lambda x: x.detach()[:1].requires_grad_(),
    "hook": hooked,
    "hook of the gradient": hooked_after,
    "hook that is gone": lambda x: x.register_hook(bool).remove() or x,
    "gradients of any dtype": of_any_gradient,
    "parameter": lambda x: torch.nn.Parameter(x.detach()),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", NO_PLAIN_LEAVES)
def test_backward_to_another_leaf(name: str, way: Way) -> None:
    def program(x: T) -> T:
        (x * 2).exp().sum().backward()
        return x + 1

    def gradients(f: Any, leaf: T, changed: T) -> list[Any]:
        values = f(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the gradient of what is no leaf
            return [values, leaf.grad, changed.grad, leaf]

    def case(C: Compiler) -> Iterator[Any]:
        f = C(program)
        for change in (lambda x: x, NO_PLAIN_LEAVES[name], lambda x: x):
            leaf = grid().requires_grad_()
            yield gradients(f, leaf, change(leaf))

    check(case, way, None)


@seen_and_back
def test_attribute_of_a_tensor(C):
    f, t = C(lambda x, t: x + getattr(t, "tag", 0)), grid()
    yield f(X, t)
    t.tag = 5
    yield f(X, t)
    del t.tag
    yield f(X, t)


@entries(None)
def test_hook_added_to_a_tensor(C):
    def f(t):
        (t * 2).sum().backward()
        return t.grad.clone()

    f, t = C(f), grid().requires_grad_()
    yield f(t)
    t.grad = None
    handle = t.register_hook(lambda g: g * 10)
    yield f(t)
    t.grad = None
    handle.remove()
    yield f(t)


@entries(None)
def test_history_is_eager_s_own(C):
    f, t = C(lambda a: a * a), grid().requires_grad_()
    for scale in (1, 2):
        t.grad = None
        f(t * scale).sum().backward()
        yield t.grad


@entries(None)
def test_error_of_a_shape_that_does_not_fit(C):
    f = C(lambda a, b: a.sin() + b)
    yield outcome(f, torch.ones(2), torch.ones(2))
    yield outcome(f, torch.ones(2), torch.ones(3))
    yield outcome(f, torch.ones(2), torch.ones(2))


# Classes of tensors


@entries(None)
def test_torch_function_appears(C):
    class Local(torch.Tensor):
        pass

    f, t = C(lambda x, t: (x.sin(), t + 1)), grid().as_subclass(Local)
    yield f(X, t)

    def counted(cls, func, types, args=(), kwargs=None):
        return torch.zeros(1)

    Local.__torch_function__ = classmethod(counted)
    yield f(X, t)
    del Local.__torch_function__
    yield f(X, t)


@entries(None)
def test_parameter_class_patched(C):
    p = torch.nn.Parameter(torch.ones(2))
    f, sin = C(lambda p: p.sin()), torch.nn.Parameter.__dict__.get("sin")
    assert sin is None
    yield f(p)
    torch.nn.Parameter.sin = lambda self: self.cos()
    try:
        yield f(p)
    finally:
        del torch.nn.Parameter.sin
    yield f(p)
