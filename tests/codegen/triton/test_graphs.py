"""CUDA graphs: what is replayed is what the function would have returned, and stays it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

import jitpkg
from jitpkg import events
from jitpkg.codegen import backend as own
from jitpkg.codegen.autograd.halves import with_facts
from jitpkg.codegen.kernels.reference import Interpreted
from jitpkg.codegen.triton import graphs
from jitpkg.codegen.triton.graphs import CudaRecorder, Recorded
from jitpkg.explanation import Explanation
from jitpkg.facts.random_streams import RandomStreams
from jitpkg.facts.tensor import TensorFacts
from tests.codegen.devices import DEVICES
from tests.codegen.examples import examples
from tests.codegen.triton.recorder import CPU, Fake

CUDA = torch.device("cuda", 0)


def called(function: Callable[..., Any], *given: Any) -> Any:
    with torch.no_grad():
        return function(*given)


def test_after_two_calls_a_function_is_recorded_and_then_replayed() -> None:
    fake = Fake()
    runs = []

    def double(x: torch.Tensor) -> tuple[torch.Tensor]:
        runs.append(x)
        return (x * 2,)

    function = Recorded("double", double, fake)
    for k in range(6):
        (y,) = called(function, torch.full((3,), float(k)))
        assert y.tolist() == [2.0 * k] * 3
    assert (len(runs), fake.recorded, fake.replayed) == (5, 1, 3)  # the third time, it is recorded


def test_results_stay_what_they_are() -> None:
    function = Recorded("f", lambda x: (x + 1, (x * 2)[1:], x), Fake())
    kept = []
    for k in range(8):
        x = torch.full((3,), float(k))
        kept.append((k, *called(function, x)))
        assert kept[-1][3] is x
    for k, plus, times, _ in kept:
        assert plus.tolist() == [k + 1.0] * 3 and times.tolist() == [k * 2.0] * 2


def test_results_that_share_memory_still_do() -> None:
    def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y[1:], y.expand(2, 3), x.view(3, 1)

    function = Recorded("views", views, Fake())
    for _ in range(5):
        x = torch.zeros(3)
        y, tail, wide, of_input = called(function, x)
        y.fill_(5)
        x.fill_(7)
        assert tail.tolist() == [5, 5] and wide.tolist() == [[5] * 3] * 2
        assert wide.stride() == (0, 1) and of_input.tolist() == [[7]] * 3


def test_parameters_are_read_where_they_are_until_they_move() -> None:
    fake = Fake()
    weight = torch.nn.Parameter(torch.ones(3))
    function = Recorded("f", lambda x, w: (x * w,), fake)
    inputs = [torch.ones(3) for _ in range(8)]
    for k in range(5):
        weight.data.fill_(k)  # as an optimizer does
        (y,) = called(function, inputs[k], weight)
        assert y.tolist() == [k] * 3
    assert fake.recorded == 1
    weight.data = torch.full((3,), 9.0)
    for x in inputs[5:]:
        (y,) = called(function, x, weight)
        assert y.tolist() == [9] * 3
    assert fake.recorded == 2


def test_a_function_whose_inputs_never_rest_is_given_up() -> None:
    fake = Fake()
    weights = [torch.nn.Parameter(torch.ones(1)) for _ in range(12)]
    function = Recorded("f", lambda *w: (torch.stack(w).sum(),), fake)
    why: list[str | None] = []
    with events.STREAM.listening(lambda e: why.append(getattr(e, "why", ""))):
        for k in range(30):
            weights[k % 12].data = torch.full((1,), float(k))
            (y,) = called(function, *weights)
            assert y.item() == sum(w.item() for w in weights)
    assert fake.recorded == graphs.MOST and function.why == "its inputs move from call to call"
    assert why[-1] == function.why


def test_what_is_saved_for_backward_is_handed_out_and_read_there() -> None:
    """Two halves: the second reads the memory of the first's graph, and copies nothing."""
    fake, handed = Fake(), set[int]()
    first = Recorded("forward", lambda x: (x.sin(), x.cos()), fake, shown=1, handed=handed)
    second = Recorded("backward", lambda c, g: (c * g,), fake, handed=handed, warm=3)
    ones = torch.ones(4)
    for x in list(torch.randn(7, 4)):
        y, saved = called(first, x)
        (gradient,) = called(second, saved, ones)
        del saved  # as autograd does behind a backward pass
        torch.testing.assert_close(y, x.sin())
        torch.testing.assert_close(gradient, x.cos())
    assert fake.recorded == 2
    recording = second._recording
    assert recording is not None and recording.handed == {0}


