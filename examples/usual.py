"""The usual first examples of torch.compile, with jitpkg: each is run both ways and compared.

python examples/usual.py
"""

import contextlib
import io
import operator

import torch

import jitpkg


def heading(title):
    print(f"\n{title}\n{'-' * len(title)}")


def agree(function, compiled, *args):
    """Both give the same, up to rounding; returns it."""
    torch.manual_seed(1)
    expected = function(*args)
    torch.manual_seed(1)
    result = compiled(*args)
    torch.testing.assert_close(result, expected)
    return result


# One graph


def mse(x, y):
    z = (x - y) ** 2
    return z.sum() / len(z)


def mean_squared_error():
    heading("mse(x, y): one graph")
    x, y = torch.randn(200), torch.randn(200)
    print(f"mse = {agree(mse, jitpkg.compile(mse), x, y):.6f}")
    explanation = jitpkg.explain(mse)(x, y)
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)
    print(explanation.graphs[0].code.strip())


# A guard on a Python number


def fn(x, n):
    y = x**2
    if n >= 0:
        return (n + 1) * y
    return y / n


def branch_on_a_number():
    heading("fn(x, n): a branch on a Python number is decided while tracing")
    compiled = jitpkg.compile(fn)
    made = jitpkg.Explanation()
    with jitpkg.events.STREAM.listening(made.note):
        for n in (2, 3, -2, 7, -5, 2):
            result = agree(fn, compiled, torch.tensor([1.0, 2.0]), n)
            print(f"n = {n:2}: {result.tolist()}, {made.graph_count} graphs by now")
    assert (made.graph_count, made.graph_break_count) == (3, 0)
    tests = [guard for guard in made.out_guards if guard.startswith("n ")]
    assert tests == ["n == 2", "n >= 0", "n < 0"]
    print("guards on n:", *tests, sep="\n  ")


def increased(x, b):
    return x * (b + 1)


def folded_number():
    heading("b + 1: computed while tracing, a constant in the graph")
    x = torch.arange(3.0)
    explanation = jitpkg.explain(increased)(x, 3)
    code = explanation.graphs[0].code.strip()
    assert torch.equal(explanation.result, 4 * x)
    assert explanation.ops_per_graph == [[operator.mul]]
    assert "x * 4" in code
    print(code)


# Graph breaks


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def branch_on_data():
    heading("toy_example(a, b): a branch on data, both ways compiled")
    compiled = jitpkg.compile(toy_example)
    a, positive = torch.randn(10), torch.rand(10)
    made = jitpkg.Explanation()
    with jitpkg.events.STREAM.listening(made.note):
        for title, b in [("b.sum() > 0", positive), ("b.sum() < 0", -positive)] * 2:
            agree(toy_example, compiled, a, b)
            print(f"{title}: right, {made.graph_count} graphs by now")
    assert (made.graph_count, made.graph_break_count) == (3, 1)
    for k, graph in enumerate(made.graphs):
        print(f"\ngraph {k}:\n{graph.code.strip()}")


def output_in_the_middle(x):
    y = x + 1
    print("between the graphs:", y.tolist())
    return y * 2


def printing():
    heading("print: two graphs, and the output at its moment")
    compiled = jitpkg.compile(output_in_the_middle)
    x = torch.zeros(2)
    texts = []
    for function in (output_in_the_middle, compiled, compiled):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            function(x)
        texts.append(said.getvalue())
    assert texts == ["between the graphs: [1.0, 1.0]\n"] * 3
    explanation = jitpkg.explain(output_in_the_middle)(x)
    assert explanation.graph_count == 2
    codes = [b.reason.code for b in explanation.break_reasons]
    assert codes == ["B106"]
    print(f"graphs: {explanation.graph_count}, breaks: {', '.join(codes)}")


def item_branch(x):
    total = x.sum().item()
    if total > 0:
        return x * total
    return x - total


def branch_on_an_item():
    heading(".item(): a number from a tensor")
    compiled = jitpkg.compile(item_branch)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        print(f"{x.tolist()} -> {agree(item_branch, compiled, x).tolist()}")
    explanation = jitpkg.explain(item_branch)(torch.ones(3))
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    print(f"graphs: {explanation.graph_count}, break: {explanation.break_reasons[0].title()}")


def full_graph():
    heading("fullgraph=True raises where there would be a break")
    try:
        jitpkg.compile(toy_example, fullgraph=True)(torch.randn(10), torch.randn(10))
    except jitpkg.errors.GraphBreak as error:
        print(error)
        code = error.graph_break.reason.code
    else:
        code = None
    assert code == "B103"
    agree(mse, jitpkg.compile(mse, fullgraph=True), torch.randn(5), torch.randn(5))
    print("mse, which has none, runs.")


# What the caller sees


def ten_times(a):
    a *= 10


def change_seen_by_the_caller():
    heading("a *= 10: the caller's tensor")
    compiled = jitpkg.compile(ten_times)
    a = torch.arange(3.0)
    view = a[1:]
    assert compiled(a) is None
    assert a.tolist() == [0.0, 10.0, 20.0]
    assert view.tolist() == [10.0, 20.0]
    compiled(a)
    assert a.tolist() == [0.0, 100.0, 200.0]
    print(f"after two calls: {a.tolist()}; a view of it: {view.tolist()}")


def noisy(x):
    return x + torch.nn.functional.dropout(torch.rand_like(x), 0.5)


def random_numbers():
    heading("Random numbers are those of eager code")
    print(agree(noisy, jitpkg.compile(noisy), torch.zeros(3)).tolist())


def training():
    heading("A module: results and gradients")
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    compiled = jitpkg.compile(model)
    x = torch.randn(5, 4)
    agree(model, compiled, x)
    model(x).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    compiled(x).sum().backward()  # the parameters are the model's own
    assert all(torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected, strict=True))
    print(f"{len(expected)} gradients agree; isinstance holds: {type(compiled).__name__}")


if __name__ == "__main__":
    torch.manual_seed(0)
    mean_squared_error()
    branch_on_a_number()
    folded_number()
    branch_on_data()
    printing()
    branch_on_an_item()
    full_graph()
    change_seen_by_the_caller()
    random_numbers()
    training()
    print("\nAll as expected.")
