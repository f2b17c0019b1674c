"""Tracing keeps nothing of a call alive, whatever ends it: objects die as they do in eager code.

With the collector off, a cycle through an exception's traceback would hold every frame of the
tracer, and all that the hook has handed over.
"""

import gc
import io
import weakref
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from typing import Any

import pytest
import torch

import jitpkg

X = torch.tensor([1.0, 2.0])


class Thing:
    def __iter__(self) -> Iterator[int]:
        yield 1


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    with suppress(Exception):  # torch imports what FakeTensor needs, and that keeps its frames
        jitpkg.compile(wrong_sizes, backend="eager")(X, Thing())
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def nothing_special(x, thing):
    return x + 1


def a_wrong_index(x, thing):
    for _ in thing:
        x.sum()[0] = 0


def wrong_sizes(x, thing):
    return torch.cat([x, x[None]])


def a_wrong_dtype(x, thing):
    return torch.linalg.inv(x.int())


def a_write_to_a_leaf(x, thing):
    x = x.clone().detach().requires_grad_()
    x += 1


def data_decide(x, thing):
    return x if x.sum() > 0 else x + 1


def sizes_from_data(x, thing):
    return x[x > 1].sum() + x.nonzero().sum()


def an_item(x, thing):
    return x.sum().item() + x


def an_exception(x, thing):
    raise KeyError(thing)


def a_caught_exception(x, thing):
    try:
        torch.cat([x, x[None]])
    except RuntimeError:
        return x + 1


def an_unknown_function(x, thing):
    hash(thing)
    print(x)
    return x.tolist()


def an_assertion(x, thing):
    assert x.shape[0] == 3, thing


def another_subclass(x, thing):
    return torch.nn.utils.rnn.pack_sequence([x, x]).data + torch.sparse_coo_tensor((2,)).to_dense()


PROGRAMS = (
    nothing_special,
    a_wrong_index,
    wrong_sizes,
    a_wrong_dtype,
    a_write_to_a_leaf,
    data_decide,
    sizes_from_data,
    an_item,
    an_exception,
    a_caught_exception,
    an_unknown_function,
    an_assertion,
    another_subclass,
)


@pytest.mark.parametrize(("backend", "dynamic"), [("eager", None), ("jitpkg", True)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_handed_over_dies(
    program: Callable[..., Any], backend: str, dynamic: bool | None
) -> None:
    compiled = jitpkg.compile(program, backend=backend, dynamic=dynamic)
    for _ in range(2):
        thing = Thing()
        reference = weakref.ref(thing)
        with redirect_stdout(io.StringIO()), suppress(Exception):
            compiled(X.clone(), thing)
        del thing
        assert reference() is None


def closed(x, made):
    def maker():
        try:
            yield 1
        finally:
            made.append("closed")

    for _ in maker():
        x[0] = 0


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_a_generator_is_closed_where_its_loop_ends(backend: str) -> None:
    compiled = jitpkg.compile(closed, backend=backend)
    for _ in range(3):
        made: list[str] = []
        try:
            compiled(torch.tensor(1.0), made)
        except IndexError:
            made.append("caught")
        assert made == ["closed", "caught"]
