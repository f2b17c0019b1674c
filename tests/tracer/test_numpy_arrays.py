"""NumPy's arrays in traced code: the memory of tensors, and constants."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import jitpkg
from jitpkg import config
from jitpkg.testing import Comparison

Program = Callable[..., Any]
BACKENDS = ("eager", "jitpkg")

MEAN = np.array([0.5, 0.25, 0.125], dtype=np.float32)
"""A global that a program reads, and nobody writes to."""


class Scaler:
    def __init__(self) -> None:
        self.scale = np.array([1.0, 2.0, 4.0])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.from_numpy(self.scale)


SCALER = Scaler()

# Programs: each is given a tensor, and is one graph.


def given_back(x):
    return (x * 2).numpy()


def of_an_argument(x):
    return x.numpy()


def there_and_back(x):
    return torch.from_numpy((x + 1).numpy()) * 2


def there_and_back_as_it_is(x):
    return torch.from_numpy(x.numpy())


def with_an_offset(x):
    return torch.from_numpy(x[1:].numpy()), x[:, 1].numpy()


def the_usual_chain(x):
    return (x * 2).detach().cpu().numpy()


def forced(x):
    return x.numpy(force=True), (x + 1).numpy(force=False)


def as_array(x):
    a = np.asarray(x + 1)
    return a, np.asarray(a) is a


def written_through(x):
    y = torch.from_numpy(x.numpy())
    y += 1
    return x, y, x.numpy()


def written_before(x):
    a = x.numpy()
    x.mul_(2)
    return a


def two_of_one(x):
    y = x + 1
    a, b = y.numpy(), y.numpy()
    return a, b, a is b, a is a, torch.from_numpy(a).add_(1)


def in_a_list(x):
    return {"all": [x.numpy(), (x + 1).numpy()], "first": (x.numpy(),)}


def transposed(x):
    return x.t().numpy(), x.numpy().T, torch.from_numpy(x.numpy().T) + 1


def copied(x):
    a = (x + 1).numpy()
    return torch.tensor(a), torch.tensor(a, dtype=torch.float64), torch.tensor(a.T)


def converted(x):
    a = (x + 1).numpy()
    b = torch.as_tensor(a, dtype=torch.int64)
    return torch.as_tensor(a), torch.asarray(a), b, torch.as_tensor(a, device="cpu")


def converted_and_written(x):
    a = (x + 1).numpy()
    torch.as_tensor(a).add_(1)
    torch.asarray(a).add_(1)
    torch.tensor(a).add_(1)
    torch.as_tensor(a, dtype=torch.float64).add_(1)
    return a


def attributes(x):
    a = x.numpy()
    shown = a.shape, a.dtype, a.ndim, a.size, a.itemsize, a.nbytes, a.strides, len(a)
    return x + 1, shown, isinstance(a, np.ndarray), type(a) is np.ndarray


def dtypes(x):
    d = x.numpy().dtype
    return (
        x + 1,
        d == np.float32,
        d == "float64",
        d.name,
        d.kind,
        d.itemsize,
        np.float32 == d,
        d != d,
    )


def by_its_shape(x):
    a = x.numpy()
    return x.view(-1)[: a.size - 1] if a.dtype == np.float32 and a.ndim == 2 else x


def constants(x):
    return x * torch.from_numpy(np.array([1.0, 2.0, 3.0], dtype=np.float32))


def constants_of_a_dtype(x):
    return x * torch.tensor(np.array([[1, 2, 3]])), x + torch.as_tensor(np.ones(3))


def constants_computed(x):
    mean = np.array([0.485, 0.456, 0.406]) / 255
    return x - torch.tensor(mean, dtype=torch.float32), mean, mean.sum(), mean.max() > 1


def made_anew(x):
    made = (
        np.zeros(3),
        np.ones((2, 2)),
        np.full((3,), 7),
        np.arange(4),
        np.linspace(0, 1, 5),
        np.eye(2),
    )
    return x + 1, made


def written_to_after(x):
    a = np.zeros(3)
    torch.from_numpy(a).add_(x[0].double())
    return a, torch.from_numpy(a)


def views_of_constants(x):
    a = np.arange(12).reshape(3, 4)
    b = a[1:, ::2]
    t = torch.from_numpy(b)
    t += 1
    return x + t.sum(), a, b, a.T, a[::-1]


def views_of_constants_alone(x):
    a = np.arange(12.0).reshape(3, 4)
    return x + a[1, 2], a, a[1:], a.reshape(-1), a.T.copy(), a.astype(np.float32)


def indexed_constants(x):
    a = np.arange(12.0).reshape(3, 4)
    return x + a[0, 1], a[[0, 2]], a[a > 5], a[..., 0], a[1].tolist(), a.item(3), float(a[2, 2])


def several_at_once(x):
    stacked = np.stack([np.zeros(2), np.ones(2)])
    return (
        x + 1,
        stacked,
        np.concatenate([stacked, stacked], axis=1),
        np.sqrt(stacked),
        stacked + 1,
    )


def a_table(x):
    angles = 1.0 / np.power(10000, 2 * (np.arange(3) // 2) / 3)
    return x * torch.from_numpy(np.sin(angles)).float()


def nan_and_zero(x):
    a = np.sqrt(np.array([0.0, 4.0])) * -0.0
    return x + 1, torch.from_numpy(a), a


def truth_of_constants(x):
    a = np.array([2])
    return x + 1 if a > 1 and a else x - 1


def of_the_module(x):
    return x - torch.from_numpy(MEAN), SCALER(x), SCALER.scale is SCALER.scale


def no_grad_numpy(x):
    w = x.detach().clone().requires_grad_()
    with torch.no_grad():
        return (w * 2).numpy()


def forced_of_a_leaf(x):
    w = x.detach().clone().requires_grad_()
    return w.numpy(force=True), (w * 2).numpy(force=True), w * 3


def several_tensors_of_one(x):
    a = (x + 1).numpy()
    t, s = torch.from_numpy(a), torch.from_numpy(a)
    t += 1
    return a, t, s, s.numpy()


def unused(x):
    torch.from_numpy(np.ones(3)).unsqueeze_(0).numpy()
    return x + 1


WHOLE: list[Program] = [
    given_back,
    of_an_argument,
    there_and_back,
    there_and_back_as_it_is,
    with_an_offset,
    the_usual_chain,
    forced,
    as_array,
    written_through,
    written_before,
    two_of_one,
    in_a_list,
    transposed,
    copied,
    converted,
    converted_and_written,
    attributes,
    dtypes,
    by_its_shape,
    constants,
    constants_of_a_dtype,
    constants_computed,
    made_anew,
    written_to_after,
    views_of_constants,
    views_of_constants_alone,
    indexed_constants,
    several_at_once,
    a_table,
    nan_and_zero,
    truth_of_constants,
    of_the_module,
    no_grad_numpy,
    forced_of_a_leaf,
    several_tensors_of_one,
    unused,
]


NOT_COMPARED = {"eager": (), "jitpkg": ("version", "idle strides")}
"""What kernels have of their own, for any program: `x.data.add_(1)` counts as a write to `x`."""


def matrix() -> torch.Tensor:
    return torch.arange(9.0).reshape(3, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", WHOLE, ids=lambda f: f.__name__)
def test_one_graph(program: Program, backend: str) -> None:
    compared = Comparison(backend=backend, fullgraph=True, calls=3, ignore=NOT_COMPARED[backend])
    compared.assert_same(program, matrix())


@pytest.mark.parametrize("program", WHOLE, ids=lambda f: f.__name__)
def test_a_break_anywhere(program: Program) -> None:
    for disturb in ("break", *(f"break:{k}" for k in range(0, 24, 2))):
        Comparison(settings={"disturb": disturb}).assert_same(program, matrix())


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", WHOLE, ids=lambda f: f.__name__)
def test_sizes_that_vary(program: Program, backend: str, dynamic: bool | None) -> None:
    compared = Comparison(backend=backend, dynamic=dynamic, ignore=NOT_COMPARED[backend])
    calls = [jitpkg.testing.call(torch.arange(3.0 * n).reshape(n, 3)) for n in (3, 5, 4, 1, 3)]
    if program is not views_of_constants:
        compared.assert_same_calls(program, *calls)


# Arguments


def used(x, a):
    return x + torch.from_numpy(a), a.shape, a.dtype, a


def only_read(x, a):
    return x * torch.tensor(a), x * torch.as_tensor(a, dtype=torch.float32)


def changed(x, a):
    t = torch.from_numpy(a)
    t.add_(x)
    return t, a


def only_passed_on(x, a):
    return x + 1, [a], a is a


def of_arrays(x, arrays):
    return [x + torch.from_numpy(each) for each in arrays]


GIVEN: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
    "floats": lambda: np.ones((3, 3), dtype=np.float32),
    "doubles": lambda: np.arange(9.0).reshape(3, 3),
    "ints": lambda: np.arange(9).reshape(3, 3),
    "bytes": lambda: np.ones((3, 3), dtype=np.uint8),
    "halves": lambda: np.ones((3, 3), dtype=np.float16),
    "bools": lambda: np.eye(3) > 0,
    "transposed": lambda: np.arange(9.0).reshape(3, 3).T,
    "strided": lambda: np.arange(36.0).reshape(6, 6)[::2, 1::2],
    "expanded": lambda: torch.ones(3).expand(3, 3).numpy(),
    "of a tensor": lambda: torch.ones(3, 3).numpy(),
    "reversed": lambda: np.arange(9.0).reshape(3, 3)[::-1],
    "other bytes": lambda: np.ones((3, 3), dtype=">f4"),
    "complex": lambda: np.ones((3, 3), dtype=np.complex64),
    "read only": lambda: read_only(np.ones((3, 3))),
    "unaligned": lambda: np.frombuffer(bytearray(80), np.float64, 9, 1).reshape(3, 3),
    "empty": lambda: np.ones((0, 3)),
    "a subclass": lambda: np.ones((3, 3)).view(Named),
}
PLAIN = list(GIVEN)[:10]


class Named(np.ndarray):
    """Arrays of a class of the program's own."""


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


