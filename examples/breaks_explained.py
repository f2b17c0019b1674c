"""What a graph break is, how `explain` and `fullgraph=True` report it, and how to mend it.

A graph break is no error: Python runs the one instruction that cannot be in a graph, and what lies
before and after it is compiled. It costs some microseconds, and the graphs are smaller.

    python examples/breaks_explained.py
"""

import contextlib
import io

import torch

import jitpkg


def clipped(x):
    """A branch that depends on a tensor's data."""
    norm = (x * x).sum().sqrt()
    if norm > 1:
        x = x / norm
    return x + 1


def clipped_without_branch(x):
    norm = (x * x).sum().sqrt()
    return torch.where(norm > 1, x / norm, x) + 1


def chatty(x):
    """Output in the middle."""
    y = x.exp()
    print("the largest is", round(y.max().item(), 3))
    return y / y.sum()


def centred(x):
    """A Python number that is made of a tensor."""
    mean = round(x.mean().item(), 1)
    return x - mean


def centred_with_tensors(x):
    return x - x.mean().round(decimals=1)


def explain(title, function, *args, code):
    """Print what `explain` says of a function that has breaks of these codes."""
    print(f"{title}\n{'-' * len(title)}")
    explanation = jitpkg.explain(function)(*args)
    assert [b.reason.code for b in explanation.break_reasons] == code
    print(explanation, end="\n\n")
    return explanation


def refuse(function, *args):
    """`fullgraph=True` raises where the function cannot be one graph."""
    print(f"{function.__name__}, with fullgraph=True, raises")
    try:
        jitpkg.compile(function, fullgraph=True)(*args)
    except jitpkg.errors.GraphBreak as error:
        print(f"GraphBreak: {error}\n")
    else:
        raise AssertionError("there should have been a break")


def mend(broken, mended, *args):
    """The mended form is one graph, and does the same."""
    result = jitpkg.compile(mended, fullgraph=True)(*args)
    torch.testing.assert_close(result, broken(*args))
    print(f"{mended.__name__}, with fullgraph=True: one graph, the same result\n")


def output_comes_at_its_moment(x):
    """What is printed appears once for each call, compiled or not."""
    compiled = jitpkg.compile(chatty)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        results = [compiled(x) for _ in range(3)]
        chatty(x)
    lines = said.getvalue().splitlines()
    assert len(lines) == 4
    assert len(set(lines)) == 1
    assert all(torch.equal(result, results[0]) for result in results)
    print(f"Three compiled calls and an eager one each said: {lines[0]}")


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(6)

    explain("A branch on data", clipped, x, code=["B103"])
    refuse(clipped, x)
    mend(clipped, clipped_without_branch, x)

    explain("Output", chatty, x, code=["B104", "B106"])
    output_comes_at_its_moment(x)
    print()

    explain("A number made of a tensor", centred, x, code=["B104"])
    mend(centred, centred_with_tensors, x)
