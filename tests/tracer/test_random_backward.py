"""Random functions that go backward inside: writes, views, detached and repeated parts."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from jitpkg.errors import GraphBreak
from jitpkg.testing import Comparison, call
from tests.portions import portion

OPS = (
    """
{a} * {b} | {a} + {b}.exp() | ({a} - {b}).tanh() | {a}.sigmoid() | {a}[1:].sum() * {b} | {a} * 2
{a}.detach() * {b} | torch.where({a} > 0, {a}, {b}) | {a}.clone() | F.softmax({a}, 0) * {b}
{a}.cumsum(0) | torch.stack([{a}, {b}]).sum(0) | {a}.view(3, 1).expand(3, 3).sum(1) * {b}
F.gelu({a}) | {a}.view(3) | {a}.flip(0) | {a}.outer({b}).sum(0) | torch.cat([{a}, {b}])[1:4]
F.layer_norm({a}, (3,)) | {a}.max({b}) | checkpoint(torch.sin, {a}, use_reentrant=False)
""".replace("\n", " | ")
    .strip(" |")
    .split(" | ")
)
WRITES = (
    """
{v}.mul_({a}) | {v}[0] = {a}.sum() | {v}.add_(1) | {v}[1:].copy_({a}[:2].clone()) | {v}.relu_()
{v}.view(3, 1).mul_(2) | {v}.zero_()
""".replace("\n", " | ")
    .strip(" |")
    .split(" | ")
)


def source(seed: int) -> str:
    """A function of three leaves and a tensor."""
    choose = random.Random(seed)
    leaves, lines = ["p", "q", "r"], []
    values = [*leaves, "x"]

    def any_of(names: list[str]) -> str:
        return choose.choice(names)

    for k in range(choose.randint(1, 3)):
        made: list[str] = []
        for _ in range(choose.randint(1, 6)):
            kind = choose.random()
            if kind < 0.2 and made:
                write = any_of(WRITES).format(v=any_of(made), a=any_of(values))
                grad = choose.random() < 0.2
                lines.append(f"with torch.no_grad(): {write}" if grad else write)
                continue
            name = f"v{len(values)}"
            op = any_of(OPS).format(a=any_of(values), b=any_of(values))
            if choose.random() < 0.1:
                lines.append(f"with torch.no_grad(): {name} = {op}")
            else:
                lines.append(f"{name} = {op}")
            values.append(name)
            made.append(name)
        used = " * ".join(choose.sample([*made, *leaves], 2))
        lines.append(f"loss{k} = ({used}).sum()")
        how = choose.choice(["", "", "", "retain_graph=True", f"inputs=[{any_of(leaves)}]"])
        lines.append(f"if loss{k}.requires_grad: loss{k}.backward({how})")
        for leaf in leaves:
            after = choose.random()
            if after < 0.2:
                lines.append(f"if {leaf}.grad is not None: values.append({leaf}.grad * 2)")
            elif after < 0.3:
                lines.append(f"{leaf}.grad = None")
            elif after < 0.4:
                lines.append(f"if {leaf}.grad is not None:")
                lines.append(f"    with torch.no_grad(): {leaf} -= 0.1 * {leaf}.grad")
    returned = ", ".join(choose.sample(values, choose.randint(0, 2)))
    body = "".join(f"    {line}\n" for line in ["values = []", *lines])
    return f"def program(p, q, r, x):\n{body}    return [*values, {returned}]\n"


def program(seed: int) -> Callable[..., Any]:
    text, file = source(seed), f"<backward {seed}>"
    names: dict[str, Any] = {"torch": torch, "F": F, "checkpoint": checkpoint}
    exec(compile(text, file, "exec"), names)
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    made: Callable[..., Any] = names["program"]
    return made


def given(seed: int) -> tuple[Tensor, ...]:
    made = torch.rand(4, 3, generator=torch.Generator().manual_seed(seed)) + 0.5
    return *(x.clone().requires_grad_() for x in made[:3]), made[3]


NOT_COMPARED = ("grad_fn", "version", "idle strides", "view", "storage offset", "memory")
"""With kernels: autograd may lay the gradients of two leaves into one memory."""


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize("seed", portion(range(80), 4))
def test_as_eager_code(seed: int, backend: str) -> None:
    """One graph: of several, each would be one node of autograd's, and be freed as a whole."""
    if not raises(seed):
        compare(seed, backend)


def raises(seed: int) -> bool:
    """Whether eager code does."""
    arguments = given(seed)
    try:
        for _ in range(3):
            program(seed)(*arguments)
    except RuntimeError:
        return True
    return False


def compare(seed: int, backend: str) -> None:
    exact = backend == "eager"
    how = Comparison(
        backend=backend,
        fullgraph=not exact,
        relative=0.0 if exact else 1e-4,
        absolute=0.0 if exact else 1e-4,
        ignore=() if exact else NOT_COMPARED,
        backward=exact,
    )
    try:
        how.assert_same_calls(program(seed), *[call(*given(seed))] * 3)
    except GraphBreak:
        assert not exact
