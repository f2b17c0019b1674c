"""A sample of the architectures, and the machine that compares them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tests.architectures import catalogue, run
from tests.architectures.check import Check, Ours, Task, Theirs, checked

SAMPLE = (
    *("transformers/bart", "transformers/whisper", "transformers/llama4_text"),
    *("transformers/gemma4_unified", "transformers/seamless_m4t", "transformers/flaubert"),
    *("transformers/clip", "transformers/qwen3", "transformers/segformer"),
)
"""Of each kind: with a decoder, of sounds, of experts, of images and words, with assertions."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without pytest's own handlers, which are breaks where a model writes a message."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", SAMPLE)
def test_as_eager_code(name: str) -> None:
    pytest.importorskip("transformers")
    if name.partition("/")[2] not in catalogue.known_types():
        pytest.skip("this version of transformers does not have it")
    answer = checked(Task(name))
    parts = answer["parts"]
    assert {"forward", "shapes", "training"} <= parts.keys()
    assert not run.wrong(answer)
    assert not parts["forward"]["breaks"] and parts["forward"]["graphs"] == 1


class Small(nn.Module):
    """As little of an architecture as a check needs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.dropout(self.inner(x))
        if y.sum() > 1e6:
            y = y + 1
        return {"result": y, "more": (y * 2, [x + 1])}


def small() -> catalogue.Subject:
    torch.manual_seed(0)
    return catalogue.Subject(Small(), tuple({"x": torch.randn(n, 4)} for n in (2, 3, 5)))


class Wrong(Ours):
    """Compiles something else."""

    def compiled(self, module: nn.Module) -> nn.Module:
        changed = super().compiled(module)
        with torch.no_grad():
            next(module.parameters())[0, 0] += 1e-6
        return changed


def test_a_difference_is_seen() -> None:
    parts = Check(small(), Ours()).parts()
    assert [part.wrong for part in parts.values()] == ["", "", ""]
    assert sum(parts["forward"].breaks.values()) == 1 and parts["forward"].graphs == 2
    assert any(part.wrong for part in Check(small(), Wrong()).parts().values())


def test_an_exception_of_one_alone_is_a_difference() -> None:
    class Raising(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            raise ValueError("compiled")

    class Failing(Ours):
        def compiled(self, module: nn.Module) -> nn.Module:
            return Raising()

    assert "ValueError: compiled" in Check(small(), Failing()).parts()["forward"].wrong
    subject = catalogue.Subject(Raising(), small().batches)
    assert not any(part.wrong for part in Check(subject, Ours()).parts().values())


def test_code_that_asks_whether_it_is_compiled() -> None:
    class Asking(Small):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            y = self.inner(x)
            return {"result": y + 1 if torch.compiler.is_compiling() else y}

    subject = catalogue.Subject(Asking(), small().batches)
    parts = Check(subject, Ours()).parts()
    assert not any(part.wrong for part in parts.values()) and parts["training"].asks


def test_what_torch_compile_makes_is_counted() -> None:
    parts = Check(small(), Theirs()).parts()
    assert parts["forward"].graphs >= 1 and not parts["forward"].wrong


def test_what_cannot_be_made_is_said() -> None:
    pytest.importorskip("transformers")
    assert "cannot be" in checked(Task("transformers/lxmert"))["unfit"]


def test_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """A break, a difference, what does not fit and what torch.compile makes, in a table; only what
    differs makes the run fail."""

    def part(graphs: int, *breaks: str, wrong: str = "") -> dict[str, Any]:
        return {
            "wrong": wrong,
            "graphs": graphs,
            "breaks": dict.fromkeys(breaks, 1),
            "seconds": 0.5,
        }

    answers = {
        Task("one"): {"parts": {"forward": part(1)}},
        Task("two"): {"parts": {"forward": part(2, "B103: a branch"), "training": part(1)}},
        Task("three"): {"parts": {"forward": part(1), "training": part(1, wrong="loss differs")}},
        Task("four"): {"unfit": "cannot be made"},
        Task("two", "torch"): {"parts": {"forward": part(3)}},
    }

    class Answering:
        def __init__(self, *args: object, **settings: object) -> None:
            pass

        def run(self, waiting: deque[Task], done: Any) -> None:
            for task in waiting:
                done(task, answers[task])

    monkeypatch.setattr(run, "Pool", Answering)
    monkeypatch.setattr(run, "asked_of", lambda options: list(answers))
    arguments = ["run", "--file", str(tmp_path / "found.jsonl")]
    monkeypatch.setattr(run.sys, "argv", arguments)
    assert run.main() == 1
    text = capsys.readouterr().out
    assert "3 architectures; 1 cannot be made" in text
    assert "2 (66.7%) without a break" in text
    assert "1 of 1 in at most as many graphs" in text
    assert "1 B103: a branch" in text
    assert "DIFFERS three: training: loss differs" in text
    answers[Task("three")] = answers[Task("one")]
    monkeypatch.setattr(run.sys, "argv", [*arguments, "--resume"])
    assert run.main() == 0
    assert "5 tasks, 1 of them to do" in capsys.readouterr().out
