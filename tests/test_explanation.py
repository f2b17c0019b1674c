"""What `explain` tells: counts, and a text that reads well on a terminal."""

import enum
import re
from pathlib import Path

import pytest
import torch
from torch.overrides import TorchFunctionMode

import jitpkg
from jitpkg import events
from jitpkg.explanation import Explanation

SCALE = 2.0


def clipped(x, mode="twice"):
    norm = (x * x).sum().sqrt()
    is_long = norm > 1
    if is_long:
        x = x / norm
    return x * SCALE if mode == "twice" else x


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(k for k, line in enumerate(lines) if line.strip() == text)


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d ms", "… ms", text)


TEXT = """\
2 graphs with 6 ops, 1 graph break, 16 guards

Graphs
  clipped#0  4 ops  mul, sum, sqrt, gt
  clipped#1  2 ops  truediv, mul

Graph breaks
  B103: a branch depends on a tensor's data
    {file}:{line}, in clipped
        if is_long:
           ^^^^^^^
    Why: Which way the program goes is known only when the tensor has been computed. The graph ends
         here; each way is compiled when it is first taken. Where one way only raises, or 16 calls
         in a row went the same way, the graph goes on, and the branch is looked at when it has run.
    What to do: Where both ways are cheap, compute both and choose with torch.where.

Guards
  x: float32[3]
  mode == 'twice'
  SCALE == 2.0
  norm: float32[]
  and 12 more of functions, classes, containers and global state

Times
  tracing … ms, backend … ms, generating code … ms"""


def test_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    explanation = jitpkg.explain(clipped)(torch.ones(3))
    made = without_times(str(explanation))
    expected = TEXT.format(file="tests/test_explanation.py", line=line_of("if is_long:"))
    varying = re.compile(r"\d+ (?=guards|more)| *\^+")
    assert varying.sub("…", made) == varying.sub("…", expected)
    assert "^^^^" in made
    assert max(map(len, made.splitlines())) <= 100


def test_counts() -> None:
    explanation = jitpkg.explain(clipped)(torch.ones(3))
    assert explanation.graph_count == len(explanation.graphs) == 2
    assert explanation.graph_names == ["clipped#0", "clipped#1"]
    assert explanation.op_count == 6
    assert explanation.graph_break_count == 1
    assert explanation.break_reasons[0].reason.code == "B103"
    assert list(explanation.compile_times) == ["tracing", "backend", "generating code"]
    assert list(explanation.sources) == ["clipped#0", "clipped#1"]
    assert all(source.startswith("def entry(") for source in explanation.sources.values())
    assert "x: float32[3]" in explanation.out_guards
    torch.testing.assert_close(explanation.result, clipped(torch.ones(3)))


def test_later_calls_tell_why_they_compiled_again() -> None:
    explained = jitpkg.explain(clipped)
    explained(torch.ones(3))
    again = explained(torch.ones(4), mode="once")
    assert again.recompiles[0] == "clipped, because x has size 4 in dim 0; built for 3"
    assert "\nCompiled again\n  clipped, because x has size 4 in dim 0; built for 3\n" in str(again)
    third = explained(torch.ones(3))
    assert str(third) == "No new graph, 0 graph breaks"


def test_a_module_is_called_by_its_class() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    explanation = jitpkg.explain(model)(torch.ones(2))
    assert explanation.graph_names == ["Sequential#0"]
    assert "self[0].weight: float32[2, 2], requires grad" in str(explanation)


def test_globals_of_modules_are_named() -> None:
    explanation = jitpkg.explain(torch.nn.ReLU())(torch.ones(2))
    text = "\n".join(explanation.out_guards)
    assert "torch.nn.modules.activation.F is torch.nn.functional" in text
    assert "<dict>" not in text


def many(x, *numbers):
    return x + sum(numbers)


def test_long_lists_are_cut() -> None:
    text = str(jitpkg.explain(many)(torch.ones(2), *range(30)))
    assert "\n  … 19 more of tensors and values\n" in text


def nothing(x):
    return 3


def test_nothing_to_compile() -> None:
    assert str(jitpkg.explain(nothing)(torch.ones(2))).startswith("No new graph, 0 graph breaks")


