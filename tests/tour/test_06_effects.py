"""6. A trace changes nothing: it writes down what to do.

While a function is traced, its changes to lists, dicts and objects are noted. The entry replays
them as the same operations, in the same order, behind the graph, when nothing can fail any more.
"""

import pytest
import torch

import jitpkg


class Counter:
    def __init__(self):
        self.calls = 0


def step(x, log, counter):
    counter.calls += 1
    y = x * 2
    log.append(y)
    log.sort(key=lambda t: t.shape[0], reverse=True)
    return y.sum()


def test_changes_are_made_once_by_every_call() -> None:
    log: list[torch.Tensor] = []
    counter = Counter()
    compiled = jitpkg.compile(step)
    for size in (1, 3, 2):
        compiled(torch.ones(size), log, counter)
    assert counter.calls == 3
    assert [len(t) for t in log] == [3, 2, 1]


def test_the_entry_replays_them() -> None:
    (source,) = jitpkg.explain(step)(torch.ones(2), [], Counter()).sources.values()
    lines = [line.strip() for line in source.splitlines()]
    graph = next(k for k, line in enumerate(lines) if "= graph(" in line)
    effects = [
        next(k for k, line in enumerate(lines) if start in line)
        for start in ("set_attribute(counter, 'calls'", "log.append(mul)", "setitem(log, ")
    ]
    assert effects == sorted(effects)
    assert graph < effects[0]


def test_tensors_are_changed_in_the_graph() -> None:
    """Where the order matters to other tensors that share the memory."""

    def grow(x):
        x *= 10
        return x[:1] + 1

    (graph,) = jitpkg.explain(grow)(torch.ones(2)).graphs
    operations = [node.name for node in graph.graph.nodes if node.op.startswith("call")]
    assert operations == ["imul", "getitem", "add"]

    argument = torch.ones(2)
    jitpkg.compile(grow)(argument)
    assert argument.tolist() == [10, 10]


def test_if_the_graph_fails_what_came_before_has_happened() -> None:
    """And nothing else, as if Python had run the function line by line."""

    def lookup(x, index, log):
        log.append("begins")
        x.add_(1)
        row = x[index]
        log.append("never")
        return row

    x, log = torch.zeros(2), []
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        jitpkg.compile(lookup)(x, torch.tensor([5]), log)
    assert x.tolist() == [1, 1]
    assert log == ["begins"]
