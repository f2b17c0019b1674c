"""Random programs in which numbers are read of tensors, computed with, and given to ops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jitpkg.testing import Comparison, call
from jitpkg.testing.programs.modes import HOW_COMPUTED

READS = [
    *("{n} = {t}.sum().item()", "{n} = {t}[1].item()", "{n} = {t}.max().item()"),
    *("{n} = float({t}.detach().sum())", "{n}, last, _ = {t}[:3].tolist()"),
    *("{n} = ({t} > 0).sum().item()", "{n} = ({t} > 0).all().item()", "{n} = int(({t} > 1).sum())"),
]
ARITHMETIC = [
    *("{n} = {a} + {b}", "{n} = {a} - {b}", "{n} = {a} * {b}", "{n} = -{a}", "{n} = abs({a})"),
    *("{n} = {a} / 2", "{n} = {a} // 3", "{n} = {a} % 4", "{n} = 1.5 * {a}", "{n} = {a} - 1"),
    *("{n} = float({a})", "{n} = +{a}", "{n} += {a}", "{n} = {a} / len(p)"),
    *("{n} = {a} > {b}", "{n} = {a} == {b}", "{n} = not {a}", "{n} = bool({a})"),
    *("{n} = math.isnan({a})", "{n} = max({a}, 1)", "{n} = min({a}, {b})"),
]
OPS = [
    *("{t} = {u} * {a}", "{t} = {u} + {a}", "{t} = {a} - {u}", "{t} = {u} / 2 + {a}"),
    *("{t} = torch.tanh({u})", "{t} = {u} * {v}", "{t} = torch.full_like({u}, {a})"),
    *("{t} = torch.where({u} > {a}, {u}, {v})", "{t} = {u}.clamp(max=8.0)", "{t} = {u}[:]"),
]
WRITES = [
    *("{t}.mul_(0.5)", "{t} += {a}", "{t}[0] = {a}", "{t}.tanh_()", "{t}[1:].add_(1)"),
    *("q.mul_(0.5)", "q[2] = {a}", "q.copy_({t}.detach())"),
]
BREAKS = [
    *("assert {a} < 1000, {a}", "if math.isnan({a}): raise ValueError('nan')"),
    *("{t} = {t} * 2 if not {a} > {b} and {a} < 9 else {t} - 3",),
    *("{t} = {t} + 1 if {a} > 0 else {t} - 1", "kept.append(f'{{{a}:.3f}}')", "kept.append({a})"),
    *("kept.append(type({a}))", "kept.append({{'a': {a}}})", "holder.number = {a}"),
]


@st.composite
def programs(draw: Any) -> str:
    lines, numbers, tensors = [], ["0.5", "3"], ["p", "q"]
    kinds = [READS] * 3 + [ARITHMETIC] * 3 + [OPS] * 4 + [WRITES, BREAKS]
    for k in range(draw(st.integers(3, 12))):
        kind = draw(st.sampled_from(kinds))
        number, tensor = f"n{k}", f"t{k}"
        made = [each for each in tensors if each.startswith("t")]
        if kind is WRITES and not made:
            kind = OPS
        line = draw(st.sampled_from(kind))
        if "{n} +=" in line:
            number = numbers[-1] if numbers[-1].startswith("n") else f"n{k} = 1; n{k}"
        if kind in (WRITES, BREAKS):
            tensor = draw(st.sampled_from(made or ["p"]))
        chosen = {key: draw(st.sampled_from(numbers)) for key in "ab"}
        chosen |= {key: draw(st.sampled_from(tensors)) for key in "uv"}
        if kind is READS:
            tensor = chosen["u"]
        lines.append(line.format(n=number, t=tensor, **chosen))
        if kind in (READS, ARITHMETIC):
            numbers.append(f"n{k}")
        if kind is OPS or (kind is BREAKS and not made):
            tensors.append(tensor)
    body = "\n".join(f"    {line}" for line in lines)
    names = ", ".join([*numbers, *tensors])
    return (
        f"def program(x, q):\n    p = x * weight\n    kept = []\n{body}\n"
        f"    return kept, [{names}], getattr(holder, 'number', None)\n"
    )


class Holder:
    """What a program keeps a number in."""


WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "jitpkg": {"backend": "jitpkg", "ignore": HOW_COMPUTED, "relative": 1e-5, "absolute": 1e-6},
    "breaks": {"settings": {"disturb": "break"}},
    "dynamic": {"dynamic": True},
}


def compare(text: str, way: str, *, trains: bool, place: int | None = None) -> None:
    weight = torch.tensor([1.0, 0.5, -2.0], dtype=torch.float64, requires_grad=trains)
    namespace: dict[str, Any] = {"torch": torch, "math": math, "weight": weight, "holder": Holder()}
    exec(text, namespace)
    options = WAYS[way]
    if place is not None:
        options = {**options, "settings": {"disturb": f"break:{place}"}}
    x = torch.tensor([1.5, -2.25, 3.0], dtype=torch.float64)
    calls = [call(x * k, (x - 1) / k) for k in (1, 1, 2, -1)]
    Comparison(**options).assert_same_calls(namespace["program"], *calls)


@pytest.mark.parametrize("way", WAYS)
def test_as_eager_code(way: str) -> None:
    @settings(max_examples=20 if way == "eager" else 10, deadline=None)
    @given(programs(), st.booleans())
    def check(text: str, trains: bool) -> None:
        compare(text, way, trains=trains)

    check()


@settings(max_examples=10, deadline=None)
@given(programs(), st.integers(0, 14), st.booleans())
def test_with_a_break_forced(text: str, place: int, trains: bool) -> None:
    compare(text, "jitpkg", trains=trains, place=place)
