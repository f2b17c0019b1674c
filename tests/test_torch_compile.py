"""`torch.compile(…, backend="jitpkg")`: the graphs that torch's own tracer makes."""

import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import jitpkg
from jitpkg import events
from jitpkg.torch_compile import backend

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch.compile wraps two methods of modules for good, and keeps what it has compiled."""
    for name in "__init__", "__setstate__":
        monkeypatch.setattr(nn.Module, name, getattr(nn.Module, name))
    yield
    torch.compiler.reset()


def rand(*size: int, grad: bool = False) -> torch.Tensor:
    made = torch.rand(size, generator=torch.Generator().manual_seed(sum(size)))
    return made.requires_grad_(grad)


# Programs, each with calls, and how many graphs we make of them


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.saved_tensors[0].cos() * 2


def autocast_and_grad_mode(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.linear(x, w)
    with torch.no_grad():
        z = y * 2
    return y + 1, z


def with_breaks(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    print(end="")
    x = x.sin()
    print(end="")
    return x + 1


def in_place(x: torch.Tensor, out: list[torch.Tensor]) -> torch.Tensor:
    x.mul_(2)
    out.append(x)
    return x.view(-1)[1:]


def mutated_buffer() -> Callable[..., Any]:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())


Calls = list[Callable[[], tuple[Any, ...]]]
Program = tuple[Callable[[], Callable[..., Any]], Calls, int, dict[str, Any]]


def program(
    make: Callable[[], Callable[..., Any]],
    *calls: Callable[[], tuple[Any, ...]],
    graphs: int = 1,
    **settings: Any,
) -> Program:
    return make, list(calls), graphs, settings


def sizes(*counts: int) -> Calls:
    return [lambda n=n: (rand(n, 4),) for n in counts]  # type: ignore[misc]


PROGRAMS: dict[str, Program] = {
    "one graph": program(lambda: lambda x: x.sin() + 1, *sizes(3, 3)),
    "no graph": program(lambda: lambda x: x, *sizes(3), graphs=0),
    "sizes that vary": program(lambda: lambda x: x * x.shape[0], *sizes(3, 5, 7, 9), graphs=2),
    "dynamic": program(lambda: lambda x: x * x.shape[0] + 1, *sizes(3, 5, 7), dynamic=True),
    "one at last": program(lambda: lambda x: x.sum(0), *sizes(3, 1, 5, 1), dynamic=True, graphs=2),
    "static": program(lambda: lambda x: x * x.shape[0], *sizes(3, 5), dynamic=False, graphs=2),
    "ints": program(
        lambda: lambda x, n: x * n + n,
        *[lambda n=n: (rand(3), n) for n in (2, 3, 4, 5)],
        graphs=2,
    ),
    "large ints": program(
        lambda: lambda x, n: x.long() + n,
        *[lambda n=n: (rand(3), n) for n in (1 << 40, 1 << 41, 1 << 42)],
        graphs=3,
    ),
    "floats": program(
        lambda: lambda x, k: x * k,
        *[lambda k=k: (rand(3), k) for k in (2.5, 3.5, float("inf"), 4.5)],
        graphs=2,
    ),
    "module": program(lambda: nn.Linear(4, 2), *sizes(3)),
    "method": program(lambda: nn.Linear(4, 2).forward, *sizes(3)),
    "buffers": program(mutated_buffer, *sizes(3, 3)),
    "dropout": program(lambda: lambda x: F.dropout(x, 0.5) + torch.rand(4), *sizes(3, 3)),
    "autocast": program(
        lambda: autocast_and_grad_mode, lambda: (rand(3, 4, grad=True), rand(5, 4, grad=True))
    ),
    "training": program(lambda: lambda x: (x.sin() * x).sum(), lambda: (rand(3, grad=True),)),
    "breaks": program(lambda: with_breaks, *sizes(3), graphs=3),
    "in place": program(lambda: in_place, lambda: (rand(3), [])),
    "alias": program(lambda: lambda a: a.view(-1), *sizes(3)),
    "constants": program(
        lambda: lambda x: x + torch.tensor([1.0, 2, 3, 4]) + torch.arange(4) + torch.inf,
        *sizes(3),
    ),
    "containers": program(
        lambda: lambda d: {"a": d["x"] + 1, "b": (d["n"], [d["x"] * 2])},
        lambda: ({"x": rand(3), "n": 3},),
    ),
    "function": program(lambda: lambda x: Sine.apply(x) + 1, lambda: (rand(3, grad=True),)),
    "vmap": program(lambda: lambda x: torch.vmap(torch.sum)(x) + 1, *sizes(3), graphs=0),
    "grad": program(
        lambda: lambda x: torch.func.grad(lambda a: (a * a).sum())(x), *sizes(3), graphs=0
    ),
    "cond": program(
        lambda: lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), *sizes(3)
    ),
    "item": program(lambda: lambda x: x * x.sum().item(), *sizes(3), fullgraph=True),
    "data": program(lambda: lambda x: x[x > 0.5] * 2, *sizes(3), graphs=2, fullgraph=True),
    "inference": program(lambda: torch.inference_mode()(lambda x: x.sin() + 1), *sizes(3)),
    "options": program(lambda: lambda x: x.sin() + 1, *sizes(3), options={"precision": "fused"}),
    "mode": program(lambda: lambda x: x.sin() + 1, *sizes(3), mode="max-autotune"),
}


def described(value: Any) -> Any:
    """Something to compare: of tensors what can be seen, with kernels' rounding left out."""
    if isinstance(value, torch.Tensor):
        data = value.detach().double()
        coarse = [round(x, 4) for x in data.flatten().tolist()]
        facts = (value.dtype, tuple(value.shape), value.stride(), value.requires_grad)
        return facts, value.is_leaf, coarse
    if isinstance(value, list | tuple):
        return [described(v) for v in value]
    if isinstance(value, dict):
        return {k: described(v) for k, v in value.items()}
    return value


