"""`assert_same` passes what is the same, and fails for each kind of difference it claims to see."""

from __future__ import annotations

import collections
import functools
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from jitpkg.testing import Comparison, NotTheSame, assert_same, call
from tests.testing.doing import (
    Counter,
    Failing,
    class_counting,
    counting,
    drawing,
    has_gradient,
    in_inference_mode,
    keeping,
    noted,
    nothing,
    ones,
    printing,
    raising,
    raising_inside,
    warning,
    while_handling,
    with_cause,
    with_value,
    written,
)

# What is wrong in one way. Each is (what is compared, what `compiled` is in its place, arguments,
# what the message must say).

Case = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...], str]


def wrong(**cases: Case) -> Any:
    return pytest.mark.parametrize(
        ("right", "other", "args", "said"), cases.values(), ids=cases.keys()
    )


W = torch.tensor([1.0, 2.0, 4.0])


@wrong(
    values=(
        lambda x: x * W,
        lambda x: x * W * torch.tensor([1, 1, 1.5]),
        (ones(2, 3),),
        "2 of 6 elements differ, most at [0, 2]: 4 eagerly, 6 compiled (off by 2, relatively 0.5)",
    ),
    last_bit=(
        lambda x: x + 0.1,
        lambda x: torch.nextafter(x + 0.1, torch.tensor(9.0)),
        (ones(1),),
        "1 of 1 element differs at [0]: 1.10000002 eagerly, 1.10000014 compiled (off by 1.19e-07",
    ),
    scalar=(lambda x: x.sum(), lambda x: x.sum() + 1, (ones(2),), "differs: 2 eagerly, 3 compiled"),
    signed_zero=(lambda x: x * 0, lambda x: x * -0.0, (ones(1),), "0 eagerly, -0 compiled"),
    nan=(lambda x: x / 0, lambda x: x * 0 / 0, (ones(1),), "inf eagerly, nan compiled"),
    integers=(lambda x: x.long(), lambda x: x.long() + 2, (ones(1),), "1 eagerly, 3 compiled (off"),
    booleans=(lambda x: x > 0, lambda x: x < 0, (ones(1),), "True eagerly, False compiled"),
    complex=(lambda x: x * 1j, lambda x: x * 2j, (ones(1),), "1j eagerly, 2j compiled (off by 1"),
    dtype=(
        lambda x: x + 1,
        lambda x: x.double() + 1,
        (ones(1),),
        "torch.float32 eagerly, torch.float64",
    ),
    shape=(lambda x: x + 1, lambda x: x[None] + 1, (ones(2),), "shape: (2,) eagerly, (1, 2)"),
    strides=(
        lambda x: x + 1,
        lambda x: (x.T.contiguous() + 1).T,
        (ones(2, 3),),
        "result, strides: (3, 1) eagerly, (1, 2) compiled",
    ),
    strides_that_no_element_uses=(
        lambda x: x + 1,
        lambda x: (x + 1).as_strided((2, 1), (1, 7)),
        (ones(2, 1),),
        "result, idle strides: (0, 1) eagerly, (0, 7) compiled",
    ),
    layout=(
        lambda x: x + 1,
        lambda x: (x + 1).to_sparse(),
        (ones(2, 3),),
        "result, layout: torch.strided eagerly, torch.sparse_coo compiled",
    ),
    conjugate_bit=(
        lambda x: x.conj(),
        lambda x: x.conj().resolve_conj(),
        (ones(2) * 1j,),
        "result, lazy: conj True, neg False eagerly, conj False, neg False compiled",
    ),
    negative_bit=(
        lambda x: x.conj().imag,
        lambda x: x.conj().imag.resolve_neg(),
        (ones(2) * 1j,),
        "result, lazy: conj False, neg True eagerly, conj False, neg False compiled",
    ),
    inference=(
        lambda x: x + 1,
        in_inference_mode,
        (ones(2),),
        "result, version: 0 writes eagerly, inference compiled",
    ),
    device=(lambda x: x + 1, lambda x: (x + 1).to("meta"), (ones(2),), "device: cpu eagerly, meta"),
    requires_grad=(
        lambda x: x * 2,
        lambda x: (x * 2).detach(),
        (ones(2, requires_grad=True),),
        "result, requires_grad: True eagerly, False compiled",
    ),
    grad_fn=(
        lambda x: x * 2,
        lambda x: x + x.detach(),
        (ones(2, requires_grad=True),),
        "result, grad_fn: MulBackward0 eagerly, AddBackward0 compiled",
    ),
    leaf=(
        lambda x: x * 2,
        lambda x: (x * 2).detach().requires_grad_(),
        (ones(2, requires_grad=True),),
        "leaf compiled",
    ),
    subclass=(
        lambda x: torch.nn.Parameter(x),
        lambda x: x.detach().requires_grad_(),
        (ones(2),),
        "result, type: Parameter eagerly, Tensor compiled",
    ),
    gradient=(
        lambda x: x * 2,
        lambda x: x * 2 + (x - x.detach()),
        (ones(2, requires_grad=True),),
        "argument x.grad, values: 2 of 2 elements differ, most at [0]: 2 eagerly, 3 compiled",
    ),
    strides_of_gradient=(
        lambda x: has_gradient(x, 3, 1),
        lambda x: has_gradient(x, 1, 2),
        (ones(2, 3, requires_grad=True),),
        "argument x.grad, strides: (3, 1) eagerly, (1, 2) compiled",
    ),
    same_gradient=(
        lambda x, y: setattr(x, "grad", y),
        lambda x, y: setattr(x, "grad", y.clone()),
        (ones(2, requires_grad=True), ones(2)),
        "argument y, identity: is argument x.grad eagerly, is an object of its own compiled",
    ),
    no_gradient=(
        lambda x, y: x * 2 + y,
        lambda x, y: x * 2 + y.detach(),
        (ones(2, requires_grad=True), ones(2, requires_grad=True)),
        "argument y.grad, identity: is an object of its own eagerly, nothing compiled",
    ),
    attribute_of_tensor=(
        lambda x: setattr(x, "note", 1),
        lambda x: setattr(x, "note", 2),
        (ones(1),),
        "argument x.note, value: 1 eagerly, 2 compiled",
    ),
    number=(lambda x: 1.5, lambda x: 2.0, (0,), "result, value: 1.5 eagerly, 2.0 compiled (off by"),
    kind_of_number=(lambda x: 1, lambda x: 1.0, (0,), "result, value: 1 eagerly, 1.0 compiled"),
    one_and_true=(lambda x: 1, lambda x: True, (0,), "value: 1 eagerly, True compiled"),
    text=(lambda x: "a", lambda x: "b", (0,), "value: 'a' eagerly, 'b' compiled"),
    structure=(lambda x: [x], lambda x: (x,), (0,), "result, type: list eagerly, tuple compiled"),
    length=(lambda x: [1, 2], lambda x: [1], (0,), "result, length: 2 eagerly, 1 compiled"),
    keys=(
        lambda x: {"a": 1, "b": 2},
        lambda x: {"a": 1, "c": 2},
        (0,),
        "result, keys: 'a', 'b' eagerly, 'a', 'c' compiled",
    ),
    order_of_keys=(
        lambda x: {"a": 1, "b": 2},
        lambda x: {"b": 2, "a": 1},
        (0,),
        "result, keys: 'a', 'b' eagerly, 'b', 'a' compiled",
    ),
    set_of=(
        lambda x: {1, 2},
        lambda x: {1, 3},
        (0,),
        "result item 1, value: 2 eagerly, 3 compiled",
    ),
    items_of_iterator=(
        lambda x: iter([1, 2]),
        lambda x: iter([1, 3]),
        (0,),
        "result item 1, value: 2 eagerly, 3 compiled",
    ),
    end_of_iterator=(
        lambda x: iter([1]),
        lambda x: iter([1, 3]),
        (0,),
        "result, length: 1 eagerly, 2 compiled",
    ),
    maxlen=(
        lambda x: collections.deque([1], 3),
        lambda x: collections.deque([1]),
        (0,),
        "result, maxlen: 3 eagerly, None compiled",
    ),
    default_factory=(
        lambda x: collections.defaultdict(list),
        lambda x: collections.defaultdict(dict),
        (0,),
        "result.default_factory, name: list eagerly, dict compiled",
    ),
    array=(
        lambda x: np.zeros(x),
        lambda x: np.ones(x),
        (2,),
        "result, values: 2 of 2 elements differ",
    ),
    array_in_memory=(
        lambda x: np.zeros((2, x)),
        lambda x: np.zeros((x, 2)).T,
        (2,),
        "result, strides: (16, 8) eagerly, (8, 16) compiled",
    ),
    partial=(
        lambda x: functools.partial(max, 1),
        lambda x: functools.partial(max, 2),
        (0,),
        "result.args[0], value: 1 eagerly, 2 compiled",
    ),
    method=(
        lambda x: x.append,
        lambda x: [1].append,
        ([0],),
        "result.__self__, identity: is argument x eagerly, is an object of its own compiled",
    ),
    function=(
        lambda x: ones,
        lambda x: with_cause,
        (0,),
        "result, name: ones('shape', 'settings')",
    ),
    deep_inside=(
        lambda x: {"a": [0, (x, {"k": 1})]},
        lambda x: {"a": [0, (x, {"k": 2})]},
        (0,),
        "result['a'][1][1]['k'], value: 1 eagerly, 2 compiled",
    ),
    attribute=(
        lambda x: setattr(x, "n", 1),
        lambda x: setattr(x, "n", 2),
        (Counter(),),
        "argument x.n, value: 1 eagerly, 2 compiled",
    ),
    raises=(
        lambda x: x,
        raising(ValueError, "boom"),
        (0,),
        "result, raised: nothing eagerly, ValueError: boom compiled",
    ),
    raises_not=(
        raising(ValueError, "boom"),
        lambda x: x,
        (0,),
        "ValueError: boom eagerly, nothing",
    ),
    exception_type=(
        raising(KeyError, 1),
        raising(IndexError, 1),
        (0,),
        "result, raised: KeyError: 1 eagerly, IndexError: 1 compiled",
    ),
    exception_message=(raising(KeyError, 1), raising(KeyError, 2), (0,), "KeyError: 2 compiled"),
    exception_cause=(
        raising(ValueError, "no"),
        with_cause,
        (0,),
        "result, exception.__cause__, identity: nothing eagerly",
    ),
    exception_context=(
        raising(ValueError, "no"),
        while_handling,
        (0,),
        "result, exception.__context__, identity: nothing eagerly",
    ),
    exception_attribute=(
        with_value(1),
        with_value(2),
        (0,),
        "result, exception.value, value: 1 eagerly, 2 compiled",
    ),
    exception_note=(
        noted("a"),
        noted("b"),
        (0,),
        "result, exception.__notes__[0], value: 'a' eagerly, 'b' compiled",
    ),
    leaves_the_program=(
        raising(ValueError, "no"),
        lambda x: sys.exit(3),
        (0,),
        "result, raised: ValueError: no eagerly, SystemExit: 3 compiled",
    ),
    traceback=(raising(KeyError, 1), raising_inside(KeyError, 1), (0,), "result, traceback: "),
    mutation=(
        lambda x: x.append(1),
        lambda x: None,
        ([0],),
        "argument x, length: 2 eagerly, 1 compiled",
    ),
    tensor_mutation=(
        lambda x: nothing(x.add_(1)),
        lambda x: None,
        (ones(1),),
        "argument x, values: 1 of 1 element differs at [0]: 2 eagerly, 1 compiled",
    ),
    version=(
        written,
        lambda x: x,
        (ones(1),),
        "argument x, version: 2 writes eagerly, 0 writes compiled",
    ),
    identity=(
        lambda x: x,
        lambda x: x.view_as(x),
        (ones(1),),
        "result, identity: is argument x eagerly, is an object of its own compiled",
    ),
    identity_of_outputs=(
        lambda x: [y := [1], y],
        lambda x: [[1], [1]],
        (0,),
        "result[1], identity: is result[0] eagerly, is an object of its own compiled",
    ),
    aliasing=(
        lambda x: x.view(-1),
        lambda x: x.view(-1).clone(),
        (ones(1, 2),),
        "result, memory: shared with argument x eagerly, of its own compiled",
    ),
    aliasing_of_outputs=(
        lambda x: [y := x + 1, y[:1]],
        lambda x: [x + 1, x[:1] + 1],
        (ones(2),),
        "result[1], memory: shared with result[0] eagerly, of its own compiled",
    ),
    offset=(
        lambda x: x[1:2],
        lambda x: x[2:3],
        (ones(4),),
        "result, storage offset: 1 eagerly, 2 compiled",
    ),
    view=(
        lambda x: x[:],
        lambda x: x.detach()[:].data,
        (ones(4),),
        "result, view: is a view eagerly, is no view compiled",
    ),
    printed=(
        printing("a", "b"),
        printing("a", "c"),
        (0,),
        "printed, output: line 2 is 'b' eagerly, 'c'",
    ),
    printed_less=(printing("a", "b"), printing("a"), (0,), "line 2, 'b', is there only eagerly"),
    printed_to_errors=(
        printing("a", file=lambda: sys.stderr),
        printing("a"),
        (0,),
        "printed, errors: ",
    ),
    warned=(warning("old"), warning("new"), (0,), "UserWarning: old eagerly, UserWarning: new"),
    warned_otherwise=(
        warning("old"),
        warning("old", DeprecationWarning),
        (0,),
        "DeprecationWarning: old compiled",
    ),
    random_stream_of_torch=(
        drawing(lambda: torch.rand(1)),
        drawing(lambda: torch.rand(40)),
        (0,),
        "afterwards, random stream of torch: state ",
    ),
    random_stream_of_python=(
        drawing(random.random),
        drawing(int),
        (0,),
        "afterwards, random stream of random: state ",
    ),
    random_stream_of_numpy=(
        drawing(np.random.rand),
        drawing(int),
        (0,),
        "afterwards, random stream of numpy: state ",
    ),
    random_stream_given=(
        lambda x: nothing(torch.rand(1, generator=x)),
        lambda x: None,
        (torch.Generator(),),
        "argument x, random stream: ",
    ),
    grad_mode=(
        drawing(lambda: torch.set_grad_enabled(False)),
        drawing(int),
        (0,),
        "afterwards, grad mode: False eagerly, True compiled",
    ),
    default_dtype=(
        drawing(lambda: torch.set_default_dtype(torch.float64)),
        drawing(int),
        (0,),
        "afterwards, default dtype: torch.float64 eagerly",
    ),
    deterministic=(
        drawing(lambda: torch.use_deterministic_algorithms(True)),
        drawing(int),
        (0,),
        "afterwards, deterministic algorithms: True eagerly, False compiled",
    ),
    threads=(
        drawing(lambda: torch.set_num_threads(torch.get_num_threads() + 1)),
        drawing(int),
        (0,),
        "afterwards, number of threads: ",
    ),
    global_variable=(
        counting(1),
        counting(2),
        (0,),
        "global COUNT, value: 1 eagerly, 2 compiled",
    ),
    global_list=(keeping(1), keeping(2), (0,), "global KEPT[0], value: 1 eagerly, 2 compiled"),
    class_attribute=(
        class_counting(1),
        class_counting(2),
        (0,),
        "Counter.made, value: 1 eagerly, 2 compiled",
    ),
    backward=(
        lambda x: x * 2,
        lambda x: Failing.apply(x),
        (ones(2, requires_grad=True),),
        "backward, raised: nothing eagerly, RuntimeError: no gradient compiled",
    ),
)
def test_a_difference_is_seen(
    right: Callable[..., Any], other: Callable[..., Any], args: tuple[Any, ...], said: str
) -> None:
    Comparison(compile=lambda function: function).assert_same(right, *args)
    with pytest.raises(NotTheSame) as caught:
        Comparison(compile=lambda function: other, calls=1).assert_same(right, *args)
    assert said in str(caught.value)


