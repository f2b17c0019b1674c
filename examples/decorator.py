"""`jitpkg.jit` compiles in place: the same function, a new entry for each kind of argument.

python examples/decorator.py
"""

import inspect
import pickle

import torch

import jitpkg


def gelu(x, scale=1.0):
    """The tanh form of GELU, scaled."""
    return scale * 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))


def expected(x, scale=1.0):
    return scale * 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))


def same_function():
    """Whoever holds the function already, holds the compiled one."""
    print("The same function")
    activations = {"gelu": gelu}
    compiled = jitpkg.jit(gelu)
    assert compiled is gelu is activations["gelu"]
    assert str(inspect.signature(gelu)) == "(x, scale=1.0)"
    assert pickle.loads(pickle.dumps(gelu)) is gelu
    print(f"  jit(gelu) is gelu: {compiled is gelu}")
    print(f"  its signature: gelu{inspect.signature(gelu)}")


def entries():
    """What the trace took for granted is guarded; where it does not hold, there is a new entry."""
    print("\nOne entry for each kind of argument")
    vector, matrix = torch.randn(5), torch.randn(2, 3)
    calls = [
        ("float32[5]", (vector,), "traced"),
        ("float32[5] again, other values", (vector + 1,), "found"),
        ("float32[2, 3]", (matrix,), "traced"),
        ("float64[5]", (vector.double(),), "traced"),
        ("float32[5], scale=2.0", (vector, 2.0), "traced"),
        ("float32[2, 3] again", (-matrix,), "found"),
    ]
    for title, args, what_is_expected in calls:
        made = jitpkg.Explanation()
        with jitpkg.events.STREAM.listening(made.note):
            result = gelu(*args)
        torch.testing.assert_close(result, expected(*args))
        what = "traced" if made.graph_count else "found"
        assert what == what_is_expected, title
        print(f"  {title:32} {what}" + "".join(f"\n{'':35}{why}" for why in made.recompiles))


def modules():
    """A module, too, stays the same object, with the same names in its state."""
    print("\nThe same module")
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    before, keys = model(x), list(model.state_dict())
    assert jitpkg.jit(model) is model
    assert torch.equal(model(x), before)
    assert list(model.state_dict()) == keys
    print(f"  jit(model) is model; its state: {', '.join(keys)}")


def options():
    """With arguments, `jit` makes a decorator."""
    print("\nOptions")

    @jitpkg.jit(fullgraph=True, backend="eager")
    def double(x):
        return x + x

    assert torch.equal(double(torch.ones(2)), torch.full((2,), 2.0))
    print(f"  double(ones(2)) = {double(torch.ones(2)).tolist()}")
    try:
        jitpkg.jit(double, backend="eagr")
    except jitpkg.errors.InvalidArgument as error:
        print(f"  {error}")
    else:
        raise AssertionError("a wrong name was accepted")


if __name__ == "__main__":
    torch.manual_seed(0)
    same_function()
    entries()
    modules()
    options()