def test_what_was_handed_out_and_is_alive_is_not_overwritten() -> None:
    fake = Fake()
    function = Recorded("forward", lambda x: (x.sin(), x.cos()), fake, shown=1)
    x = torch.arange(4.0)
    for _ in range(3):
        called(function, x)
    _, kept = called(function, x)
    views = [kept.view(2, 2)]
    del kept
    assert fake.replayed == 1
    for k in range(4):  # as when several batches go forward before one goes backward
        _, other = called(function, x + k)
        views.append(other)
        del other
    assert fake.replayed == 1
    for k, each in enumerate(views):
        torch.testing.assert_close(each.view(-1), (x + max(k - 1, 0)).cos())
    del each
    views.clear()
    called(function, x)
    assert fake.replayed == 2


@pytest.mark.parametrize("moves", [False, True])
def test_a_backward_half_runs_as_it_is_where_the_forward_half_did(moves: bool) -> None:
    """Nothing is learned then from where the gradient is: what is saved is elsewhere as well."""
    fake, handed = Fake(), set[int]()
    first = Recorded("forward", lambda x: (x.sin(), x.cos()), fake, shown=1, handed=handed)
    second = Recorded("backward", lambda c, g: (c * g,), fake, handed=handed, warm=3)
    inputs, ones, twos = torch.randn(9, 4), torch.ones(4), torch.full((4,), 2.0)
    for x in list(inputs[:6]):
        _, saved = called(first, x)
        called(second, saved, ones)
        del saved
    recorded = fake.recorded
    saved = [called(first, x)[1] for x in inputs[6:]]
    for k in (2, 0, 1):
        gradient = twos if moves and k else ones
        expected = inputs[6 + k].cos() * gradient
        torch.testing.assert_close(called(second, saved[k], gradient)[0], expected)
    assert fake.recorded == recorded


def test_a_backward_half_follows_a_forward_half_that_is_recorded_again() -> None:
    """An input of the forward half moved; the backward half sees only that its graph is new."""
    fake, handed = Fake(), set[int]()
    shift = torch.nn.Parameter(torch.zeros(4))
    first = Recorded("forward", lambda x, b: (x + b, x.cos()), fake, shown=1, handed=handed)
    second = Recorded("backward", lambda c, g: (c * g,), fake, handed=handed, warm=3)
    ones = torch.ones(4)
    for k, x in enumerate(torch.randn(12, 4)):
        if k == 6:
            shift.data = torch.ones(4)
        y, saved = called(first, x, shift)
        (gradient,) = called(second, saved, ones)
        del saved
        torch.testing.assert_close(y, x + shift)
        torch.testing.assert_close(gradient, x.cos())
    # Call 6 records the forward half again, call 7 the backward half.
    assert fake.recorded == 4 and fake.replayed == (3 + 2) + (5 + 4)
    recording = second._recording
    assert recording is not None and recording.handed == {0}


def test_streams_wait_for_each_other() -> None:
    fake = Fake()
    function = Recorded("f", lambda x: (x + 1,), fake)
    inputs = [torch.ones(2) for _ in range(6)]
    for x in inputs[:4]:
        called(function, x)
    assert fake.followed == []
    fake.now = "stream 1"
    for x in inputs[4:]:
        called(function, x)
    assert fake.followed == [("stream 0", 1)]


def test_inside_of_somebody_elses_capture_it_runs_as_it_is() -> None:
    fake = Fake()
    function = Recorded("f", lambda x: (x + 1,), fake)
    fake.captures = True
    for _ in range(5):
        called(function, torch.ones(2))
    assert fake.recorded == 0


def test_while_another_call_runs_it_runs_as_it_is() -> None:
    """As it does in another thread that calls it at the same time."""
    fake = Fake()
    inner: list[Any] = []

    def double(x: torch.Tensor) -> tuple[torch.Tensor]:
        if x.item() == 1:
            inner.append(function(x + 1))
        return (x * 2,)

    function = Recorded("double", double, fake)
    assert called(function, torch.ones(1))[0].item() == 2
    assert inner[0][0].item() == 4 and function._warm == graphs.WARM - 1


def _complex() -> torch.Tensor:
    return torch.ones(2, dtype=torch.complex64)


