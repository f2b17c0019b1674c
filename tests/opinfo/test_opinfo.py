"""The run of the op database: what is right passes, what is wrong does not, a death is survived."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests import pool
from tests.opinfo.check import Check, Checked
from tests.opinfo.compare import Outcome, difference
from tests.opinfo.report import Report
from tests.opinfo.run import WORKER
from tests.opinfo.samples import Task


@dataclass(frozen=True)
class Op:
    """As little of an op of the database as a check needs."""

    op: Callable[..., Any]
    name: str = "op"
    formatted_name: str = "op"

    @staticmethod
    def sample_inputs_func(op: Op, device: str, dtype: torch.dtype, grad: bool) -> Any:
        for shape in ((3,), (2, 4), ()):
            x = torch.randn(shape, dtype=dtype).requires_grad_(grad)
            yield SimpleNamespace(input=x, args=(), kwargs={})


def checked(function: Any, backward: bool = False, **settings: Any) -> Checked:
    return Check(
        Op(function), Task("op", "float32", "grad" if backward else "plain"), **settings
    ).all()


def as_zeros(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return lambda *args: tuple(torch.zeros_like(x) for x in gm(*args))


def test_an_op_in_kernels() -> None:
    done = checked(lambda x: x.sin() + 1, backward=True)
    assert (done.compared, done.wrong, done.calls, done.breaks) == (3, [], set(), set())
    assert done.kernels


def test_an_op_that_aten_runs() -> None:
    assert checked(lambda x: torch.sort(x.reshape(-1))).calls


def test_a_wrong_backend_is_seen_in_each_sample() -> None:
    done = checked(lambda x: x + 1, backend=as_zeros)
    assert [why.split(":")[0] for why in done.wrong] == ["sample 0", "sample 1", "sample 2"]


def test_what_is_shared_between_calls_is_seen() -> None:
    def sharing(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        kept: dict[int, torch.Tensor] = {}
        return lambda *args: tuple(kept.setdefault(k, t) for k, t in enumerate(gm(*args)))

    done = checked(lambda x: torch.full_like(x, 2), backend=sharing)
    assert len(done.wrong) == 3
    assert all("second call" in why for why in done.wrong)


def test_fewer_samples() -> None:
    assert [checked(torch.sin, most=most).compared for most in (1, 2, 3, 9)] == [1, 2, 3, 3]


def test_a_break_is_no_difference() -> None:
    done = checked(lambda x: x + len(torch.nonzero(x)))
    assert done.breaks and not done.wrong and done.compared == 3


def test_what_eager_code_does_not_repeat_is_left_out() -> None:
    counted = iter(range(1000))
    done = checked(lambda x: x + next(counted))
    assert (done.unstable, done.compared, done.wrong) == (3, 0, [])


def test_what_eager_code_refuses() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(3, 1)

    assert (checked(refuses).compared, checked(refuses).wrong) == (3, [])


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (torch.ones(2, 2), None),
        (torch.ones(2, 2).t().contiguous().t(), "strides"),
        (torch.ones(2, 2).double(), "dtype"),
        (torch.ones(4), "shape"),
        (torch.full((2, 2), 1.1), "close"),
        (1.0, "is a float"),
    ],
)
def test_differences(found: Any, why: str | None) -> None:
    said = difference(Outcome(found), Outcome(torch.ones(2, 2)))
    assert said is None if why is None else why in (said or "")


def test_as_near_to_float64_as_eager_code_is_right() -> None:
    exact = Outcome(torch.tensor([1.0], dtype=torch.float64))
    eager = Outcome(torch.tensor([1.1]))
    assert difference(Outcome(torch.tensor([0.95])), eager) is not None
    assert difference(Outcome(torch.tensor([0.95])), eager, exact) is None
    assert difference(Outcome(torch.tensor([0.7])), eager, exact) is not None


class Mortal:
    """Dies of one op."""

    alive = 0

    def __init__(self, module: str, most: int | None = None) -> None:
        Mortal.alive += 1

    def __enter__(self) -> Mortal:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        Mortal.alive -= 1

    def ask(self, task: Task, timeout: float, *, eagerly: bool = False) -> dict[str, Any]:
        if task.op == "always" or (task.op == "compiled" and not eagerly):
            raise pool.Died("the process died (-11)")
        return {"compared": 1, "calls": [], "declined": [], "breaks": [], "wrong": []}


def test_a_death_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "Worker", Mortal)
    asked = [Task(op, "float32", "plain") for op in ("first", "always", "compiled", "last")]
    report = Report()
    pool.Pool[Task](WORKER, 1, 5).run(deque(asked), report.add)
    assert [task.op for task in report.wrong(set(asked))] == ["compiled"]
    assert len(report.right) == 3 and Mortal.alive == 0
    assert report.missing({*asked, Task("other", "float32", "plain")})
    assert not report.missing(set(asked))


def test_a_worker_that_dies_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.sys, "executable", "/bin/false")
    with pytest.raises(pool.Died):
        pool.Worker(WORKER)