def test_sentences_do_not_run_the_program() -> None:
    """The text of an object is made by the program's code; a half-made one may have none yet."""

    class Loud(int):
        def __repr__(self) -> str:
            raise AssertionError("asked for its text")

    class Flags(enum.IntFlag):
        A = 1
        B = 2
        C = 4

    @jitpkg.jit
    def f(x: torch.Tensor, key: object, made: int) -> object:
        return (x + 1 if key in (1, 2) else x - 1), Flags(made)

    x = torch.ones(2)
    for key, made in [(Loud(1), 3), (Loud(2), 5), ((Loud(3),), 6), (Loud(1), 7)]:
        y, flags = f(x, key, made)
        torch.testing.assert_close(y, x + 1 if key in (1, 2) else x - 1)
        assert flags is Flags(made)


def sentences(made: jitpkg.Explanation) -> list[str]:
    return [text.partition(", because ")[2] for text in made.recompiles]


def test_the_sentences_of_keys_settings_and_numbers() -> None:
    def f(x, n=1, **kwargs):
        return x * n if n > 3 else x + n + sum(kwargs.values())

    explained = jitpkg.explain(f)
    x = torch.ones(3)
    explained(x, scale=2)
    assert sentences(explained(x, size=2)) == [
        "kwargs has the keys 'size'; built for the keys 'scale'",
    ]
    with torch.no_grad():
        assert sentences(explained(x, scale=2)) == [
            "a global setting of torch has changed: grad mode",
            "kwargs has the keys 'scale'; built for the keys 'size'",
        ]
    other = jitpkg.explain(f)
    other(x, 2), other(x, 3)
    assert sentences(other(x, 7)) == ["n is 7; built for 2", "n is 7; built for n <= 3"]


def test_a_reason_that_several_entries_have_is_told_once() -> None:
    def f(x, n):
        return x + 1 if n == "a" else x + 2

    explained = jitpkg.explain(f)
    for n in ("a", "b", "c"):
        explained(torch.ones(3), n)
    made = explained(torch.ones(3).double(), "c")
    made.recompiles *= 2
    assert len(made.recompiles) == 6
    told = str(made).partition("Compiled again\n")[2].partition("\n\n")[0]
    assert told.count("because") == 3


class Passing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_what_is_in_the_way_of_compiling() -> None:
    explain = jitpkg.explain(lambda x: x + 1)
    with Passing():
        explanation = explain(torch.ones(3))
    assert explanation.obstacle == "a torch-function mode is active"
    assert str(explanation) == (
        "No new graph, 0 graph breaks: nothing is compiled while a torch-function mode is active"
    )
    assert str(explain(torch.ones(3))).startswith("1 graph")


class Printing(torch.nn.Module):
    def forward(self, x):
        print("here")
        return x + 1


def test_calls_of_modules_are_left_out_of_the_stack() -> None:
    net = torch.nn.Sequential(Printing())
    text = str(jitpkg.explain(net)(torch.ones(3)))
    places = [line.strip() for line in text.splitlines() if re.search(r":\d+, in ", line)]
    assert [place.rpartition(" ")[2] for place in places] == ["forward"] * 2
    assert all("_call_impl" not in line for line in text.splitlines())


def test_kernels_for_a_gpu_say_what_they_take_of_it_and_which_fail() -> None:
    explanation = Explanation()
    for event in (
        events.KernelCompiled("softmax", "the text", 0.1, "32 registers, 16 bytes shared", "alone"),
        events.KernelFailed("sort", "its text", "ptxas gave up.", "alone, too"),
        events.Fused("f", (events.Kernel("softmax", ("exp", "sum"), 2048),), ("sort",)),
    ):
        explanation.note(event)
    shown = str(explanation)
    assert "softmax  exp, sum; moves 2 KiB; 32 registers, 16 bytes shared\n" in shown
    assert 'sort cannot be used: ptxas gave up. scripts["sort"] runs it alone.' in shown
    assert explanation.scripts == {"softmax": "alone", "sort": "alone, too"}
    assert explanation.kernel_sources["sort"] == "its text"