@pytest.mark.parametrize(
    ("function", "argument", "why"),
    [
        (lambda x: (x.item(),), lambda: torch.ones(()), "not permitted"),
        (lambda x: (x.conj(),), _complex, "input as another dtype"),
        (lambda x: ((x + 1).conj(),), _complex, "conjugated"),
        (lambda x: (x + 1,), lambda: torch.ones(4).as_strided((3, 2), (1, 1)), "overlaps"),
        (lambda x: (x,), lambda: 3, "no tensor"),
    ],
)
def test_what_cannot_be_recorded_runs_as_it_is(
    function: Callable[..., Any], argument: Callable[[], Any], why: str
) -> None:
    made = Recorded("f", function, Fake())
    arguments = [argument(), argument()]
    for k in range(6):
        wanted = function(arguments[k % 2])
        found = called(made, arguments[k % 2])
        assert torch.equal(torch.as_tensor(found[0]), torch.as_tensor(wanted[0]))
    assert made.why is not None and why in made.why


def test_inputs_of_another_layout_are_not_copied() -> None:
    fake = Fake()
    function = Recorded("f", lambda x: (x + 1,), fake)
    for k in range(4):
        called(function, torch.full((3,), float(k)))
    wide = torch.arange(6.0)[::2]
    assert called(function, wide)[0].tolist() == [1, 3, 5]
    assert called(function, torch.zeros(1))[0].tolist() == [1]


def test_expanded_and_empty_inputs() -> None:
    fake, kept = Fake(), []
    function = Recorded("f", lambda x, y, z: (x + y, z.sum()), fake)
    for k in range(6):
        x = torch.arange(18.0).view(6, 3, 1)[k].expand(3, 4)
        y = torch.arange(48.0).view(6, 8)[k, ::2]
        kept.append((x, y))
        made, nothing = called(function, x, y, torch.zeros(0, 2))
        assert torch.equal(made, x + y) and nothing.item() == 0
    assert fake.replayed == 3


def test_constants_are_the_same_objects() -> None:
    table = torch.arange(3)
    function = Recorded("f", lambda x: (x + 1, table, None), Fake())
    for _ in range(5):
        _, constant, nothing = called(function, torch.ones(2))
        assert constant is table and nothing is None


def test_in_inference_mode() -> None:
    function = Recorded("f", lambda x: (x + 1, x.view(-1)), Fake())
    for k in range(6):
        with torch.inference_mode(k % 2 == 0):
            x = torch.full((2,), float(k))
            y, _ = function(x)
            assert y.tolist() == [k + 1.0] * 2


def recorder(device: str) -> Fake | CudaRecorder:
    return Fake() if device == "cpu" else CudaRecorder(CUDA)


