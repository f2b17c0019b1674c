"""What native functions take and give, with both bindings."""

from __future__ import annotations

import gc
import random
import sys

import pytest
import torch

from jitpkg.errors import InvalidArgument
from jitpkg.native import Binding, Failure, Output, Signature
from jitpkg.native.signature import EXCEPTIONS, from_text
from tests.native.support import STATUS, both_bindings, built, needs_llvm, summing, vector

pytestmark = needs_llvm


@both_bindings
@pytest.mark.parametrize("outputs", [0, 1, 2, 3])
def test_results_are_none_a_tensor_or_a_tuple(binding: Binding, outputs: int) -> None:
    signature = Signature(2, 1, tuple(vector("i0") for _ in range(outputs)))
    function = built(summing(2, outputs), signature, binding)
    a, b = torch.arange(5.0), torch.full((5,), 2.0)
    result = function(a, b, 5)
    expected = [a + b + k for k in range(outputs)]
    if outputs == 0:
        assert result is None
    elif outputs == 1:
        assert type(result) is torch.Tensor and torch.equal(result, expected[0])
    else:
        assert type(result) is tuple
        assert all(map(torch.equal, result, expected))


@both_bindings
def test_a_result_has_the_dtype_sizes_and_strides_of_the_signature(binding: Binding) -> None:
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool, torch.uint8]
    dtypes += [torch.int8, torch.int16, torch.int32, torch.int64, torch.complex64]
    outputs = tuple(Output(dtype, ("i0", 3, 2), (1, "2 * i0", "i0")) for dtype in dtypes)
    results = built(summing(0, len(outputs)), Signature(0, 1, outputs), binding)(4)
    assert [result.dtype for result in results] == dtypes
    assert {tuple(result.shape) for result in results} == {(4, 3, 2)}
    assert {result.stride() for result in results} == {(1, 8, 4)}
    assert {result.device for result in results} == {torch.device("cpu")}
    assert not any(result.requires_grad for result in results)


@both_bindings
def test_parameters_views_and_empty_tensors_are_taken(binding: Binding) -> None:
    function = built(summing(1), Signature(1, 1, (vector("i0"),)), binding)
    assert torch.equal(function(torch.nn.Parameter(torch.ones(2)), 2), torch.ones(2))
    assert torch.equal(function(torch.arange(6.0)[3:], 3), torch.tensor([3.0, 4.0, 5.0]))
    assert function(torch.empty(0), 0).shape == (0,)


class Subclass(torch.Tensor):
    pass


@both_bindings
@pytest.mark.parametrize(
    "given",
    [
        (),
        (torch.ones(1),),
        (torch.ones(1), torch.ones(1)),
        (torch.ones(1), 1, 1),
        (torch.ones(1), 1.5),
        (torch.ones(1), None),
        (None, 1),
        (1, 1),
        ([1.0], 1),
        (torch.ones(1).as_subclass(Subclass), 1),
        (torch.Tensor, 1),
    ],
    ids=repr,
)
def test_wrong_arguments_are_type_errors(binding: Binding, given: tuple[object, ...]) -> None:
    function = built(summing(1), Signature(1, 1, (vector("i0"),)), binding)
    with pytest.raises(TypeError):
        function(*given)
    with pytest.raises(TypeError):
        function(torch.ones(1), i0=1)
    assert torch.equal(function(torch.ones(1), 1), torch.ones(1))


@both_bindings
def test_an_error_says_which_argument(binding: Binding) -> None:
    function = built(summing(2), Signature(2, 1, (vector("i0"),)), binding, "f")
    with pytest.raises(
        TypeError, match=r"argument 1 of f\(\) must be a torch.Tensor, not builtins.int"
    ):
        function(torch.ones(1), 3, 1)
    with pytest.raises(TypeError, match=r"f\(\) takes 3 arguments, 1 were given"):
        function(torch.ones(1))


@both_bindings
def test_a_tensor_without_memory_is_refused(binding: Binding) -> None:
    function = built(summing(1), Signature(1, 1, (vector("i0"),)), binding)
    sparse = torch.ones(2).to_sparse()
    for tensor in (torch.empty(3, device="meta"), sparse):
        with pytest.raises(RuntimeError):
            function(tensor, 1)


@both_bindings
def test_integers_have_64_bits(binding: Binding) -> None:
    function = built(STATUS, Signature(0, 1), binding)
    for fine in (0, 2**32, -(2**40), 2**62, False):
        assert function(fine) is None
    for wrong in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            function(wrong)
    with pytest.raises(RuntimeError, match="status -1"):
        built(STATUS, Signature(0, 1), binding)(-1)


@both_bindings
def test_a_status_becomes_an_exception(binding: Binding) -> None:
    failures = (Failure("IndexError", "first"), Failure("ZeroDivisionError", "second: 100% %s"))
    function = built(STATUS, Signature(0, 1, failures=failures), binding)
    assert function(0) is None
    with pytest.raises(IndexError, match=r"^first$"):
        function(1)
    with pytest.raises(ZeroDivisionError, match=r"^second: 100% %s$"):
        function(2)
    with pytest.raises(RuntimeError, match=r"tested\(\) failed with status 3"):
        function(3)


@both_bindings
def test_every_exception_of_the_table_can_be_raised(binding: Binding) -> None:
    for exception in sorted(EXCEPTIONS):
        function = built(STATUS, Signature(0, 1, failures=(Failure(exception, "x"),)), binding)
        with pytest.raises(BaseException, match=r"^x$") as raised:
            function(1)
        assert type(raised.value).__name__ == exception


