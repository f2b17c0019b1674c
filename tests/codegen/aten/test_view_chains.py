"""Views of views become one view; other calls are left alone, however they are written."""

import pytest
import torch

import jitpkg


def test_a_view_of_a_call_by_keyword_alone() -> None:
    pytest.importorskip("llvmlite")

    def f(x, at):
        return torch.take_along_dim(input=x, indices=at, dim=1)[:, 0] + 1

    x, at = torch.randn(2, 3), torch.tensor([[1], [2]])
    assert torch.equal(jitpkg.compile(f, backend="jitpkg")(x, at), f(x, at))