@pytest.mark.parametrize("device", DEVICES)
@given(data=st.data())
@examples(60)
def test_random_calls(device: str, data: st.DataObject) -> None:
    """Inputs that rest or move, results that are kept, changed, or dropped."""
    sizes = (2, 3)

    def body(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> tuple[Any, ...]:
        y = x @ w
        z = torch.tanh(y) * s
        return y, z.t(), x, z[0], y.relu(), (z * 2)[:, 1:]

    shown = data.draw(st.sampled_from([None, 0, 2, 4]))
    function = Recorded("f", body, recorder(device), shown=shown)
    draw = torch.Generator(device).manual_seed(data.draw(st.integers(0, 9)))

    def drawn(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=draw, device=device)

    x, s = drawn(*sizes), drawn()
    w = torch.nn.Parameter(drawn(3, 3))
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    for _ in range(data.draw(st.integers(3, 12))):
        match data.draw(st.sampled_from(["x", "w in place", "w", "s", "nothing", "drop", "drop"])):
            case "x":
                x = drawn(*sizes)
            case "w in place":
                w.data.add_(1)
            case "w":
                w.data = drawn(3, 3)
            case "s":
                s = drawn()
            case "drop":
                kept = [each for each in kept if data.draw(st.booleans())]
        wanted = called(body, x, w, s)
        made = called(function, x, w, s)
        assert made[2] is x
        for k, (was, now) in enumerate(zip(wanted, made, strict=True)):
            assert torch.equal(was, now) and was.stride() == now.stride()
            if k != 2 and data.draw(st.booleans()):
                kept.append((now, now.clone()))
        del made, now
        for now, then in kept:
            assert torch.equal(now, then)


@pytest.mark.parametrize("device", DEVICES)
def test_random_numbers(device: str) -> None:
    """Those of eager code, in each replay others; and recording draws none."""
    streams = RandomStreams([CUDA if device == "cuda" else CPU])

    def body(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        dropped = torch.nn.functional.dropout(x)
        return dropped, torch.rand_like(x), torch.randn(3, device=x.device), x.bernoulli()

    function = Recorded("body", body, recorder(device))
    seen = set()
    for k in range(8):
        x = torch.full((5,), 0.25 + k / 16, device=device)
        began = streams.save()
        wanted = body(x)
        after = streams.save()
        streams.restore(began)
        assert all(map(torch.equal, called(function, x), wanted))
        assert all(map(torch.equal, streams.save(), after))
        seen.add(tuple(wanted[1].tolist()))
    assert len(seen) == 8 and function.why is None


def test_a_backward_half_waits_for_inputs_on_the_gpu() -> None:
    """Attention leaves its seed on the CPU, but for when it is recorded."""

    class Moves(Fake):
        def record(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
            seeds.append(torch.zeros(()))
            return super().record(run)

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sin(), x.cos(), seeds[-1] + 1

    fake, handed, seeds = Moves(), set[int](), [torch.zeros((), device="meta")]
    first = Recorded("forward", forward, fake, shown=1, handed=handed)
    second = Recorded("backward", lambda c, s, g: (c * g,), fake, handed=handed, warm=3)
    ones = torch.ones(4)
    early = [called(first, x) for x in torch.randn(2, 4)]
    for _, *saved in early * 3:  # it has been called often, and never behind a replay
        called(second, *saved, ones)
    assert fake.recorded == 0 and second.why is None
    del early, saved
    for x in torch.randn(6, 4):
        _, *saved = called(first, x)
        torch.testing.assert_close(called(second, *saved, ones)[0], x.cos())
        del saved
    assert fake.recorded == 2 and second.why is None


# What a graph says of itself


def graph_of(function: Callable[..., Any], *fakes: torch.Tensor) -> fx.Graph:
    """The ATen graph, with facts as of tensors on a GPU."""
    made = make_fx(function)(*fakes)
    graph = with_facts(made)
    for node in graph.nodes:
        facts = node.meta.get("facts")
        if isinstance(facts, TensorFacts):
            node.meta["facts"] = replace(facts, device=CUDA)
    return graph


def test_a_graph_on_a_gpu_may_be_recorded() -> None:
    graph = graph_of(lambda x: x.softmax(0) + 1, torch.ones(3))
    assert graphs.obstacle_of(graph, CUDA) is None


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x * torch.randperm(3, device=x.device), "randperm draws random numbers"),
        (lambda x: torch.nonzero(x), "makes a size out of data"),
        (lambda x: x.clone().mul_(2), "writes to what it is given"),
    ],
)
def test_why_a_graph_is_not_recorded(function: Callable[..., Any], why: str) -> None:
    found = graphs.obstacle_of(graph_of(function, torch.ones(3)), CUDA)
    assert found is not None and why in found
    assert found.startswith("aten") is False


@pytest.mark.parametrize("dropped", [0.0, 0.5])
def test_attention_that_drops_something_is_not_recorded(dropped: float) -> None:
    """On GPUs its seed is elsewhere when it is recorded: the backward pass must know where."""
    graph = fx.Graph()
    q = graph.placeholder("q")
    q.meta["val"] = torch.ones(1, 2, 16, 8)
    attention = torch.ops.aten._scaled_dot_product_efficient_attention.default
    made = graph.call_function(attention, (q, q, q, None, True, dropped))
    made.meta["val"] = (torch.ones(1, 2, 16, 8), torch.ones(1, 2, 32), *torch.ones(2))
    graph.output(made)
    with_facts(fx.GraphModule(torch.nn.Module(), graph))
    found = graphs.obstacle_of(graph, torch.device("cpu"))
    drawn = "_scaled_dot_product_efficient_attention draws random numbers"
    assert found == (drawn if dropped else None)


def test_a_graph_on_the_cpu_is_not_recorded() -> None:
    graph = with_facts(make_fx(lambda x: x + 1)(torch.ones(3)))

    def body(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x + 1,)

    explanation = Explanation()
    with events.STREAM.listening(explanation.note):
        obstacle = graphs.obstacle_of(graph, CUDA)
        assert graphs.replayed("body", obstacle, body, CUDA) is body
    assert explanation.not_recorded == ["x_1 is on cpu, and not on cuda:0"]
    explanation.kernels.append(events.Kernel("add", ("add",), 24))
    assert "No CUDA graph: x_1 is on cpu, and not on cuda:0" in str(explanation)


