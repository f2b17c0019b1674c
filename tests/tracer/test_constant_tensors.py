"""Tensors that are made of constants: what is read of them is known while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import jitpkg
from jitpkg.testing import Comparison, call
from jitpkg.testing.programs.modes import HOW_COMPUTED

Program = Callable[..., Any]
X = torch.arange(6.0).reshape(2, 3)


def sizes(x: Any) -> Any:
    size = torch.tensor([2, 3, 4])
    n = size[1]
    return (
        *(torch.arange(0, n) / n, x.new_zeros(size[0], 2), torch.zeros(n, n), x.reshape(n, -1)),
        *(x.expand(size[2], 2, 3), torch.ones(int(n)), x.view(torch.div(6, 2).long(), 2)),
    )


def numbers(x: Any) -> Any:
    t = torch.tensor([[1, 2], [3, 4]]) * 2
    s = t.float().mean()
    return t.tolist(), t.sum().item(), s.item(), float(s), int(t.max()), bool(s > 4), x + s


def indices(x: Any) -> Any:
    n = torch.tensor(1)
    return x[:n], x[n:], [10, 20, 30][n], (4, 5)[n]


def keys(x: Any) -> Any:
    n, last = torch.tensor(1), torch.tensor([0, -1])[1]
    small = torch.tensor(1, dtype=torch.int8)
    y = x.clone()
    y[n, 1:] = 7
    y[:, last] += 1
    return x[n, :2], x[..., n], x[n], x[:, None, last], x[small, 1], y, x[n, n]


def branches(x: Any) -> Any:
    t = torch.tensor([1.5, -2.0])
    if (t > 0).any():
        x = x * 2
    if t.sum() > 0:
        x = x - 1
    while t[0] < 4:
        t = t + 1
        x = x + 1
    assert t.isfinite().all()
    return x, t


def loops(x: Any) -> Any:
    for k in range(int(torch.tensor(3))):
        x = x + k
    for k in torch.tensor([1, 2]).tolist():
        x = x * k
    return x


PROGRAMS = [sizes, numbers, indices, keys, branches, loops]
WAYS: dict[str, dict[str, Any]] = {
    "eager": {"fullgraph": True},
    "jitpkg": {"fullgraph": True, "backend": "jitpkg", "ignore": HOW_COMPUTED, "relative": 1e-6},
    "aot_eager": {"fullgraph": True, "backend": "aot_eager", "ignore": HOW_COMPUTED},
    "breaks": {"settings": {"disturb": "break"}},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program: Program, way: str) -> None:
    Comparison(**WAYS[way]).assert_same_calls(program, call(X), call(X + 1))


def written(x: Any) -> Any:
    t = torch.tensor([1, 2, 3])
    t += 1
    return x.new_zeros(t[0].item()), x


def written_through_a_view(x: Any) -> Any:
    t = torch.tensor([1, 2, 3])
    v = t[1:]
    before = v.sum().item()
    t[1] = 7
    return before, v.sum().item() + 1, t.tolist(), x * before


def written_through_an_array(x: Any) -> Any:
    t = torch.tensor([1, 2, 3])
    t.numpy()[0] = 5
    return t.tolist(), x + 1


def made_of_data(x: Any) -> Any:
    t = torch.tensor([2, 3]) + x.sum().long()
    return t.tolist(), x + 1


def of_memory_that_was_there(x: Any) -> Any:
    t = torch.tensor([1.0, 2.0])
    u = torch.empty_like(t)
    u.fill_(3)
    return u.tolist(), x + 1


def drawn(x: Any) -> Any:
    t = torch.tensor([1.0, 2.0])
    return torch.rand_like(t).tolist(), torch.bernoulli(t / 4).tolist(), x + 1


def of_another_dtype(x: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        t = torch.tensor([[1.0, 1 / 3]])
        u = t @ t.T
    return u.item(), u.dtype, x + 1


def trained(x: Any) -> Any:
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    (t * x.sum()).sum().backward()
    return t.grad, t.detach().tolist()


def raises(x: Any) -> Any:
    t = torch.tensor([float("nan")])
    try:
        return int(t), x + 1
    except ValueError as error:
        return str(error), x + 2


def masks(x: Any) -> Any:
    byte, mask = torch.tensor(1).byte(), torch.tensor(True)
    return x[byte], x[mask], x[mask, 0], x[:, torch.tensor([1])], x[torch.tensor([[0]])]


def gradients_that_are_summed(x: Any) -> Any:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    w.grad = torch.zeros(2)
    g = w.grad
    before = g.sum().item()
    (w * x.sum()).sum().backward()
    return before, g.tolist(), w.grad.sum().item()


def warns(x: Any) -> Any:
    t = torch.tensor([1.5]).requires_grad_()
    return float(t), int(t.detach()), bool(t), x + 1


def written_by_a_transform(x: Any) -> Any:
    t = torch.tensor([1.0, 2.0, 3.0])
    before = t.sum().item()
    torch.func.vmap(lambda row: t.add_(1).sum() * 0 + row.sum())(x)
    return before, t.sum().item()


def written_by_a_checkpoint(x: Any) -> Any:
    t = torch.tensor([1.0, 2.0, 3.0])

    def body(x: Any) -> Any:
        t.mul_(2)
        return (x * t).sum()

    y = torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)
    return y, t.tolist()


def written_by_lists(x: Any) -> Any:
    t, u = torch.tensor([1.0, 2.0]), torch.tensor([3.0])
    torch._foreach_add_([t, u], 1.5)
    v = torch.tensor([0.0, 0.0])
    torch.add(t, 1, out=v)
    return t.tolist(), u.item(), v.tolist(), x + 1


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        t.add_(1)
        ctx.mark_dirty(t)
        return t

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def written_by_a_function(x: Any) -> Any:
    t = torch.tensor([1.0, 2.0])
    u = Dirty.apply(t)
    return t.tolist(), u.sum().item(), x + 1


def swapped(x: Any) -> Any:
    t, u = torch.tensor([1, 2]), torch.tensor([5, 6])
    t.set_(u)
    u[0] = 9
    t.data.add_(1)
    return t.tolist(), u.tolist(), x + 1


OTHERS = [
    *(gradients_that_are_summed, warns, written_by_a_transform, written_by_a_checkpoint, swapped),
    *(written_by_lists, written_by_a_function, masks),
    *(written, written_through_a_view, written_through_an_array, made_of_data, drawn),
    *(of_memory_that_was_there, of_another_dtype, trained, raises),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.__name__)
def test_what_is_not_known(program: Program, way: str) -> None:
    options = {key: value for key, value in WAYS[way].items() if key != "fullgraph"}
    Comparison(**options).assert_same_calls(program, call(X), call(X + 1))


def test_numbers_that_vary_are_no_constants() -> None:
    def f(x: Any, scale: float, n: int) -> Any:
        t = torch.tensor([scale, 2.0])
        return t.tolist(), torch.tensor([n, len(x)]).sum().item(), x * t[0]

    calls = [call(torch.ones(n + 1), n * 1.5, n) for n in (1, 2, 3, 5)]
    Comparison().assert_same_calls(f, *calls)
    Comparison(dynamic=True).assert_same_calls(f, *calls)


def test_the_default_dtype_counts() -> None:
    def f(x: Any) -> Any:
        return torch.tensor(0.1).item(), x + 1

    compiled = jitpkg.compile(f)
    assert compiled(X)[0] == f(X)[0]
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(X)[0] == f(X)[0] == 0.1
    finally:
        torch.set_default_dtype(torch.float32)


LINES = [
    *("{t} = torch.tensor({data})", "{t} = {u} + {v}", "{t} = {u} * 2", "{t} = {u}[1:]"),
    *("{t} = {u}.flip(0)", "{t} = {u}.reshape(-1, 1).expand(-1, 2)[:, 0]", "{t} = -{u}"),
    *("{t} = {u}.long() % 3", "{t} = torch.where({u} > 1, {u}, {v})", "{t} = {u}.clone()"),
    *("{t} = {u}.view(-1)", "{t} = {u} + x[0, 0]", "{t} = {u}.cumsum(0)", "{t} = {u}.float()"),
]
WRITES = ["{u} += 1", "{u}[0] = 5", "{u}.mul_({v})", "{u}[:1].zero_()", "{u}.copy_({v})"]
READS = [
    *("n = int({u}.sum())", "n = {u}[0].item()", "kept.append({u}.tolist())", "n = float({u}[-1])"),
    *(
        "x = x + 1 if {u}.sum() > {v}.sum() else x - 1",
        "x = x.new_zeros(int({u}[0]) % 3 + 1, 2) + n",
    ),
    *("kept.append(x[: {u}[0].long() % 2])", "x = x * {u}[0]", "n = n + bool(({u} > 1).all())"),
    *(
        "kept.append(torch.arange(0, {u}[0].long() % 4))",
        "kept.append([4, 5, 6][{u}[0].long() % 3])",
    ),
]


@st.composite
def programs(draw: Any) -> str:
    lines, tensors = ["t = torch.tensor([1, 2, 3])"], ["t"]
    for k in range(draw(st.integers(3, 12))):
        kind = draw(st.sampled_from([LINES, LINES, WRITES, READS, READS]))
        line = draw(st.sampled_from(kind))
        number = st.sampled_from([0, 1, 2, 3, -1])
        whole = draw(st.booleans())
        data = [n if whole else n + 0.5 for n in draw(st.lists(number, min_size=3, max_size=3))]
        u, v = (draw(st.sampled_from(tensors)) for _ in "uv")
        lines.append(line.format(t=f"t{k}", u=u, v=v, data=data))
        if kind is LINES:
            tensors.append(f"t{k}")
    body = "\n".join(f"    {line}" for line in lines)
    made = ", ".join(tensors)
    return f"def program(x):\n    kept, n = [], 0\n{body}\n    return x, n, kept, [{made}]\n"


@pytest.mark.parametrize("way", ["eager", "jitpkg", "breaks"])
def test_random_programs(way: str) -> None:
    options = {key: value for key, value in WAYS[way].items() if key != "fullgraph"}

    @settings(max_examples=60 if way == "eager" else 15, deadline=None)
    @given(programs())
    def check(text: str) -> None:
        namespace: dict[str, Any] = {"torch": torch}
        exec(text, namespace)
        Comparison(**options).assert_same_calls(namespace["program"], call(X), call(X + 1))

    check()
