"""Every function that rows answer for comes to the ATen ops that eager code runs: bit for bit."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import pytest
import torch
from torch import fx
from torch.utils import _pytree as pytree

from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.runtime import op_by_op
from jitpkg.facts.single import Singles, Unanswered
from jitpkg.facts.tensor import TensorFacts
from tests.codegen.aten.support import check
from tests.facts.cases import CASES
from tests.facts.examples import Case, method


def tensor(facts: TensorFacts, k: int) -> torch.Tensor:
    reach = sum((n - 1) * step for n, step in zip(facts.size, facts.stride, strict=True)) + 1
    values = torch.arange(max(reach, 1)) % 7 / 4 + k / 8
    if not facts.dtype.is_floating_point:
        values = torch.arange(max(reach, 1)) % 2
    return values.to(facts.dtype).as_strided(facts.size, facts.stride)


def leaves_of(case: Case) -> tuple[list[Any], Any]:
    return pytree.tree_flatten(
        (case.args, case.kwargs), is_leaf=lambda leaf: isinstance(leaf, TensorFacts)
    )


def inputs_of(case: Case) -> list[torch.Tensor]:
    leaves, _ = leaves_of(case)
    distinct = {id(leaf): leaf for leaf in leaves if isinstance(leaf, TensorFacts)}
    return [tensor(facts, k) for k, facts in enumerate(distinct.values())]


def graph_of(case: Case, results: int) -> fx.GraphModule:
    """A graph of one call that returns so many tensors, or 0 for one that is in no tuple."""
    graph = fx.Graph()
    leaves, spec = leaves_of(case)
    known: dict[int, fx.Node] = {}
    for leaf in leaves:
        if isinstance(leaf, TensorFacts) and id(leaf) not in known:
            known[id(leaf)] = graph.placeholder(f"x{len(known)}")
    args, kwargs = pytree.tree_unflatten([known.get(id(leaf), leaf) for leaf in leaves], spec)
    if case.call.__module__ == method.__module__:
        node = graph.call_method(case.name, args, kwargs)
    else:
        node = graph.call_function(case.call, args, kwargs)
    items = [graph.call_function(operator.getitem, (node, k)) for k in range(results)]
    graph.output(tuple(items) or (node,))
    return fx.GraphModule(torch.nn.Module(), graph)


def seen(results: Any, inputs: list[torch.Tensor]) -> list[Any]:
    """What there is to compare; of each tensor its bits, so that NaN is NaN."""
    return [
        (x.dtype, x.shape, x.stride(), x.contiguous().reshape(-1).view(torch.uint8).tolist())
        for x in (*pytree.tree_leaves(results), *inputs)
        if isinstance(x, torch.Tensor)
    ]


UNINITIALISED = {"empty", "empty_like", "new_empty"}
NAMES = sorted({case.name for case in CASES} - UNINITIALISED)


MOST = 50
"""Cases that are tried of each function, about."""


@pytest.mark.parametrize("name", NAMES)
def test_as_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_asked(*given: Any) -> None:
        raise Unanswered

    monkeypatch.setattr(Singles, "_outcome", not_asked)
    tried = 0
    cases = [each for each in CASES if each.name == name]
    for case in cases[:: 1 + len(cases) // MOST]:
        given = inputs_of(case)
        leaves, spec = leaves_of(case)
        tensors = {id(f): None for f in leaves if isinstance(f, TensorFacts)}
        stands = dict(zip(tensors, given, strict=True))
        args, kwargs = pytree.tree_unflatten([stands.get(id(f), f) for f in leaves], spec)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            try:
                expected = case.call(*args, **kwargs)
            except Exception:  # such calls do not come into a graph
                continue
            count = len(expected) if isinstance(expected, tuple | list) else 0
            prepared = prepare(graph_of(case, count), inputs_of(case))
            if isinstance(prepared, str):
                continue
            check(prepared)
            inputs = inputs_of(case)
            torch.manual_seed(0)
            found = op_by_op(prepared)(*inputs)
        tried += 1
        assert seen(found, inputs) == seen(expected, given), (case, prepared.graph)
    assert tried