# Compiled functions, whose kernels the reference interpreter runs


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    recorder = Fake()
    monkeypatch.setenv("JITPKG_DEBUG", "interpret")
    monkeypatch.setattr(graphs, "recorder_for", lambda _: recorder)
    monkeypatch.setattr(own, "_may_record", lambda *_: False)  # as for tensors on a GPU

    def replayed(maker: Interpreted, name: str, obstacle: Any, function: Any, **how: Any) -> Any:
        return graphs.replayed(name, obstacle, function, maker.device, **how)

    def obstacle(maker: Interpreted, graph: Any) -> str | None:
        return graphs.obstacle_of(graph, maker.device)

    monkeypatch.setattr(Interpreted, "obstacle", obstacle)
    monkeypatch.setattr(Interpreted, "replayed", replayed)
    return recorder


def test_a_compiled_function(fake: Fake) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    twin = copy.deepcopy(model)
    compiled = jitpkg.jit(model, backend="jitpkg")
    kept = []
    with torch.no_grad():
        for k in range(6):
            x = torch.randn(3, 4, generator=torch.Generator().manual_seed(k))
            kept.append((compiled(x), twin(x)))
            model[0].weight.mul_(0.5)
            twin[0].weight.mul_(0.5)
    for found, right in kept:
        torch.testing.assert_close(found, right)
    assert (fake.recorded, fake.replayed) == (1, 3)


def test_writes_to_inputs_are_behind_the_graph(fake: Fake) -> None:
    model = torch.nn.BatchNorm1d(3)
    model.num_batches_tracked = None  # the interpreter asks for the value of a lone index
    twin = copy.deepcopy(model)
    compiled = jitpkg.jit(model, backend="jitpkg")
    with torch.no_grad():
        for k in range(6):
            x = torch.randn(5, 3, generator=torch.Generator().manual_seed(k))
            torch.testing.assert_close(compiled(x), twin(x))
            torch.testing.assert_close(model.running_var, twin.running_var)
    assert fake.replayed > 0


@pytest.mark.parametrize(("batches", "replayed"), [(1, 9), (2, 13)])
def test_training(fake: Fake, batches: int, replayed: int) -> None:
    """With `batches` forward passes before the backward ones."""

    def model_of() -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
        )

    model, twin = model_of(), model_of()
    compiled = jitpkg.jit(model, backend="jitpkg")
    trained = [
        (module, torch.optim.SGD(of.parameters(), lr=0.1))
        for module, of in ((compiled, model), (twin, twin))
    ]
    draw = torch.Generator().manual_seed(0)
    gradients: list[torch.Tensor] = []  # all alive, so that none lies where another one did

    def loss_of(made: torch.Tensor) -> torch.Tensor:
        made.register_hook(gradients.append)
        return made.square().mean()

    for batch in torch.randn(8, batches, 3, 4, generator=draw):
        losses = []
        for module, optimizer in trained:
            made = [loss_of(module(x)) for x in batch]
            optimizer.zero_grad()
            for loss in made:
                loss.backward()
            optimizer.step()
            losses.append(torch.stack([loss.detach() for loss in made]))
        torch.testing.assert_close(*losses)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    # From the fourth call on, and the backward half from the fifth. Of two batches that are on
    # their way at once, one is.
    assert fake.recorded == 2 and fake.replayed == replayed


def test_dropout(fake: Fake) -> None:
    """Each replay draws what eager code draws."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.Dropout(), torch.nn.Linear(9, 2))
    twin = copy.deepcopy(model)
    compiled = jitpkg.jit(model, backend="jitpkg")
    for k, x in enumerate(torch.randn(9, 3, 4)):
        made = []
        for module, of in ((twin, twin), (compiled, model)):
            torch.manual_seed(k)
            of.zero_grad()
            y = module(x)
            y.square().sum().backward()
            made += [y.detach(), torch.rand(()), *(p.grad for p in of.parameters())]
        half = len(made) // 2
        torch.testing.assert_close(made[:half], made[half:])
    assert fake.replayed > 9


def test_attention(fake: Fake) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, k) * 2

    explained = jitpkg.explain(attend, backend="jitpkg")
    keys = torch.nn.Parameter(torch.randn(1, 2, 6, 8))
    explanation = explained(torch.randn(1, 2, 6, 8, requires_grad=True), keys)
    assert not explanation.not_recorded and "scaled_dot_product" in str(explanation)
