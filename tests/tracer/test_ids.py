"""`id()` of what exists, and dicts whose keys are devices: as `torch.amp.GradScaler` has them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import events


class Thing:
    def __init__(self, factor: float) -> None:
        self.factor = factor


def by_id(x: torch.Tensor, thing: Any, table: dict[int, float]) -> torch.Tensor:
    return x * table[id(thing)]


def tells(x: torch.Tensor, thing: Any, told: list[Any]) -> torch.Tensor:
    told.append(id(thing))
    return x * thing.factor


@pytest.mark.parametrize(
    "make", [lambda: Thing(1.0), lambda: nn.Linear(2, 2), lambda: [1, 2], dict, lambda: Thing]
)
def test_id_of_what_exists(make: Any) -> None:
    compiled = jitpkg.compile(by_id, fullgraph=True)
    one, two, x = make(), Thing(2.0), torch.ones(2)
    table = {id(one): 2.0, id(two): 3.0}
    found: list[events.Event] = []
    with events.STREAM.listening(found.append):
        for thing in (one, two, one, two):
            assert torch.equal(compiled(x, thing, table), by_id(x, thing, table))
    assert sum(isinstance(event, events.GraphCompiled) for event in found) == 2


def test_id_of_another_object_each_time_is_left_to_python() -> None:
    compiled = jitpkg.compile(tells)
    found: list[events.Event] = []
    things, told = [Thing(2.0) for _ in range(20)], list[int]()
    with events.STREAM.listening(found.append):
        for thing in things:
            assert compiled(torch.ones(2), thing, told).tolist() == [2.0] * 2
    assert told == [id(thing) for thing in things]
    assert not any(isinstance(event, events.LimitReached) for event in found)
    assert sum(isinstance(event, events.EntryAdded) for event in found) <= 6


def returned(x: torch.Tensor, thing: Any) -> tuple[torch.Tensor, int]:
    return x + 1, id(thing)


def test_id_is_the_objects_own() -> None:
    compiled = jitpkg.compile(returned, fullgraph=True)
    things = [Thing(1.0), Thing(1.0), test_id_is_the_objects_own]
    for thing in things * 2:
        assert compiled(torch.ones(2), thing)[1] == id(thing)


def of_new(x: torch.Tensor) -> Any:
    thing = Thing(2.0)
    return x * thing.factor, id(thing) == id(thing), thing


def test_id_of_what_is_made_is_pythons() -> None:
    assert jitpkg.explain(of_new)(torch.ones(2)).graph_break_count == 1
    value, same, _ = jitpkg.compile(of_new)(torch.ones(2))
    assert same and torch.equal(value, torch.full((2,), 2.0))


CPU = torch.device("cpu")


def reads(x: torch.Tensor, table: dict[Any, float]) -> torch.Tensor:
    return x * table[x.device]


def walks(x: torch.Tensor, table: dict[Any, float]) -> torch.Tensor:
    for device, factor in table.items():
        x = x.to(device) * factor
    return x


def writes(x: torch.Tensor, table: dict[Any, float]) -> torch.Tensor:
    table[x.device] = 3.0
    table.setdefault(torch.device("meta"), 4.0)
    return x * len(table)


def makes(x: torch.Tensor, table: dict[Any, float]) -> tuple[torch.Tensor, Any]:
    made = {x.device: x, torch.device("meta"): 1, **table}
    return x + len(made), made


@pytest.mark.parametrize("function", [reads, walks, writes, makes])
def test_devices_as_keys(function: Any) -> None:
    compiled = jitpkg.compile(function, fullgraph=True)
    tables: list[dict[Any, float]] = [
        {CPU: 2.0},
        {CPU: 3.0},
        {torch.device("cpu", 0): 5.0, CPU: 2.0},
        {CPU: 2.0, "cpu": 1.0} if function is not walks else {CPU: 1.0},
        {CPU: 2.0},
    ]
    for table in tables:
        mine, theirs, x = dict(table), dict(table), torch.rand(3)
        found, expected = compiled(x, mine), function(x, theirs)
        assert mine == theirs and list(mine) == list(theirs)
        assert str(found) == str(expected)


# Gradient scaling


def made(device: str, **how: Any) -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return model, optimizer, torch.amp.GradScaler(device, **how)


def step(
    model: Any, optimizer: Any, scaler: Any, x: torch.Tensor, y: torch.Tensor, clips: bool
) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    if clips:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return loss.detach()


@pytest.mark.parametrize("clips", [True, False])
@pytest.mark.parametrize("enabled", [True, False])
def test_scaled_gradients(clips: bool, enabled: bool) -> None:
    """With an overflow in the midst, which steps over an update, and halves the scale."""
    how = {"init_scale": 1024.0, "growth_interval": 3, "enabled": enabled}
    mine, theirs = made("cpu", **how), made("cpu", **how)
    compiled = jitpkg.compile(step)
    torch.manual_seed(1)
    for k in range(10):
        x, y = torch.randn(4, 8), torch.randint(3, (4,))
        if k == 5 and enabled:
            x[0, 0] = torch.inf
        found, expected = compiled(*mine, x, y, clips), step(*theirs, x, y, clips)
        assert torch.equal(found, expected) or k == 5
        assert mine[2].state_dict() == theirs[2].state_dict()
        for one, other in zip(mine[0].parameters(), theirs[0].parameters(), strict=True):
            assert torch.equal(one, other)
    assert torch.isfinite(next(iter(mine[0].parameters()))).all()


def test_scaled_gradients_break_where_a_number_is_needed() -> None:
    """Whether something has overflown decides whether there is a step."""
    scaled = made("cpu")
    x, y = torch.randn(4, 8), torch.randint(3, (4,))
    explained = jitpkg.explain(step)(*scaled, x, y, True)
    assert explained.break_reasons[0].title() == (
        "B104: a tensor's data becomes a Python value: Tensor.item"
    )
    assert explained.graph_count <= 3