def run(f: Callable[..., Any], calls: Calls) -> list[Any]:
    """What can be seen of the calls: results, arguments afterwards, gradients, random numbers."""
    torch.manual_seed(0)
    seen: list[Any] = []
    for make in calls:
        args = make()
        result = f(*args)
        seen += [described(result), described(args), described(torch.get_rng_state())]
        inputs = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
        if inputs:
            outputs = [result] if isinstance(result, torch.Tensor) else result
            loss = sum(o.float().sum() for o in outputs if o.requires_grad)
            loss.backward()
            seen.append(described([x.grad for x in inputs]))
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    make, calls, graphs, settings = PROGRAMS[name]
    torch.manual_seed(0)
    f = make()
    state = {k: v.clone() for k, v in getattr(f, "state_dict", dict)().items()}
    expected = run(f, calls)
    after = described(dict(getattr(f, "state_dict", dict)()))
    if state:
        f.load_state_dict(state)
    found: list[events.Event] = []
    with events.STREAM.listening(found.append):
        assert run(torch.compile(f, backend=backend, **settings), calls) == expected
    assert described(dict(getattr(f, "state_dict", dict)())) == after
    assert sum(isinstance(event, events.GraphCompiled) for event in found) == graphs


CONTEXTS = {
    "plain": {},
    "reentrant": {"use_reentrant": True},
    "selective": {
        "context_fn": lambda: torch.utils.checkpoint.create_selective_checkpoint_contexts(
            [torch.ops.aten.mm.default]
        )
    },
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_checkpoints_draw_the_same_numbers_twice(name: str) -> None:
    w = rand(4, 4, grad=True)

    def block(x: torch.Tensor) -> torch.Tensor:
        return F.dropout((x @ w).sin(), 0.5) @ w

    def f(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, **{"use_reentrant": False, **CONTEXTS[name]}).sum()

    seen = []
    for g in (f, torch.compile(f, backend=backend)):
        torch.manual_seed(0)
        x, w.grad = rand(3, 4, grad=True), None
        g(x).backward()
        seen.append(described([x.grad, w.grad, torch.get_rng_state()]))
    assert seen[0] == seen[1]


def test_why_a_graph_runs_op_by_op_is_told() -> None:
    found: list[events.Event] = []
    with events.STREAM.listening(found.append):
        torch.compile(torch.vmap(torch.sin), backend=backend)(rand(3, 4))
    (declined,) = [event for event in found if isinstance(event, events.Declined)]
    assert declined.graph.startswith("torch.compile ")
    assert "a function transform (vmap, grad)" in declined.why


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mode": "fast"}, "There is no mode 'fast'."),
        ({"options": {"precison": "fused"}}, "Do you mean 'precision'"),
        ({"options": {"precision": "high"}}, "takes 'eager' or 'fused', not 'high'"),
    ],
)
def test_bad_settings_are_told(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match="InvalidArgument") as caught:
        torch.compile(lambda x: x + 1, backend=backend, **settings)(rand(3))
    assert text in str(caught.value)


