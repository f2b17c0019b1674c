"""`copy.deepcopy` and `copy.copy` of tensors, of what holds tensors, and of modules."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg
from jitpkg.errors import GraphBreak
from jitpkg.testing import Comparison, call

WAYS: dict[str, dict[str, Any]] = {
    "eager": {"fullgraph": True},
    "jitpkg": {"backend": "jitpkg", "fullgraph": True, "ignore": ("version", "grad_fn")},
    "breaks": {"settings": {"disturb": "break"}},
}


def comparison(way: str) -> Comparison:
    return Comparison(relative=1e-6, absolute=1e-6, **WAYS[way])


class Record:
    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.again = [x]


def of_a_tensor(x: Tensor) -> Any:
    y = x.detach() * 2
    made = copy.deepcopy(y)
    made.add_(1)
    return y, made, made is y


def of_an_argument(x: Tensor) -> Any:
    made = copy.deepcopy(x)
    return made, made.requires_grad, made.is_leaf, made * 2


def of_other_layouts(x: Tensor) -> Any:
    y = x.detach()
    given = y.t() * 2, y[None].permute(2, 0, 1).clone(), (y > 0.5), y.double(), y.sum()
    return [copy.deepcopy(each) for each in given]


def of_all_of_a_view(x: Tensor) -> Any:
    return copy.deepcopy(x.detach()), copy.deepcopy(x.detach().t()), copy.deepcopy(x.data.view(-1))


def in_containers(x: Tensor) -> Any:
    y, z = x.detach() + 1, x.detach() * 2
    given = [y, {"y": y, "z": (z, 3)}, (z, "text"), OrderedDict(a=y), set(), None]
    made = copy.deepcopy(given)
    made[0].mul_(2)
    return given, made, made[0] is made[1]["y"]


def in_an_object(x: Tensor) -> Any:
    record = Record(x.detach() + 1)
    made = copy.deepcopy(record)
    return record, made, made.x is made.again[0]


def twice(x: Tensor) -> Any:
    """Each call has a memo of its own."""
    y = x.detach() + 1
    return copy.deepcopy(y), copy.deepcopy(y)


def with_attributes(x: Tensor) -> Any:
    y = x.detach() + 1
    y.tag = ["a", y * 2]
    y.other = 3
    made = copy.deepcopy(y)
    return y, made, made.tag is y.tag


def with_a_gradient(x: Tensor) -> Any:
    y = (x.detach() + 1).requires_grad_()
    (y * x).sum().backward()
    made = copy.deepcopy(y)
    return y, made, made.grad is y.grad


def of_a_parameter(x: Tensor) -> Any:
    p = nn.Parameter(x.detach()[0].clone())
    p.tag = 3
    q, (r, s) = copy.deepcopy(p), copy.deepcopy((p, p))
    return p, q, r is s, (q * x).sum(), type(q)


def of_a_module(x: Tensor) -> Any:
    m = nn.Linear(4, 2)
    made = copy.deepcopy(m)
    with torch.no_grad():
        made.weight.mul_(2)
    return m(x), made(x), m, made


def of_modules_that_share(x: Tensor) -> Any:
    m = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    m[2].weight = m[0].weight
    m.register_buffer("mean", torch.zeros(4))
    made = copy.deepcopy(m)
    return made(x), made[0].weight is made[2].weight, m


def shallow(x: Tensor) -> Any:
    given = [x, {"x": x}]
    m = nn.Linear(4, 2)
    made, other = copy.copy(given), copy.copy(m)
    other.extra = 1
    return made, made[1] is given[1], other, other.weight is m.weight, hasattr(m, "extra")


ONE_GRAPH = [
    *(of_a_tensor, of_other_layouts, of_all_of_a_view, in_containers, in_an_object, twice),
    *(with_attributes, with_a_gradient, of_a_parameter, of_a_module, of_modules_that_share),
    *(shallow, of_an_argument),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", ONE_GRAPH)
@pytest.mark.parametrize("grad", [False, True])
def test_as_eager_code(program: Callable[..., Any], way: str, grad: bool) -> None:
    varies = program not in (of_other_layouts, of_all_of_a_view)
    given = [call(torch.rand(n, 4, requires_grad=grad)) for n in (4, 4, 6 if varies else 4)]
    comparison(way).assert_same_calls(program, *given)


def of_what_is_held(held: Any) -> Any:
    made = copy.deepcopy(held)
    return made, held


def held(x: Tensor) -> dict[str, Any]:
    marked = x + 1
    marked.tag = [marked.detach().clone()]  # type: ignore[attr-defined]
    leaf = (x + 2).requires_grad_()
    leaf.grad = torch.ones_like(leaf)
    buffers = nn.BatchNorm1d(2)
    tied = nn.Linear(2, 2)
    tied.again = tied.weight  # type: ignore[assignment]
    return {
        "tensor": x,
        "list": [x, x, x + 1],
        "views": [x, x[0]],
        "two views": [x.view(-1), x.t()],
        "detached": [x, x.detach()],
        "expanded": x[:, :1].expand(3, 5),
        "part": torch.rand(4, 2)[1:],
        "attributes": marked,
        "gradient": leaf,
        "linear": nn.Linear(2, 2),
        "buffers": buffers,
        "tied": tied,
        "conjugated": torch.view_as_complex(x.detach().clone()).conj(),
        "a module that was hooked": _hooked(),
    }


def _hooked() -> nn.Module:
    m = nn.Linear(2, 2)
    m.register_forward_hook(_hook)
    return m


def _hook(module: nn.Module, args: Any, result: Any) -> None:
    pass


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("what", held(torch.rand(3, 2)))
def test_of_what_is_given(what: str, backend: str) -> None:
    ignored = ("version", "grad_fn") if backend == "jitpkg" else ()
    same = Comparison(backend=backend, ignore=ignored)
    same.assert_same(of_what_is_held, held(torch.rand(3, 2))[what])


@pytest.mark.parametrize("what", ["tensor", "list", "attributes", "gradient", "linear", "tied"])
def test_of_what_is_given_in_one_graph(what: str) -> None:
    Comparison(fullgraph=True).assert_same(of_what_is_held, held(torch.rand(3, 2))[what])


@pytest.mark.parametrize("what", ["views", "two views", "detached", "expanded", "part"])
def test_storages_that_are_shared_are_copied_for_real(what: str) -> None:
    compiled = jitpkg.compile(of_what_is_held, fullgraph=True)
    with pytest.raises(GraphBreak, match="storage"):
        compiled(held(torch.rand(3, 2))[what])


def test_storages_that_are_shared_later() -> None:
    x, y, z = torch.rand(2, 2), torch.rand(2, 2), torch.rand(4, 2)
    parts = [each.detach() for each in z.split(2)]
    given = [x, y], [x, x], [x, x.detach()], [x, x.view(2, 2)], [x, parts[0]], parts, [y, x]
    Comparison().assert_same_calls(of_what_is_held, *[call([*g]) for g in given])


def test_attributes_that_are_there_later() -> None:
    x, y, z = torch.rand(2), torch.rand(2), torch.rand(2)
    y.tag = 3  # type: ignore[attr-defined]
    z.tag, z.more = [3], 4  # type: ignore[attr-defined]
    Comparison().assert_same_calls(of_what_is_held, *[call(t) for t in (x, y, z, x)])


def of_what_has_a_history(x: Tensor) -> Any:
    return copy.deepcopy([x * 2])


def with_a_memo(x: Tensor) -> Any:
    memo: dict[int, Any] = {}
    y = x.detach() + 1
    return copy.deepcopy(y, memo), len(memo)


def of_views_that_it_makes(x: Tensor) -> Any:
    y = x.detach() + 1
    made = copy.deepcopy([y, y.view(-1), y[0]])
    made[0].mul_(2)
    return made


def of_a_part_that_it_makes(x: Tensor) -> Any:
    y = x.detach() + 1
    made = copy.deepcopy(y[1:].detach())
    return made, made.untyped_storage().nbytes()


def of_the_same_memory(x: Tensor) -> Any:
    y = x.detach() + 1
    made = copy.deepcopy([y, y.detach()])
    made[0].mul_(2)
    return made


def of_one_tensor(x: Tensor) -> Any:
    y = x.detach() + 1
    made = copy.copy(y)
    made.add_(1)
    return y, made


def of_itself(x: Tensor) -> Any:
    y = x.detach() + 1
    y.tag = 3
    return y.__deepcopy__({})


def inside_a_level(x: Tensor) -> Any:
    return torch.func.vmap(lambda row: copy.deepcopy(row * 2))(x.detach())


LEFT_TO_PYTHON = [
    *(of_what_has_a_history, with_a_memo, of_views_that_it_makes, of_one_tensor, of_itself),
    *(inside_a_level, of_a_part_that_it_makes, of_the_same_memory),
]


@pytest.mark.parametrize("program", LEFT_TO_PYTHON)
@pytest.mark.parametrize("grad", [False, True])
def test_left_to_python(program: Callable[..., Any], grad: bool) -> None:
    Comparison().assert_same(program, torch.rand(3, 4, requires_grad=grad))