def outcome(function: Program, *args: Any) -> object:
    """What a call gives, and what it does to its arguments, as text."""
    try:
        result = function(*args)
    except Exception as error:
        result = type(error), str(error)
    return repr(result), repr(args), repr([getattr(each, "strides", None) for each in args])


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("program", [used, only_read, changed, only_passed_on])
def test_arguments(program: Program, kind: str, backend: str) -> None:
    compiled = jitpkg.compile(program, backend=backend, fullgraph=kind in PLAIN and program is used)
    for _ in range(3):
        if kind in ("read only", "expanded") and program is changed:
            continue
        assert outcome(compiled, matrix(), GIVEN[kind]()) == outcome(
            program, matrix(), GIVEN[kind]()
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_entry_is_for_one_kind_of_array(backend: str) -> None:
    compiled = jitpkg.compile(used, backend=backend)
    for _ in range(2):
        for kind in PLAIN:
            assert outcome(compiled, matrix(), GIVEN[kind]()) == outcome(
                used, matrix(), GIVEN[kind]()
            ), kind


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_is_the_object_that_was_given(backend: str) -> None:
    compiled = jitpkg.compile(used, backend=backend, fullgraph=True)
    for _ in range(3):
        a = np.ones((3, 3))
        *_, found = compiled(matrix(), a)
        assert found is a


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_is_seen_by_the_caller(backend: str) -> None:
    compiled = jitpkg.compile(changed, backend=backend, fullgraph=True)
    for k in range(3):
        a = np.full((3, 3), float(k))
        t, found = compiled(matrix(), a)
        assert found is a and a[2, 2] == 8 + k
        t.zero_()
        assert not a.any()
        assert (
            not t.untyped_storage().resizable() and t._base is None and t._version == 2
        )  # zero_, too


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_arrays_are_guarded_by_a_table(backend: str) -> None:
    compiled = jitpkg.compile(of_arrays, backend=backend, fullgraph=True)
    for k in range(4):
        given = [np.full((3,), float(k + n)) for n in range(20)]
        for one, other in zip(compiled(matrix(), given), of_arrays(matrix(), given), strict=True):
            assert torch.equal(one, other)
    other = [*given[:-1], np.ones(3, dtype=np.int64)]
    with config.patch(strict=True):
        found = jitpkg.compile(of_arrays, backend=backend)
        for arrays in (given, other, given):
            assert repr(found(matrix(), arrays)) == repr(of_arrays(matrix(), arrays))


# Memory


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_array_shares_the_memory_of_its_tensor(backend: str) -> None:
    def of_both(x):
        y = x * 2
        return y, y.numpy(), torch.from_numpy(y.numpy()), x.numpy(), y[1:].numpy()

    compiled = jitpkg.compile(of_both, backend=backend, fullgraph=True)
    for _ in range(3):
        x = matrix()
        y, a, t, b, part = compiled(x)
        y[1, 1] = 100
        x[0, 0] = 50
        assert a[1, 1] == t[1, 1] == part[0, 1] == 100 and b[0, 0] == 50
        part[1, 1] = 7
        assert y[2, 1] == 7 and t._version == 0 and y._version == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_new_arrays_own_their_memory(backend: str) -> None:
    def new(x):
        return x + 1, np.zeros(3), np.arange(3)

    compiled = jitpkg.compile(new, backend=backend, fullgraph=True)
    first, second = compiled(matrix()), compiled(matrix())
    first[1][0] = 5
    first[2].resize(5)
    assert second[1].tolist() == [0, 0, 0] and second[2].tolist() == [0, 1, 2]
    assert first[1].flags.owndata and first[1].flags.writeable


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_overlap_are_not_written_to_in_a_graph(backend: str) -> None:
    def shifted(a, b):
        t, s = torch.from_numpy(a), torch.from_numpy(b)
        t.mul_(2)
        return t + s, s * 2

    compiled = jitpkg.compile(shifted, backend=backend)
    for apart in (True, False, True, False):
        results = []
        for function in (shifted, compiled):
            whole = np.arange(10.0)
            a, b = whole[:4], whole[6:] if apart else whole[2:6]
            results.append(repr((function(a, b), whole)))
        assert results[0] == results[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_array_and_a_tensor_that_overlap(backend: str) -> None:
    def both(x, a):
        x.mul_(2)
        return torch.from_numpy(a) + x.sum()

    compiled = jitpkg.compile(both, backend=backend)
    for apart in (False, True, False):
        results = []
        for function in (both, compiled):
            x = matrix()
            a = np.ones(3, dtype=np.float32) if apart else x[1:].numpy()
            results.append(repr((function(x, a), x)))
        assert results[0] == results[1]
