"""7. `fullgraph=True`: a break is an error that explains itself."""

import pytest
import torch

import jitpkg


def clipped(x):
    norm = x.norm()
    if norm > 1:
        x = x / norm
    return x


def test_the_error_has_four_parts() -> None:
    with pytest.raises(jitpkg.errors.GraphBreak) as caught:
        jitpkg.compile(clipped, fullgraph=True)(torch.ones(4))
    line_number = clipped.__code__.co_firstlineno + 2
    message = [line.strip() for line in str(caught.value).splitlines()]
    what, where, line, caret, why, *_, fix = message
    assert what == "B103: a branch depends on a tensor's data"
    assert where == f'File "{__file__}", line {line_number}, in clipped'
    assert line == "if norm > 1:"
    assert set(caret) == {"^"}
    assert why.startswith("Why: ")
    assert fix.startswith("What to do: ")


def test_the_function_stays_usable() -> None:
    with pytest.raises(jitpkg.errors.GraphBreak):
        jitpkg.compile(clipped, fullgraph=True)(torch.ones(4))
    assert jitpkg.compile(clipped)(torch.ones(4)).tolist() == [0.5] * 4


def test_without_the_break_it_is_one_graph() -> None:
    def clipped_by_tensors(x):
        return torch.where(x.norm() > 1, x / x.norm(), x)

    compiled = jitpkg.compile(clipped_by_tensors, fullgraph=True)
    assert compiled(torch.ones(4)).tolist() == [0.5] * 4


def test_leaving_by_an_exception_is_no_break() -> None:
    def refuses(x):
        raise ValueError(f"{x.shape[0]} is too short")

    with pytest.raises(ValueError, match="3 is too short"):
        jitpkg.compile(refuses, fullgraph=True)(torch.ones(3))
