"""1. A function that computes with tensors becomes one graph.

`explain(fn)(*args)` compiles a function, calls it once for real, and tells what came of it.
"""

import torch

import jitpkg


def gate(x, scale, activation="relu"):
    """Python decides, tensors compute."""
    y = x * scale
    for shift in (1, 2):
        y = y + shift
    return y.relu() if activation == "relu" else y.tanh()


def test_the_tensor_operations_are_the_graph() -> None:
    explanation = jitpkg.explain(gate)(torch.tensor([-5.0, 1.0]), 2)

    # The call was made for real.
    assert explanation.result.tolist() == [0.0, 5.0]

    # Of the function, only what happens to tensors is left: the loop is unrolled, the branch is
    # taken, the numbers are constants.
    (graph,) = explanation.graphs
    assert graph.code.strip().splitlines() == [
        "def forward(self, x):",
        "    mul = x * 2;  x = None",
        "    add = mul + 1;  mul = None",
        "    add_1 = add + 2;  add = None",
        "    relu = add_1.relu();  add_1 = None",
        "    return (relu,)",
    ]
    assert explanation.graph_break_count == 0


def test_calls_are_followed() -> None:
    """Functions that are called, of the program or of torch, become part of the graph."""

    def model(x):
        return torch.nn.functional.gelu(gate(x, 3, activation="tanh"))

    (graph,) = jitpkg.explain(model)(torch.ones(2)).graphs
    operations = [node.name for node in graph.graph.nodes if node.op.startswith("call")]
    assert operations == ["mul", "add", "add_1", "tanh", "gelu"]


def test_jit_works_in_place_and_compile_makes_another_function() -> None:
    def f(x):
        return x + 1

    assert jitpkg.jit(f) is f
    assert jitpkg.compile(f) is not f


def test_without_tensors_nothing_is_compiled() -> None:
    """There is nothing to gain, so Python runs the function as it always did."""
    explanation = jitpkg.explain(lambda a, b: a + b)(1, 2)
    assert explanation.result == 3
    assert explanation.graphs == []
