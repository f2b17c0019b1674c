"""10. A graph is run by a backend; a model is compiled like a function.

A backend is any callable that takes a `torch.fx.GraphModule` and example inputs, and returns
something that computes the same.
"""

import pytest
import torch
from torch import nn

import jitpkg


def test_a_backend_of_ones_own() -> None:
    seen = []

    def counting(graph, examples):
        seen.append((len(graph.graph.nodes), [tuple(t.shape) for t in examples]))
        return graph.forward

    def f(x, y):
        return (x * y).sum()

    compiled = jitpkg.compile(f, backend=counting)
    assert compiled(torch.ones(3), torch.ones(3)).item() == 3
    assert compiled(torch.ones(3), torch.zeros(3)).item() == 0
    assert seen == [(5, [(3,), (3,)])]


def test_backends_have_names() -> None:
    assert "eager" in jitpkg.list_backends()
    with pytest.raises(jitpkg.errors.InvalidArgument, match="eager"):
        jitpkg.compile(lambda x: x, backend="eagre")


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layers(x))


def losses(model: nn.Module, compiled: nn.Module) -> list[float]:
    """Of a few steps of training."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    found = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def new_model() -> Classifier:
    torch.manual_seed(1)
    return Classifier()


def test_training_is_the_same_bit_for_bit() -> None:
    eager = new_model()
    model = new_model()
    compiled = jitpkg.compile(model)
    assert losses(model, compiled) == losses(eager, eager)
    assert compiled.state_dict().keys() == eager.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(value, eager.state_dict()[name]), name


def test_a_model_is_one_graph() -> None:
    explanation = jitpkg.explain(new_model())(torch.randn(16, 4))
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)
