"""allow_in_graph, disallow_in_graph and assume_constant_result."""

import functools
import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import errors
from jitpkg.marks import mark_of
from jitpkg.tracer import reasons
from tests.api.support import Counts, X


def targets(backend: Counts) -> list[list[str]]:
    """Names of the ops of each graph."""
    return [
        [getattr(n.target, "__name__", str(n.target)) for n in gm.graph.nodes if "call" in n.op]
        for gm in backend.graphs
    ]


# allow_in_graph


@jitpkg.allow_in_graph
def opaque(x: torch.Tensor, n: int = 1) -> torch.Tensor:
    return x.sin().cos() * n


def test_a_call_is_one_opaque_node(C: Any, backend: Counts) -> None:
    f = C(lambda x: opaque(x + 1, n=3) * 2, fullgraph=True, backend=backend)
    for x in (X, X.double()):
        assert torch.equal(f(x), opaque(x + 1, 3) * 2)
    assert targets(backend) == [["add", "opaque", "mul"]] * 2


def test_gradients_go_through_it(C: Any, backend: Counts) -> None:
    f = C(lambda x: opaque(x).sum(), fullgraph=True, backend=backend)
    grads = []
    for g in (f, lambda x: opaque(x).sum()):
        x = X.clone().requires_grad_()
        g(x).backward()
        grads.append(x.grad)
    assert torch.equal(grads[0], grads[1])


def test_other_backends_take_it(C: Any) -> None:
    f = C(lambda x: opaque(x) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(f(X), opaque(X) + 1)


def test_the_name_of_a_function_is_no_op_s(C: Any, backend: Counts) -> None:
    @jitpkg.allow_in_graph
    def relu(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:1], x.double()

    f = C(lambda x: relu(x)[1] + relu(x)[0], fullgraph=True, backend=backend)
    assert torch.equal(f(X), X.double() + X[:1])


def test_it_may_write_to_its_arguments(C: Any) -> None:
    @jitpkg.allow_in_graph
    def shift(x: torch.Tensor) -> None:
        x.add_(1)

    def f(x):
        shift(x)
        return x * 2

    x, y = X.clone(), X.clone()
    assert torch.equal(C(f, fullgraph=True)(x), (X + 1) * 2)
    shift(y)
    assert torch.equal(x, y)


def test_sizes_may_vary(C: Any, backend: Counts) -> None:
    f = C(lambda x: opaque(x) + 1, backend=backend)
    for n in range(2, 7):
        x = torch.ones(n)
        assert torch.equal(f(x), opaque(x) + 1)
    assert len(backend.graphs) == 2


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x.shape[0] + 1,  # no tensor
        lambda x: x + float(x.sum()),  # no shape without data
        lambda x: x + torch.from_numpy(x.numpy()),  # not without memory
    ],
)
def test_what_cannot_be_described_is_a_break(C: Any, body: Any, backend: Counts) -> None:
    jitpkg.allow_in_graph(body)

    def f(x):
        return body(x.sin()) + 1

    assert torch.equal(torch.as_tensor(C(f, backend=backend)(X)), torch.as_tensor(f(X)))
    assert targets(backend)[0] == ["sin"]
    with pytest.raises(errors.GraphBreak):
        C(lambda x: body(x.sin()), fullgraph=True)(X)


def test_an_error_of_the_function_is_the_program_s(C: Any) -> None:
    @jitpkg.allow_in_graph
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:
            raise KeyError("three")
        return x + 1

    f = C(lambda x: picky(x) * 2)
    assert torch.equal(f(X), (X + 1) * 2)
    with pytest.raises(KeyError, match="three"):
        f(torch.ones(3))


def test_another_function_in_its_place_is_another_node(C: Any, backend: Counts) -> None:
    helpers = SimpleNamespace(g=opaque)
    f = C(lambda x: helpers.g(x) + 1, backend=backend)
    assert torch.equal(f(X), opaque(X) + 1)
    helpers.g = jitpkg.allow_in_graph(lambda x: x * 5)
    assert torch.equal(f(X), X * 5 + 1)