def only(differs: str, right: Callable[..., Any], other: Callable[..., Any], *args: Any) -> None:
    """This is the only respect in which they differ."""
    with pytest.raises(NotTheSame) as caught:
        Comparison(compile=lambda function: other).assert_same(right, *args)
    assert {difference.what for difference in caught.value.differences} == {differs}
    Comparison(compile=lambda function: other, ignore=[differs]).assert_same(right, *args)


def test_a_respect_can_be_ignored() -> None:
    only("version", written, lambda x: x, ones(2))
    only("values", lambda x: x * 2, lambda x: x * 3, ones(2))
    only("identity", lambda x: x, lambda x: list(x), [1])
    only("output", printing("a"), printing("b"), 0)


def test_what_a_cell_holds_is_compared() -> None:
    def make() -> Callable[[torch.Tensor], torch.Tensor]:
        w, count = ones(2, requires_grad=True), 0

        def function(x: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += 1
            return x * w

        return function

    function = make()
    assert_same(function, ones(2))
    assert function.__closure__[0].cell_contents == 0  # type: ignore[index]
    twice = Comparison(compile=lambda f: lambda x: f(x) + (f(x) - f(x).detach()))
    with pytest.raises(NotTheSame, match=r"cell w\.grad, values: 2 of 2 .* 1 eagerly, 2 compiled"):
        twice.assert_same(function, ones(2))
    with pytest.raises(NotTheSame, match="cell count, value: 1 eagerly, 3 compiled"):
        twice.assert_same(function, ones(2))


def test_what_a_module_holds_is_compared() -> None:
    model = torch.nn.BatchNorm1d(2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert_same(model, torch.randn(4, 2))
    with pytest.raises(NotTheSame) as caught:
        Comparison(compile=lambda m: lambda x: (m(x), m(x))[0]).assert_same(
            model, torch.randn(4, 2)
        )
    assert "module.num_batches_tracked, values: 1 of 1 element differs: 1 eagerly, 2" in str(
        caught.value
    )
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.weight.grad is None


def test_a_later_call_is_compared() -> None:
    def compiled(function: Any) -> Any:
        calls = iter(range(9))
        return lambda x: function(x) + (next(calls) == 2)

    Comparison(compile=compiled, calls=2).assert_same(lambda x: x + 1, ones(1))
    with pytest.raises(NotTheSame, match="in call 3 of 3 is not as eager"):
        Comparison(compile=compiled, calls=3).assert_same(lambda x: x + 1, ones(1))


def test_an_earlier_result_is_compared_again() -> None:
    def compiled(function: Any) -> Any:
        results: list[Any] = []

        def wrong(x: torch.Tensor) -> torch.Tensor:
            for result in results:
                result.add_(1)
            results.append(function(x))
            return results[-1]

        return wrong

    with pytest.raises(NotTheSame) as caught:
        Comparison(compile=compiled).assert_same(lambda x: x + 1, ones(1))
    assert "call 1, result, values" in str(caught.value)


def test_numbers_may_be_apart_as_far_as_is_said() -> None:
    def compiled(function: Any) -> Any:
        return lambda x: [function(x)[0] * 1.001, function(x)[1] * 1.001]

    def function(x: torch.Tensor) -> Any:
        return [x * 3, 3.0]

    Comparison(compile=compiled, relative=0.01).assert_same(function, ones(2))
    Comparison(compile=compiled, absolute=0.01).assert_same(function, ones(2))
    for near in (Comparison(compile=compiled), Comparison(compile=compiled, relative=0.0001)):
        with pytest.raises(NotTheSame):
            near.assert_same(function, ones(2))


def test_calls_with_different_arguments() -> None:
    def function(x: torch.Tensor, n: int = 1) -> torch.Tensor:
        return x * n if n < 3 else x

    Comparison().assert_same_calls(
        function, call(ones(2)), call(ones(3), n=2), call(ones(2), 3), call(ones(2).double())
    )


def test_a_view_whose_history_is_not_told() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        with torch.no_grad():
            view = y.view(-1)
        y.mul_(2)
        return y, view

    assert_same(program, torch.ones(2, requires_grad=True))
    with pytest.raises(NotTheSame, match=r"result\[1\], grad_fn: not told"):
        Comparison(compile=lambda f: lambda x: (program(x)[0], x * 4)).assert_same(
            program, torch.ones(2, requires_grad=True)
        )
