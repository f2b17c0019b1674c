"""docs/training.md: one training step from Python to kernels. The prose is in training.in.md."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from math import prod
from operator import getitem
from pathlib import Path
from typing import Any

import torch
from torch import fx

import jitpkg
from jitpkg import events
from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared
from jitpkg.codegen.autograd.partition import Halves, parted
from jitpkg.codegen.autograd.record import Joint, joint
from pages import trained
from pages.text import filled

TEMPLATE = Path(__file__).parent / "training.in.md"


def page() -> str:
    return filled(TEMPLATE.read_text(encoding="utf-8"), _artefacts())


def _artefacts() -> dict[str, str]:
    """Everything that the page shows, by name."""
    torch.manual_seed(0)
    x = torch.randn(64, 32, requires_grad=True)
    weight, target = torch.randn(32, 32, requires_grad=True), torch.randn(64, 32)
    loss, halves = _halves(trained.loss, x, weight, target)
    _, clipped = _halves(trained.clipped_loss, x, weight, target)
    return {
        "loss": _source(trained.loss),
        "graph": loss.code.strip(),
        "forward": _text(halves.forward),
        "backward": _text(halves.backward),
        "kernels": _kernels(trained.loss, x, weight, target),
        "function": _source(trained.Clipped, trained.clipped_loss),
        "function_backward": _text(clipped.backward),
        "deep": _source(trained.block, trained.deep),
        "deep_graph": _graph(trained.deep, x, weight).code.strip(),
        "saved": _saved_by(x, weight),
        "classified": _source(trained.classified),
        "looked_at": _looked_at(),
        "update": _source(trained.update),
        "step": _source(trained.step),
        **_updated(),
        **_stepped(),
    }


def _source(*objects: Any) -> str:
    return "\n\n\n".join(inspect.getsource(each).rstrip() for each in objects)


def _graph(program: Callable[..., Any], *given: torch.Tensor) -> fx.GraphModule:
    graphs: list[fx.GraphModule] = []

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(gm)
        return gm.forward

    jitpkg.compile(program, backend=backend, fullgraph=True)(*given)
    (gm,) = graphs
    return gm


def _halves(program: Callable[..., Any], *given: torch.Tensor) -> tuple[fx.GraphModule, Halves]:
    """The graph of a program, and what is made of it for training."""
    gm = _graph(program, *given)
    placeholders = [node.name for node in gm.graph.find_nodes(op="placeholder")]
    by_name = dict(zip(inspect.signature(program).parameters, given, strict=True))
    inputs = [by_name[name] for name in placeholders]
    prepared = prepare(gm, inputs, trains=True)
    assert isinstance(prepared, Prepared), prepared
    recorded = joint(prepared, inputs)
    assert isinstance(recorded, Joint), recorded
    return gm, parted(recorded)


def _text(graph: fx.Graph) -> str:
    """A graph of ATen ops as a program."""
    lines = []
    for node in graph.nodes:
        facts = node.meta.get("facts")
        if node.op == "placeholder":
            lines.append(f"{node.name}: {_described(facts)}")
        elif node.op == "call_function":
            target = "getitem" if node.target is getitem else node.target
            args = ", ".join(map(str, [*node.args, *(f"{k}={v}" for k, v in node.kwargs.items())]))
            shown = "" if isinstance(facts, tuple) else f"  # {_described(facts)}"
            lines.append(f"{node.name} = {target}({args}){shown}")
        elif node.op == "output":
            lines.append(f"return {node.args[0]}")
    return "\n".join(lines)


def _described(facts: Any) -> str:
    return f"{str(facts.dtype).removeprefix('torch.')}{list(facts.size)}"


def _kernels(program: Callable[..., Any], *given: torch.Tensor) -> str:
    shown = str(jitpkg.explain(program, backend="jitpkg")(*given))
    (found,) = re.findall(r"^Kernels\n(?:  .*\n?)+", shown, re.MULTILINE)
    return found.rstrip()


def _saved_by(x: torch.Tensor, weight: torch.Tensor) -> str:
    """What both programs save besides their inputs."""
    programs: Mapping[str, Callable[..., Any]] = {
        "with checkpoints": trained.deep,
        "without": trained.deep_without,
    }
    lines = ["| | saved | ops computed again |", "|---|---|---|"]
    for name, program in programs.items():
        _, halves = _halves(program, x, weight)
        ops = {node.name for node in halves.forward.nodes if node.op == "call_function"}
        saved = [node for node in halves.backward.find_nodes(op="placeholder") if node.name in ops]
        count = sum(prod(n.meta["facts"].size) * n.meta["facts"].dtype.itemsize for n in saved)
        again = [n for n in halves.backward.nodes if n.op == "call_function" and n.name in ops]
        lines.append(f"| {name} | {count >> 10} KiB in {len(saved)} tensors | {len(again)} |")
    return "\n".join(lines)


def _looked_at() -> str:
    """What the program of the page prints."""
    x, weight = torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)
    compiled = jitpkg.compile(trained.classified, backend="jitpkg")
    loss, logits = compiled(x, weight, torch.tensor([0, 1]))
    logits.retain_grad()
    loss.backward()
    assert logits.grad is not None
    return str(logits.grad)


def _updated() -> dict[str, str]:
    """Of the third step of an optimizer: its graph, how many numbers it takes, and its kernels."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(32, 32))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    graphs: list[fx.GraphModule] = []

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(gm)
        return gm.forward

    def step() -> None:
        optimizer.step()

    compiled = jitpkg.compile(step, backend=backend)
    for k in range(3):
        weight.grad = torch.randn(32, 32)
        optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
        compiled()
    named = r"opt(imizer)?_(state_opt(imizer)?_)?param_groups_0_params_0"
    code = re.sub(r";  .*", "", re.sub(named, "weight", graphs[-1].code))
    numbers = [n for n in graphs[-1].graph.find_nodes(op="placeholder") if "number" in n.name]
    return {
        "update_graph": code.strip(),
        "numbers": f"{len(numbers)} numbers",
        "update_kernels": _kernels(step),
    }


def _stepped() -> dict[str, str]:
    """Of the third whole step: its graph, as far as the gradients, and its kernels."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(32, 32))
    x, target = torch.randn(64, 32), torch.randn(64, 32)
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    graphs: list[Any] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.GraphCompiled):
            graphs.append(event.graph)

    compiled = jitpkg.compile(trained.step, backend="jitpkg")
    with events.STREAM.listening(note):
        for _ in range(3):
            compiled(weight, x, target, optimizer)
    code = re.sub(r";  .*", "", graphs[-1].code).strip()
    end = code.index("getitem")
    return {
        "step_graph": code[: code.index("\n", end)],
        "step_kernels": _kernels(trained.step, weight, x, target, optimizer),
    }