@jitpkg.allow_in_graph
class Double(torch.autograd.Function):
    """Doubles; its gradient is 7, to be told apart."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 7


def test_an_autograd_function(C: Any, backend: Counts) -> None:
    f = C(lambda x: Double.apply(x).sum(), fullgraph=True, backend=backend)
    x = X.clone().requires_grad_()
    out = f(x)
    out.backward()
    assert out == X.sum() * 2
    assert torch.equal(x.grad, torch.full_like(X, 7))
    assert targets(backend) == [["apply", "sum"]]


# disallow_in_graph


@pytest.fixture
def no_sub() -> Iterator[None]:
    assert jitpkg.disallow_in_graph(torch.sub) is torch.sub
    yield
    jitpkg.allow_in_graph(torch.sub)


def test_a_call_of_torch_s_function_breaks(C: Any, backend: Counts, no_sub: None) -> None:
    def f(x):
        x = torch.add(x, 1)
        x = torch.sub(x, 1)
        return torch.add(x, 1)

    for _ in range(2):
        assert torch.equal(C(f, backend=backend)(X), X + 1)
    assert targets(backend) == [["add"], ["add"]] * 2
    with pytest.raises(errors.GraphBreak, match=r"B115.*torch.*sub") as caught:
        C(lambda x: torch.sub(x, 1), fullgraph=True)(X)
    assert caught.value.graph_break.reason is reasons.DISABLED


def test_an_operator_is_no_call(C: Any, backend: Counts, no_sub: None) -> None:
    assert torch.equal(C(lambda x: x - 1, fullgraph=True, backend=backend)(X), X - 1)


def test_a_function_of_torch_s_that_is_allowed_again_is_an_op_like_any(C: Any) -> None:
    jitpkg.disallow_in_graph(torch.sub)
    jitpkg.allow_in_graph(torch.sub)
    f = C(lambda x, y: torch.sub(x.shape[0], y), fullgraph=True)
    assert torch.equal(f(X, X), 2 - X)


def test_a_method_of_tensors_breaks(C: Any, backend: Counts) -> None:
    jitpkg.disallow_in_graph(torch.Tensor.arccosh)
    f = C(lambda x: (x + 1).arccosh() * 2, backend=backend)
    assert torch.equal(f(X), (X + 1).arccosh() * 2)
    assert targets(backend) == [["add"], ["mul"]]
    jitpkg.allow_in_graph(torch.Tensor.arccosh)


def test_a_python_function_is_called_as_it_is(C: Any, backend: Counts) -> None:
    seen = []

    @jitpkg.disallow_in_graph
    def helper(x):
        seen.append(jitpkg.is_compiling())
        return x + 1

    f = C(lambda x: helper(x.sin()) * 3, backend=backend)
    assert torch.equal(f(X), (X.sin() + 1) * 3)
    assert seen == [False]
    assert targets(backend) == [["sin"], ["mul"]]


# assume_constant_result


def counted() -> Any:
    calls: list[Any] = []

    @jitpkg.assume_constant_result
    def setting(name: str = "k") -> int:
        calls.append(name)
        return 10 + len(calls)

    setting.calls = calls  # type: ignore[attr-defined]
    return setting


def test_it_is_called_once_while_tracing(C: Any, backend: Counts) -> None:
    setting = counted()
    f = C(lambda x: x * setting("depth"), fullgraph=True, backend=backend)
    for _ in range(3):
        assert torch.equal(f(X), X * 11)
    assert setting.calls == ["depth"]
    assert torch.equal(f(X.double()), X.double() * 12)


@pytest.mark.parametrize(
    "result", [None, 2.5, "text", (1, [2]), {"a": 3}, X, SimpleNamespace(a=1), len, Counts]
)
def test_any_object_can_be_a_constant(C: Any, result: object) -> None:
    get = jitpkg.assume_constant_result(lambda: result)
    f = C(lambda x: (get(), x + 1), fullgraph=True)
    for _ in range(2):
        assert f(X)[0] is result


def test_a_mutable_constant_is_read_anew(C: Any) -> None:
    found = {"scale": 2}
    get = jitpkg.assume_constant_result(lambda: found)
    f = C(lambda x: x * get()["scale"], fullgraph=True)
    assert torch.equal(f(X), X * 2)
    found["scale"] = 3
    assert torch.equal(f(X), X * 3)


def test_a_method_and_objects_as_arguments(C: Any) -> None:
    class Config:
        def __init__(self) -> None:
            self.calls = 0

        @jitpkg.assume_constant_result
        def depth(self, others: Any) -> int:
            self.calls += 1
            return len(others)

    config, others = Config(), [1, 2, 3]
    f = C(lambda x: x * config.depth(others), fullgraph=True)
    assert torch.equal(f(X), X * 3)
    assert torch.equal(f(X), X * 3)
    assert config.calls == 1


def test_arguments_that_the_trace_has_changed(C: Any) -> None:
    length = jitpkg.assume_constant_result(lambda items: len(items))

    def f(x, items):
        items.append(x + 1)
        return x * length(items)

    for _ in range(2):
        assert torch.equal(C(f)(X, [1]), X * 2)
        assert torch.equal(C(lambda x: x * length([x, x]))(X), X * 2)


def test_an_exception_is_the_program_s(C: Any) -> None:
    @jitpkg.assume_constant_result
    def setting() -> int:
        raise LookupError("no setting")

    def f(x):
        try:
            return x * setting()
        except LookupError:
            return x - 1

    assert torch.equal(C(f)(X), X - 1)


# All three

MARKS = [jitpkg.allow_in_graph, jitpkg.disallow_in_graph, jitpkg.assume_constant_result]


@pytest.mark.parametrize("mark", MARKS)
def test_lists_of_functions(mark: Any) -> None:
    def f() -> None: ...
    def g() -> None: ...

    assert mark(f) is f
    assert mark([f, g]) == [f, g]
    assert mark_of(f) == mark_of(g) is not None
    assert mark_of(test_lists_of_functions) is None


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("obj", [3, "f", [1], None, int, Counts(), torch.nn.Linear(1, 1)])
def test_what_is_no_function_is_refused(mark: Any, obj: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match=rf"{mark.__name__}\(\) takes a function, not"):
        mark(obj)


def test_a_method_of_an_object_is_refused_in_graphs() -> None:
    with pytest.raises(errors.InvalidArgument, match=r"the method Counts\.__call__ of an object"):
        jitpkg.allow_in_graph(Counts().__call__)


def test_a_wrapper_has_not_the_mark_and_marks_keep_nothing_alive() -> None:
    f = counted()
    assert mark_of(functools.wraps(f)(lambda: 1)) is None
    reference = weakref.ref(f)
    f.calls.clear()
    del f
    gc.collect()
    assert reference() is None


def test_torch_s_own_marks_are_respected(C: Any, backend: Counts) -> None:
    calls = []

    @torch.compiler.assume_constant_result
    def setting():
        calls.append(1)
        return 3

    @torch.compiler.allow_in_graph
    def hidden(x):
        return x.sin().cos()

    f = C(lambda x: hidden(x) * setting(), fullgraph=True, backend=backend)
    for _ in range(2):
        assert torch.equal(f(X), X.sin().cos() * 3)
    assert calls == [1]
    assert targets(backend) == [["hidden", "mul"]]
