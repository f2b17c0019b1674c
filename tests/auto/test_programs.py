"""Whole programs that were not written for jitpkg print the same, number for number."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.auto.support import HOOKED, ROOT, run, same

SCRIPTS = Path(__file__).parent / "scripts"


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"no {module}")


def compiled(folder: Path, *arguments: str) -> set[str]:
    """The functions of which a graph is compiled."""
    ended = run(folder, *HOOKED, *arguments, JITPKG_LOGS="graphs")
    return set(re.findall(r"^\[jitpkg\.graphs\] (\S+)#\d+: graph", ended.err, re.MULTILINE))


@pytest.mark.slow
@needs("transformers")
def test_fine_tuning_a_transformer(tmp_path: Path) -> None:
    script = str(SCRIPTS / "finetune_bert.py"), "--epochs", "1"
    assert "epoch 0: train 0." in same(tmp_path, *script).out
    assert compiled(tmp_path, *script) >= {"accuracy", "to_device", "Sentences.__getitem__"}


@pytest.mark.slow
@needs("sklearn")
def test_a_pipeline_of_scikit_learn_that_ends_in_a_network(tmp_path: Path) -> None:
    script = str(SCRIPTS / "sklearn_pipeline.py")
    assert "weighted avg" in same(tmp_path, script).out
    assert "TorchClassifier.decision_function" in compiled(tmp_path, script)


@pytest.mark.slow
@needs("sklearn")
def test_the_demo(tmp_path: Path) -> None:
    """It prints times, and counts what is compiled, which is more with the hook."""
    plain, hooked = (
        run(tmp_path, *hook, str(ROOT / "examples" / "digits.py"), "--quick")
        for hook in ((), HOOKED)
    )
    assert plain.status == hooked.status == 0
    assert results(plain.out) == results(hooked.out)
    assert len(results(plain.out)) == 4


def results(text: str) -> list[str]:
    return re.findall(r"^ +\d+ +\d+\.\d+ .*|^Losses, .*", text, re.MULTILINE)


DYNAMO = """
import torch

def inner(x):
    return x.cos() * 2

class Net(torch.nn.Module):
    def forward(self, x):
        return inner(x).sin() + inner(x)

compiled = torch.compile(Net(), backend="eager", fullgraph=True)
for k in range(4):
    print(compiled(torch.ones(2) * k), Net()(torch.ones(2)), inner(torch.ones(2)))
print(torch.export.export(Net(), (torch.ones(2),)).graph_module.code)
"""


@pytest.mark.slow
def test_a_program_that_uses_dynamo(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(DYNAMO, encoding="utf-8")
    assert not same(tmp_path, "program.py").status


MODEL = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, t, c)

def smoothed(x, k=3):
    if k < 1:
        raise ValueError(f"k is {k}")
    return torch.stack([x.roll(i, 0) for i in range(k)]).mean(0)
"""

TESTS = """
import pytest
import torch
from package import Attention, smoothed

@pytest.fixture(params=[1, 2, 4])
def heads(request):
    torch.manual_seed(0)
    return request.param

def far(a, b):
    return (a - b).abs().max()

@pytest.mark.parametrize("t", [1, 3, 5])
def test_causal(heads, t):
    model, x = Attention(8, heads), torch.randn(2, t, 8)
    y = model(x)
    assert far(y[:, :1], model(x[:, :1])) < 1e-6
    y.sum().backward()
    assert all(p.grad is not None for p in model.parameters())

@pytest.mark.parametrize("k", range(4))
def test_smoothed(k):
    x = torch.arange(4.0)
    if not k:
        with pytest.raises(ValueError, match="k is 0"):
            smoothed(x, k)
        return
    assert smoothed(x, k).sum() == x.sum()

def test_that_fails():
    expected = {"mean": smoothed(torch.ones(2)), "why": [1, 2, 3]}
    assert expected["why"] == [1, 2, 4], "a message"

@pytest.mark.xfail(strict=True)
def test_expected():
    assert smoothed(torch.ones(3)).sum() == 4

def test_skipped():
    pytest.skip("not today")
"""


CONFTEST = """
import pathlib, sys

def pytest_report_header():
    return "a header"

if "jitpkg" in sys.modules:
    from jitpkg import events

    def note(event):
        if isinstance(event, events.GraphCompiled):
            with (pathlib.Path(__file__).parent / "compiled.txt").open("a") as file:
                print(event.function, file=file)

    listening = events.STREAM.listening(note)
    listening.__enter__()
"""


def test_the_tests_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from package.model import *", "utf-8")
    (tmp_path / "package" / "model.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_package.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    arguments = ("-m", "pytest", "-v", "-p", "no:randomly", "-p", "no:cacheprovider")
    plain, hooked = run(tmp_path, *arguments), run(tmp_path, *HOOKED, *arguments)
    assert (hooked.status, without_times(hooked.out)) == (1, without_times(plain.out))
    assert hooked.err == plain.err
    assert "1 failed, 13 passed, 1 skipped, 1 xfailed" in plain.out
    assert "assert [1, 2, 3] == [1, 2, 4]" in plain.out
    noted = (tmp_path / "compiled.txt").read_text("utf-8").split()
    assert set(noted) >= {"Attention.forward", "smoothed", "test_causal"}


def without_times(text: str) -> str:
    return re.sub(r"=+ (.*) in \d+\.\d+s.*", r"\1", text)  # the line is filled up to its width