def test_the_setting_disable() -> None:
    found: list[events.Event] = []
    with jitpkg.config.patch(disable=True), events.STREAM.listening(found.append):
        assert torch.equal(torch.compile(torch.sin, backend=backend)(rand(3)), rand(3).sin())
    assert not any(isinstance(event, events.GraphCompiled) for event in found)


def test_a_failure_of_ours_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> Any:
        raise KeyError("facts")

    monkeypatch.setattr("jitpkg.torch_compile.copied", failing)
    f = torch.compile(lambda x: x + 1, backend=backend)
    with jitpkg.config.patch(strict=False), pytest.warns(UserWarning, match="KeyError: 'facts'"):
        assert torch.equal(f(rand(3)), rand(3) + 1)


# The name


def entry_point() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    place: str = project["entry-points"]["torch_dynamo_backends"]["jitpkg"]
    return place


def test_the_entry_point_is_the_backend_and_may_have_attributes() -> None:
    """The registry of torch 2.13 writes some."""
    module, _, name = entry_point().partition(":")
    found = getattr(importlib.import_module(module), name)
    assert found is backend
    assert vars(found) is not None


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the package is installed as it stands."""
    info = tmp_path / "jitpkg-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jitpkg\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torch_dynamo_backends]\njitpkg = {entry_point()}\n")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


NAMED = """
import torch
assert "jitpkg" in torch.compiler.list_backends()
print(torch.compile(lambda x: x.sin() + 1, backend="jitpkg")(torch.zeros(3)).tolist())
model = torch.nn.Linear(2, 2)
model.compile(backend="jitpkg", mode="max-autotune-no-cudagraphs")
model(torch.ones(2)).sum().backward()
print(model.weight.grad.tolist())
"""


def test_found_by_name(installed: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", NAMED],
        env=installed,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[1.0, 1.0, 1.0]", "[[1.0, 1.0], [1.0, 1.0]]"]


# Hugging Face's Trainer

TRAINED = """
import sys, tempfile
import torch
import jitpkg.accelerate
from jitpkg import events
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

def trained(**settings):
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=32, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=8))
    data = [{"input_ids": torch.arange(k, k + 6), "labels": k % 2} for k in range(8)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=2, per_device_train_batch_size=4, logging_steps=1, seed=0,
            report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no", **settings)
        trainer = Trainer(model=model, args=arguments, train_dataset=data)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, [p.detach().clone() for p in model.parameters()]

found = []
losses, weights = trained()
with events.STREAM.listening(found.append):
    ours = trained(torch_compile=True, torch_compile_backend="jitpkg")
assert any(isinstance(event, events.GraphCompiled) for event in found), found
torch.testing.assert_close(ours, (losses, weights))
"""


def test_trainer_of_transformers(installed: dict[str, str]) -> None:
    pytest.importorskip("accelerate")
    done = subprocess.run(
        [sys.executable, "-c", TRAINED], env=installed, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr


def test_a_name_is_added_to_a_list_of_backends_once() -> None:
    offer = pytest.importorskip("jitpkg.accelerate")._offer
    from accelerate.utils import DynamoBackend  # noqa: PLC0415

    before = DynamoBackend("JITPKG")
    offer(DynamoBackend)
    assert DynamoBackend("JITPKG") is before
    assert (before.value, before.name, str(before.value).lower()) == ("JITPKG", "JITPKG", "jitpkg")
    with pytest.raises(ValueError, match="'NONE' is not a valid"):
        DynamoBackend("NONE")
    assert SimpleNamespace(backend=before).backend != DynamoBackend.NO