@both_bindings
def test_what_cannot_be_allocated_raises_and_leaks_nothing(binding: Binding) -> None:
    outputs = (vector("i0"), vector("i0 * i0 * 1048576"))
    function = built(summing(1, 2), Signature(1, 1, outputs), binding)
    with pytest.raises(RuntimeError):
        function(torch.ones(1 << 20), 1 << 20)
    with pytest.raises(RuntimeError):
        function(torch.ones(1), -5)
    function = built(summing(1, 1, 1), Signature(1, 1, (vector(4),), ("i0",)), binding)
    with pytest.raises((MemoryError, RuntimeError)):
        function(torch.ones(4), 1 << 60)
    with pytest.raises(MemoryError, match="-8 bytes"):
        function(torch.ones(4), -8)


ALIGNMENT = """
define i32 @kernel(ptr %out, ptr %small, ptr %large, ptr %known, i64 %n) {
  store i64 1, ptr %small
  store i64 2, ptr %large
  store i64 3, ptr %known
  %a = ptrtoint ptr %small to i64
  %b = ptrtoint ptr %large to i64
  %c = ptrtoint ptr %known to i64
  %d = or i64 %a, %b
  %e = or i64 %d, %c
  store i64 %e, ptr %out
  ret i32 0
}
"""


def test_scratch_memory_is_aligned_to_64_bytes() -> None:
    signature = Signature(
        0, 1, (vector(1, dtype=torch.int64),), ("i0 + 8", 1 << 20, 100), releases_gil=True
    )
    function = built(ALIGNMENT, signature)
    for n in range(0, 1000, 37):
        assert function(n).item() % 64 == 0


@both_bindings
def test_nothing_keeps_arguments_or_results(binding: Binding) -> None:
    function = built(summing(2, 2), Signature(2, 1, (vector("i0"), vector("i0"))), binding)
    a, b = torch.ones(3), torch.ones(3)
    before = sys.getrefcount(a), sys.getrefcount(b)
    results = function(a, b, 3)
    first, second = results
    del results
    assert sys.getrefcount(first) == sys.getrefcount(second) == before[0]
    assert (sys.getrefcount(a), sys.getrefcount(b)) == before
    assert gc.is_tracked(first)
    first.label = "an attribute"  # the Python object of a tensor stays the same
    view = first[:1]
    assert view._base is first and view._base.label == "an attribute"


@both_bindings
def test_a_kernel_can_write_to_its_arguments(binding: Binding) -> None:
    text = "define i32 @kernel(ptr %a) {\n  store float 7.0, ptr %a\n  ret i32 0\n}"
    a = torch.zeros(2)
    assert built(text, Signature(1), binding)(a) is None
    assert a.tolist() == [7.0, 0.0]


@both_bindings
def test_extents_are_computed_as_python_does(binding: Binding) -> None:
    extents = ("i0 // 3", "i0 % 7 + 1", "max(i0, i1) - min(i0, i1)", "-i1 // 2 + i0", "(-i0) % 5")
    output = Output(torch.int8, extents, (0,) * len(extents))
    text = "define i32 @kernel(ptr %out, i64 %a, i64 %b) {\n  ret i32 0\n}"
    function = built(text, Signature(0, 2, (output,)), binding)
    for i0, i1 in ((17, 4), (30, 31), (8, 0)):
        expected = tuple(eval(extent, {"i0": i0, "i1": i1}) for extent in extents)
        assert function(i0, i1).shape == expected


@pytest.mark.parametrize(
    "extent",
    ["i2", "i0 / 2", "i0 // i1", "i0 // 0", "i0 % -3", "f(i0)", "", "i0 +", "True", "i0.x"],
)
def test_what_is_no_extent_is_refused(extent: str) -> None:
    with pytest.raises(InvalidArgument):
        Signature(0, 2, scratch=(extent,))


@pytest.mark.parametrize("seed", range(12))
def test_random_signatures_mean_the_same_with_both_bindings(seed: int) -> None:
    chosen = random.Random(seed)
    inputs, outputs, scratch = (chosen.randrange(most) for most in (12, 5, 4))
    release = chosen.choice([False, True, "i0 - 3"])
    extents = ["i0", "i0 + 2", "max(i0, 7)", "i0 * 2 // 2", 9]
    signature = Signature(
        inputs,
        1,
        tuple(Output(torch.float32, (chosen.choice(extents),), (1,)) for _ in range(outputs)),
        tuple(chosen.choice(extents) for _ in range(scratch)),
        releases_gil=release,
    )
    functions = [
        built(summing(inputs, outputs, scratch), signature, binding)
        for binding in ("tensors", "pointers")
    ]
    for n in (0, 1, 6):
        given = [torch.randint(-9, 9, (n,)).float() for _ in range(inputs)]
        one, other = (function(*given, n) for function in functions)
        if outputs == 0:
            assert one is None and other is None
            continue
        expected = sum(given, torch.zeros(n))
        listed = [[each] if outputs == 1 else list(each) for each in (one, other)]
        for results in listed:
            assert all(torch.equal(each[:n], expected + k) for k, each in enumerate(results))
        assert [each.shape for each in listed[0]] == [each.shape for each in listed[1]]


@both_bindings
def test_many_arguments(binding: Binding) -> None:
    count = 70
    function = built(summing(count), Signature(count, 1, (vector("i0"),)), binding)
    tensors = [torch.full((3,), float(k)) for k in range(count)]
    assert function(*tensors, 3).tolist() == [sum(range(count))] * 3


def test_a_signature_can_be_written_down() -> None:
    signature = Signature(
        2,
        3,
        (Output(torch.bfloat16, (2, "i1"), ("i1", 1)),),
        (64, "i0"),
        releases_gil=True,
        failures=(Failure("IndexError", 'no "such" ü'),),
    )
    assert from_text(signature.text()) == signature
