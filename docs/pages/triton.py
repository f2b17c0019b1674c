"""docs/triton.md: one softmax from Python to Triton. The prose is in triton.in.md."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import torch

from jitpkg.codegen.fusion.interpreter import run_schedule
from jitpkg.codegen.fusion.kernel import Compute, Loop, Statement, Write
from jitpkg.codegen.fusion.text import text_of_schedule
from jitpkg.codegen.ir.nodes import Apply, Axis, Const, Load, Node, Reduce, written
from jitpkg.codegen.ir.text import all_axes, axis_names, lines_of
from jitpkg.codegen.triton.elsewhere import compiled_elsewhere
from jitpkg.codegen.triton.jobs import Job
from jitpkg.codegen.triton.printer import printed
from jitpkg.codegen.triton.stages import PASSES, stages
from jitpkg.codegen.triton.target import A100, H200
from pages import softmax
from pages.followed import followed
from pages.text import filled

TEMPLATE = Path(__file__).parent / "triton.in.md"
ROOT = Path(__file__).parents[2]


def page() -> str:
    return filled(TEMPLATE.read_text(encoding="utf-8"), _artefacts())


def _artefacts() -> dict[str, str]:
    """Everything that the page shows, by name."""
    found = followed(softmax.attention_weights, torch.ones(4096, 1000))
    loops = found.loops
    kernel = loops.kernel
    names = axis_names(all_axes(kernel.axes, written(kernel.stores)))
    source = printed(loops, H200, kernel.name)
    *_, (_, tree) = stages(loops)
    every = [Job(source, source.configs[0], target, (True, True)) for target in (A100, H200)]
    done = [outcome.resources for outcome in compiled_elsewhere(every)]
    return {
        "program": inspect.getsource(softmax.attention_weights).rstrip(),
        "graph": found.graph,
        "aten": found.aten,
        "kernel": found.kernel,
        "schedule": "\n".join(_statements(loops.body, {**names})),
        "passes": "\n".join(_passes()),
        "tree": text_of_schedule(tree),
        "agreeing": _agreeing(),
        "triton": source.text.strip(),
        "grid": f"({', '.join(source.grid)},)",
        "configs": "\n".join(map(str, source.configs)),
        "version": version("triton"),
        "resources": "\n".join(
            f"sm_{job.target.architecture}: {each}" for job, each in zip(every, done, strict=True)
        ),
        "interpreted": _interpreted(),
    }


def _statements(body: Sequence[Statement], names: dict[Node, str], depth: int = 0) -> Iterator[str]:
    """A schedule as a program: what is computed where. Positions in memory are written out."""
    space = "    " * depth
    for statement in body:
        match statement:
            case Loop(axis=axis, body=inside, folds=folds):
                for fold in folds:
                    names[fold] = f"the_{fold.op}"
                yield f"{space}for {names[axis]} in range({axis.extent}):"
                yield from _statements(inside, names, depth + 1)
                for fold in folds:
                    both = f"{names[fold]}, {names[fold.value]}"
                    yield f"{space}    {names[fold]} = {fold.op}({both})"
            case Compute(nodes=nodes):
                for node in nodes:
                    if node.dtype is not torch.int64:
                        count = sum(not isinstance(n, Axis | Reduce) for n in names)
                        names.setdefault(node, f"v{count}")
                        yield f"{space}{names[node]} = {_shown(node, names)}"
            case Write(store=store):
                at = _position(store.index, names)
                yield f"{space}{store.buffer}[{at}] = {names[store.value]}"


def _shown(node: Node, names: Mapping[Node, str]) -> str:
    """What computes a value, of values that have names."""
    match node:
        case Load(buffer=buffer, index=index):
            return f"{buffer}[{_position(index, names)}]"
        case Apply(op=op, args=args):
            return f"{op}({', '.join(names.get(arg) or _shown(arg, names) for arg in args)})"
        case Const(value=value):
            return str(value)
        case _:
            raise AssertionError(node)


def _position(index: Sequence[Node], names: Mapping[Node, str]) -> str:
    axes = {node: name for node, name in names.items() if isinstance(node, Axis)}
    return ", ".join(lines_of(at, axes)[1].removeprefix("(").removesuffix(")") for at in index)


def _passes() -> Iterator[str]:
    """A line for each: its name, and what it is for, as its module says."""
    for each in PASSES:
        module = sys.modules[each.__module__]
        path = each.__module__.replace(".", "/")
        what, *_ = (module.__doc__ or "").split("\n\n")
        yield f"- [`{each.__name__}`](../{path}.py): {' '.join(what.split())}"


def _agreeing() -> str:
    """How many of the trees, interpreted, do what eager code does."""
    of = followed(softmax.attention_weights, torch.ones(6, 10))
    x = torch.linspace(-3, 3, 60)
    ((given,), (result,)) = of.normal.kernel.inputs, of.normal.kernel.outputs
    trees = [of.loops, *(made for _, made in stages(of.loops))]
    count = 0
    for tree in trees:
        y = torch.zeros(60)
        run_schedule(tree, {given: x, result: y})
        wanted = softmax.attention_weights(x.reshape(6, 10)).reshape(60)
        count += torch.allclose(y, wanted, rtol=0, atol=1e-6)
    return f"{count} of {len(trees)} trees"


def _interpreted() -> str:
    """What a program prints that runs the function by Triton's interpreter."""
    code = (
        "import torch, jitpkg; from pages.softmax import attention_weights as f;"
        "x = torch.linspace(-1, 1, 12).reshape(3, 4);"
        'y = jitpkg.compile(f, backend="jitpkg")(x);'
        "print('as eager code, to 1e-6:', torch.allclose(y, f(x), rtol=0, atol=1e-6))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ
        | {
            "JITPKG_DEBUG": "triton",
            "TRITON_INTERPRET": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "docs")]),
        },
    )
    return done.stdout.strip()
