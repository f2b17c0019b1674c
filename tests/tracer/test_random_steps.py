"""Random training steps that write where they must not, and where autograd does not see it: to
leaves, arguments, views and gradients, before a backward pass and after it.

What eager code refuses is refused in the same place, with the same gradients left behind.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import pytest

from jitpkg.testing.programs import Program, check
from jitpkg.testing.programs.modes import HOW_COMPUTED, Mode
from tests.portions import portion
from tests.tracer.test_random_backward import OPS, WRITES

MORE_OPS = [*OPS, "{a}[1:]", "{a}.detach()", "{a}.view(-1)", "{a}[:2]"]
MORE_WRITES = [
    *WRITES,
    "{v}.data.mul_(2)",
    "{v}.detach()[1:].add_(1)",
    "torch.add({a}, 1, out={v})",
    "{v}[{v} > 0.7] = 0.5",
    "e = {v}[1:]; e.sub_(1)",
    "{v}.view(3)[0].fill_(2)",
    "{v}.grad = {a}.detach()",
    "{v}.requires_grad_({v}.sum() > 1)",
    "{v}.retain_grad()",
    "{v}.t_()",
    "{v}.squeeze_()",
]
ARGUMENTS = [
    "numbers",
    "numbers.requires_grad_() * 1.5",
    "numbers.expand(3).requires_grad_()",
    "numbers.requires_grad_()[:]",
]
SHARED = ["p", "p.detach()", "p[:]", "p.detach().requires_grad_()", "p.view(3)"]
AFTER = [
    "if {leaf}.grad is not None: values.append({leaf}.grad * 2)",
    "{leaf}.grad = None",
    "with torch.no_grad(): {leaf} -= 0.1 * {leaf}.grad",
    "values.append({leaf} * 2)",
]


def source(seed: int) -> str:
    choose = random.Random(seed)
    leaves, lines = ["p", "q", "r"], []
    values = [*leaves, "x"]
    for k in range(choose.randint(1, 3)):
        made: list[str] = []
        for _ in range(choose.randint(1, 4)):
            quietly = "with torch.no_grad(): " if choose.random() < 0.3 else ""
            if choose.random() < 0.3:
                target = choose.choice([*made, *leaves, "x"])
                write = choose.choice(MORE_WRITES).format(v=target, a=choose.choice(values))
                lines.append(quietly + write)
                continue
            name = f"v{len(values)}"
            operands = {"a": choose.choice(values), "b": choose.choice(values)}
            lines.append(f"{quietly}{name} = {choose.choice(MORE_OPS).format(**operands)}")
            values.append(name)
            made.append(name)
        used = choose.sample([*made, *leaves, "x"], 2)
        lines.append(f"loss{k} = {used[0]}.sum() + {used[1]}.sum()")
        how = choose.choice(["", "", "", "retain_graph=True", f"inputs=[{choose.choice(leaves)}]"])
        lines.append(f"loss{k}.backward({how})")
        touched = [leaf for leaf in leaves if choose.random() < 0.4]
        lines += [choose.choice(AFTER).format(leaf=leaf) for leaf in touched]
    returned = ", ".join(choose.sample(values, choose.randint(0, 2)))
    body = "".join(f"    {line}\n" for line in ["values = []", *lines])
    return text(body, f"[*values, {returned}]")


def text(body: str, returned: str) -> str:
    """A program of three leaves and a tensor."""
    return f"""import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
def program(p, q, r, x):
{body}    return {returned}
"""


def calls(seed: int) -> tuple[str, str]:
    """Of every two, the second has other kinds of arguments, for which there is no entry yet."""
    choose = random.Random(seed)
    first = _call(choose)
    return first, first if seed % 2 else _call(choose)


def _call(choose: random.Random) -> str:
    def argument(kind: str) -> str:
        listed = ", ".join(f"{choose.random() + 0.5:.3f}" for _ in range(3))
        return kind.replace("numbers", f"torch.tensor([{listed}])")

    leaf = "numbers.requires_grad_()"
    kinds = [leaf if choose.random() < 0.75 else choose.choice(ARGUMENTS) for _ in range(3)]
    kinds.append("numbers")
    if choose.random() < 0.4:
        kinds[0] = f"(p := {kinds[0]})"
        kinds[choose.randint(1, 2)] = choose.choice(SHARED)
        if choose.random() < 0.5:
            kinds[3] = choose.choice(["p.detach()", "p.detach()[:]", "p.data"])
    return f"call({', '.join(map(argument, kinds))})"


OWN = {
    "backend": "jitpkg",
    "ignore": (*HOW_COMPUTED, "storage offset", "memory", "traceback"),
    "relative": 1e-4,
    "absolute": 1e-4,
}
MODES = {
    "eager": {"backend": "eager"},
    "eager, one break": {"backend": "eager"},
    "jitpkg": OWN,
    "jitpkg, one break": OWN,
}
ONE_NODE = re.compile(r"(Trying to backward .* second time|has been modified by an inplace)")
"""Where a graph is one node of autograd's, it is freed as a whole, and has saved all of it:
docs/backends.md."""


def way(name: str, how: Mapping[str, Any], seed: int) -> Mode:
    """One of these modes, with a break somewhere where its name says so."""
    settings: dict[str, Any] = {"never_worse": False}
    if "break" in name:
        settings["disturb"] = f"break:{seed % 14}"
    return Mode(name, {**how, "settings": settings})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", portion(range(200), 4))
def test_as_eager_code(seed: int, mode: str) -> None:
    outcome = check(Program(source(seed), calls(seed)), way(mode, MODES[mode], seed))
    if MODES[mode] is OWN and ONE_NODE.search(outcome.said):
        return
    assert outcome.verdict in ("same", "left out"), outcome.said
