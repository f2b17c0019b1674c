"""4. A graph break: what cannot be traced is done by Python, between two graphs.

The function is not given up. The code before the break is one region, the code behind it is
another, each with graphs and guards of its own.
"""

import pytest
import torch

import jitpkg


def chatty(x):
    y = x * 2
    print("the sum is about to be taken")
    return y.sum()


def test_there_is_a_graph_on_each_side(capsys) -> None:
    explanation = jitpkg.explain(chatty)(torch.ones(3))
    assert capsys.readouterr().out == "the sum is about to be taken\n"

    names = [[node.name for node in graph.graph.nodes] for graph in explanation.graphs]
    assert names == [["x", "mul", "output"], ["y", "sum_1", "output"]]


def test_a_break_says_what_where_why_and_what_to_do() -> None:
    (broke,) = jitpkg.explain(chatty)(torch.ones(3)).break_reasons
    assert broke.reason.code == "B106"
    assert broke.reason.title == "something is printed"
    assert broke.reason.why.startswith("Output has to appear at its moment")
    assert broke.reason.fix.startswith("Return what is to be printed")
    assert broke.where is not None
    assert broke.where.file == __file__
    assert broke.where.line == chatty.__code__.co_firstlineno + 2


def test_a_branch_on_data_is_a_break_with_both_ways_compiled() -> None:
    def toy(a, b):
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    heard: list[jitpkg.events.Event] = []
    compiled = jitpkg.compile(toy)
    with jitpkg.events.STREAM.listening(heard.append):
        compiled(torch.ones(2), torch.ones(2))
        compiled(torch.ones(2), -torch.ones(2))
    (broke,) = [event for event in heard if isinstance(event, jitpkg.events.Broke)]
    assert broke.graph_break.reason.title == "a branch depends on a tensor's data"
    graphs = [e.graph for e in heard if isinstance(e, jitpkg.events.GraphCompiled)]
    operations = [[n.name for n in g.graph.nodes if n.op.startswith("call")] for g in graphs]
    before, *behind = operations
    assert before[:4] == ["abs_1", "add", "truediv", "sum_1"]  # up to the branch
    assert behind == [
        ["mul"],  # `return x * b`, where the branch is not taken
        ["mul", "mul_1"],  # and where it is
    ]


def test_what_raises_is_left_to_python() -> None:
    """So the exception comes from the real line, with the real message."""

    def wrong(x):
        return x @ torch.ones(7)

    with pytest.raises(RuntimeError) as caught:
        jitpkg.jit(wrong)(torch.ones(3))
    last = caught.traceback[-1]
    assert last.name == "wrong"
    assert str(last.statement).strip() == "return x @ torch.ones(7)"
