"""Random programs that ask for gradients: by leaves and by what was computed, once and again, with
a history and without, and then go backward through all of it."""

from __future__ import annotations

import random

import pytest

from jitpkg.testing.programs import Program, check
from tests.portions import portion
from tests.tracer.test_random_backward import OPS, WRITES
from tests.tracer.test_random_steps import OWN, text, way

SMOOTH = ["{a}.sin()", "{a} * {b}", "{a} @ {b} * {a}", "({a} + {b}).tanh()", "{a}.exp() * 0.1"]
VIEWS = [
    "{a}.view(-1)",
    "{a}[:]",
    "{a}.detach()",
    "{a}.clone()",
    "{a}.expand(3)",
    "{a}.view(3, 1)[:, 0]",
]
LEAVES = [
    *("{a}.detach().clone().requires_grad_()", "({a}.detach() * 2).requires_grad_()"),
    *("{a}.clone().requires_grad_()", "x.exp().requires_grad_()"),
]
BY = ["{a}", "({a}, {b})", "[{a}, {a}]", "({b}, {c}, {a})"]
HOW = [
    *["create_graph=True, allow_unused=True"] * 6,
    *["retain_graph=True, allow_unused=True"] * 4,
    *["create_graph=True", "retain_graph=True", "allow_unused=True", ""],
    "create_graph=True, retain_graph=False",
    "allow_unused=True, materialize_grads=True",
]
OF = [
    *["{a}.sum()", "({a} * {b}).sum()", "[{a}.sum(), {b}.sum()]"] * 4,
    *["{a}, grad_outputs={b}", "{a}"],
]
ENDS = [
    "{loss}.backward()",
    "{loss}.backward(inputs=[p])",
    "{loss}.backward(retain_graph=True)",
    "",
]


def source(seed: int) -> str:
    choose = random.Random(seed)
    leaves, lines = ["p", "q", "r"], []
    values, trained, made = [*leaves, "x"], [*leaves], list[str]()

    def operands() -> dict[str, str]:
        return {name: choose.choice([*values, *values[-3:]]) for name in "abc"}

    def some() -> dict[str, str]:
        return {name: choose.choice(trained[-4:]) for name in "abc"}

    def by() -> dict[str, str]:
        return {name: choose.choice(trained[:5]) for name in "abc"}

    for k in range(choose.randint(1, 3)):
        for _ in range(choose.randint(1, 3)):
            op = choose.choice(choose.choice([SMOOTH, SMOOTH, SMOOTH, SMOOTH, OPS, VIEWS, LEAVES]))
            name = f"v{len(values)}"
            lines.append(f"{name} = {op.format(**(operands() | {'a': choose.choice(trained)}))}")
            if op in LEAVES:
                made.append(name)
            values.append(name)
            trained.append(name)
        if choose.random() < 0.08:
            write = choose.choice(WRITES).format(v=choose.choice(values), a=choose.choice(values))
            lines.append(write)
        of, how = choose.choice(OF).format(**some()), choose.choice(HOW)
        inputs = choose.choice(BY).format(**by())
        if ", grad_outputs" in of:
            of, _, given = of.partition(", ")
            how = f"{given}, {how}"
        lines.append(f"g{k} = torch.autograd.grad({of}, {inputs}, {how})")
        lines.append(f"h{k} = [*[g for g in g{k} if g is not None], {choose.choice(trained)}][0]")
        values.append(f"h{k}")
        if "create_graph" in how:
            trained.append(f"h{k}")
        lines.append(f"seen += [g is not None and g.requires_grad for g in g{k}]")
    if choose.random() < 0.7:
        lines.append("loss = " + " + ".join(f"({v}).sum()" for v in choose.sample(trained, 2)))
        lines.append(choose.choice(ENDS).format(loss="loss"))
        values.append("loss")
    for name in made:
        after = [
            "",
            f"seen.append({name}.grad)",
            f"seen += [{name}, {name}.grad]",
            f"seen.append({name})",
        ]
        after += [f"{name}.grad = None", f"({name} * 2).sum().backward()"]
        lines += [choose.choice(after) for _ in range(2)]
    returned = ", ".join(choose.sample(values, choose.randint(0, 2)))
    body = "".join(f"    {line}\n" for line in ["seen = []", *lines] if line)
    return text(body, f"[seen, g0, {returned}]")


def calls(seed: int, *, kernels: bool = False) -> tuple[str, str]:
    """The second has a history in part; a graph of kernels, which is one node then, is freed as a
    whole: docs/backends.md."""
    choose = random.Random(seed)
    listed = (", ".join(f"{choose.random() + 0.5:.3f}" for _ in range(3)) for _ in range(4))
    first = [f"torch.tensor([{numbers}])" for numbers in listed]
    first = [f"{each}.requires_grad_()" for each in first[:3]] + first[3:]
    other = [f"{first[0]} * 1.5", *first[1:]] if seed % 3 == 0 and not kernels else first
    return f"call({', '.join(first)})", f"call({', '.join(other)})"


MODES = {
    "eager": {"backend": "eager"},
    "eager, one break": {"backend": "eager"},
    "eager, varying sizes": {"backend": "eager", "dynamic": True},
    "jitpkg": OWN,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", portion(range(200), 4))
def test_as_eager_code(seed: int, mode: str) -> None:
    program = Program(source(seed), calls(seed, kernels=mode == "jitpkg"))
    outcome = check(program, way(mode, MODES[mode], seed))
    assert outcome.verdict in ("same", "left out"), outcome.said
