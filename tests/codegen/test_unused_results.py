"""What computes a result that nothing uses raises as in eager code, and costs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.testing import Comparison, call
from tests.codegen.test_refused_dtypes import calls, differing, overloads, raised
from tests.native.support import needs_llvm

UNUSED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "place": lambda x, at: x[at],
    "places": lambda x, at: x[[5, 0]],
    "gather": lambda x, at: torch.cos(x.gather(0, at)),
    "view of it": lambda x, at: x.index_select(0, at)[None],
    "written to": lambda x, at: (x * 1).index_fill_(0, at, 2.0).add_(1),
    "set": lambda x, at: (x * 1).__setitem__(at, 2.0),
    "boolean number": lambda x, at: x - False,
    "dtypes": lambda x, at: torch.complex(x, x.double()),
    "several": lambda x, at: x[at].max(0),
    "matrix": lambda x, at: torch.linalg.cholesky(-torch.eye(3) * x.sum() - 1),
}


@needs_llvm
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", UNUSED)
def test_raises(name: str, grad: bool, backend: str) -> None:
    def program(x: torch.Tensor, w: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        UNUSED[name](x, at)
        return w * 2

    def arguments(place: int) -> Any:
        x, w = (torch.ones(3).requires_grad_(grad) for _ in range(2))
        return call(x, w, torch.tensor([place]))

    ignored = ("grad_fn", "version", "view", "idle strides") if backend != "eager" else ()
    comparison = Comparison(backend=backend, ignore=ignored)
    comparison.assert_same_calls(program, arguments(1), arguments(5), arguments(2), arguments(3))


@needs_llvm
@pytest.mark.filterwarnings("ignore")
def test_refuses_dtypes() -> None:
    found = []
    for op in overloads():
        refused = (values for values in calls(op) if raised(op, *values) is not None)
        found += [differing(op, values, used=False) for values in list(refused)[:1]]
    assert len(found) > 100
    assert not [each for each in found if each]
