"""Ops that fail at run time after a tensor was changed, and what handlers make of that."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.testing import Comparison, call

Failure: type[BaseException] = NotImplementedError


def without_handler(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    return k[at]


def for_what_types_raise(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    v = torch.ones(1)
    k.add_(1)
    try:
        k.index_copy_(0, at, v)
        y = k * 2
    except NotImplementedError:
        y = k * 3
    return y


def around_a_comprehension(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        ys = [k[at] for _ in range(2)]
    except IndexError:
        return k * 2
    return ys[0]


def bare(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except:  # noqa: E722
        return k * 2
    return y


def bare_and_raised_again(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except:
        raise
    return y


def one_of_several(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except (NotImplementedError, IndexError):
        return k * 2
    return y


def a_later_clause(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except KeyError:
        return k
    except LookupError as error:
        return k * 2, type(error)
    return y


def further_out(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        try:
            y = k[at]
        except KeyError:
            return k
    except IndexError:
        return k * 2
    return y


def by_a_global(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    except Failure:
        return k * 2
    return y


def at_last(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        y = k[at]
    finally:
        seen.append(1)
    return y


def in_a_context(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        with torch.no_grad():
            y = k[at]
    except IndexError:
        return k * 2
    return y


def after_a_break_in_a_try(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    try:
        print(end="")
        y = k + 1
    except IndexError:
        seen.append(1)
        return y
    k.add_(1)
    return y, k[at]


def after_a_break_in_one_try_and_in_another(
    k: torch.Tensor, at: torch.Tensor, seen: list[int]
) -> Any:
    try:
        print(end="")
        y = k + 1
    finally:
        seen.append(1)
    k.add_(1)
    try:
        return y, k[at]
    finally:
        seen.append(2)


def after_a_break_in_a_with(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    with Notes(seen):
        print(end="")
        y = k + 1
    seen.append(2)
    k.add_(1)
    return y, k[at]


def after_a_break_in_a_handler(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    try:
        try:
            raise ValueError
        except ValueError:
            print(end="")
            y = k + 1
        finally:
            seen.append(1)
    except IndexError:
        seen.append(2)
    k.add_(1)
    return y, k[at]


def after_a_break_in_a_try_of_a_generator(
    k: torch.Tensor, at: torch.Tensor, seen: list[int]
) -> Any:
    def generator() -> Iterator[torch.Tensor]:
        try:
            print(end="")
            y = k + 1
        except IndexError:
            seen.append(1)
        k.add_(1)
        yield k[at]
        yield y

    return list(generator())


class Notes:
    """A context that writes down how it was left."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen
        self.depth = 0

    def __enter__(self) -> Notes:
        self.depth += 1
        return self

    def __exit__(self, cls: type | None, *rest: object) -> None:
        self.depth -= 1
        self.seen.append(3 if cls is None else 4)


def in_a_context_of_the_programs(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    notes = Notes(seen)
    k.add_(1)
    with notes:
        return k[at]


def in_a_context_that_asks_what_it_is(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    class Swallows(Notes):
        def __exit__(self, cls: type | None, *rest: object) -> Any:
            super().__exit__(cls, *rest)
            return cls is not None and issubclass(cls, LookupError)

    k.add_(1)
    with Swallows(seen):
        return k[at]
    return k


def at_last_in_what_is_called(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    def callee() -> torch.Tensor:
        seen.append(1)
        try:
            k.add_(1)
            seen.append(2)
            return k[at]
        finally:
            seen.append(3)

    try:
        y = callee() + 1
    finally:
        seen.append(4)
    return y


def with_a_look_at_it(k: torch.Tensor, at: torch.Tensor, seen: list[Any]) -> Any:
    k.add_(1)
    try:
        return k[at]
    except BaseException as error:
        seen.append(str(error))
        raise


def raised_again(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        return k[at]
    except BaseException:
        seen.append(k.dim())
        raise


def another_raised_at_last(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        return k[at]
    finally:
        seen.append(1)
        if len(seen) > 1:
            raise ValueError


def returned_at_last(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    for _ in range(2):
        try:
            seen.append(int(k[at]))
        finally:
            seen.append(1)
            continue  # noqa: B012
    return k


def computed_at_last(k: torch.Tensor, at: torch.Tensor, seen: list[int]) -> Any:
    k.add_(1)
    try:
        return k[at]
    finally:
        k.mul_(2)


def what_was_computed_at_last(k: torch.Tensor, at: torch.Tensor, seen: list[Any]) -> Any:
    k.add_(1)
    y = k * 3
    try:
        return k[at]
    finally:
        seen.append(y)


def what_nobody_else_asks_for(k: torch.Tensor, at: torch.Tensor, seen: list[Any]) -> Any:
    k.add_(1)
    y, parts = k * 3, [k * 4]
    try:
        return k[at]
    except BaseException:
        seen += [y, parts]
        raise


PROGRAMS = [
    what_nobody_else_asks_for,
    after_a_break_in_a_try,
    after_a_break_in_one_try_and_in_another,
    after_a_break_in_a_with,
    after_a_break_in_a_handler,
    after_a_break_in_a_try_of_a_generator,
    in_a_context_of_the_programs,
    in_a_context_that_asks_what_it_is,
    at_last_in_what_is_called,
    with_a_look_at_it,
    raised_again,
    another_raised_at_last,
    returned_at_last,
    computed_at_last,
    what_was_computed_at_last,
    without_handler,
    for_what_types_raise,
    around_a_comprehension,
    bare,
    bare_and_raised_again,
    one_of_several,
    a_later_clause,
    further_out,
    by_a_global,
    at_last,
    in_a_context,
]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_eager(f: Callable[..., Any], backend: str) -> None:
    calls = [call(torch.zeros(3), torch.tensor([at]), []) for at in (1, 0, 9, 2, 9)]
    Comparison(backend=backend, ignore=("traceback",)).assert_same_calls(f, *calls)


def test_what_a_clause_is_for_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = jitpkg.compile(by_a_global, backend="eager")
    assert compiled(torch.zeros(3), torch.tensor([1]), []) == 1
    monkeypatch.setitem(globals(), "Failure", IndexError)
    assert (compiled(torch.zeros(3), torch.tensor([9]), []) == 2).all()


def test_a_handler_for_what_types_raise_is_no_break() -> None:
    explained = jitpkg.explain(for_what_types_raise, backend="eager")
    assert explained(torch.zeros(3), torch.tensor([1]), []).graph_break_count == 0


@pytest.mark.parametrize(
    "f", [at_last, in_a_context_of_the_programs, at_last_in_what_is_called, raised_again]
)
def test_a_handler_that_lets_pass_is_no_break(f: Callable[..., Any]) -> None:
    explained = jitpkg.explain(f, backend="eager")
    assert explained(torch.zeros(3), torch.tensor([1]), []).graph_break_count == 0


SHIFTED = 1


def test_what_was_read_before_it_was_written() -> None:
    def program(k: torch.Tensor, at: torch.Tensor, n: list[int]) -> Any:
        global SHIFTED
        for _ in range(2):
            SHIFTED <<= 1
            n[0] += n[0]
        k.add_(1)
        return k[at] + SHIFTED

    calls = [call(torch.zeros(3), torch.tensor([at]), [n]) for n, at in enumerate((1, 0, 9, 9), 3)]
    Comparison(dynamic=True, ignore=("traceback",)).assert_same_calls(program, *calls)


HALF_DONE: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "setitem": lambda x, at: x.__setitem__(at, 0),
    "setitem, by operator": lambda x, at: operator.setitem(x, (at,), 0.0),
    "index_put_": lambda x, at: x.index_put_((at,), torch.zeros(3)),
    "torch.index_put_": lambda x, at: torch.index_put_(x, (at,), torch.zeros(3)),
    "index_fill_": lambda x, at: x.index_fill_(0, at, 0),
    "index_copy_": lambda x, at: x.index_copy_(0, at, torch.zeros(3)),
    "index_add_": lambda x, at: x.index_add_(0, at, -x),
    "scatter_": lambda x, at: x.scatter_(0, at, 0.0),
    "scatter_add_": lambda x, at: x.scatter_add_(0, at, -x),
    "put_": lambda x, at: x.put_(at, torch.zeros(3)),
    "masked_scatter_": lambda x, at: x.masked_scatter_(at >= 0, torch.zeros(2)),
    "of a view": lambda x, at: x[:].__setitem__(at, 0),
}


@pytest.mark.parametrize("name", HALF_DONE)
@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("handles", [False, True])
def test_an_op_that_has_written_a_part_when_it_raises(
    name: str, backend: str, *, handles: bool
) -> None:
    """It is not begun again: the places would be others then."""

    def program(x: torch.Tensor, seen: list[Any]) -> Any:
        seen.append(1)
        y = x * 2
        HALF_DONE[name](x, x.long())
        return y

    def handling(x: torch.Tensor, seen: list[Any]) -> Any:
        try:
            return program(x, seen)
        except (IndexError, RuntimeError):
            return x + 1

    calls = [call(torch.tensor(items), []) for items in ([0.0, 2.0, 1.0], [0.0, 2.0, 4.0])]
    comparison = Comparison(backend=backend, ignore=("traceback",))
    comparison.assert_same_calls(handling if handles else program, *calls)


RESHAPING: dict[str, Callable[[torch.Tensor], Any]] = {
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.squeeze_(),
    "transpose_": lambda x: x.transpose_(1, 2),
    "swapdims_": lambda x: x.swapdims_(1, 2),
    "there and back": lambda x: x.unsqueeze_(0).squeeze_(0),
    "a view": lambda x: x[0].unsqueeze_(0),
}


@pytest.mark.parametrize("name", RESHAPING)
def test_sizes_that_were_read_before_they_were_changed(name: str) -> None:
    def program(x: torch.Tensor, at: torch.Tensor, seen: list[Any]) -> Any:
        seen.append(x.shape[1])
        RESHAPING[name](x)
        seen.append((x.shape, n := x.stride()[0]))
        y = x.reshape(-1)[at]
        seen[0] = n
        return y

    sizes = [(2, 3, 1), (3, 4, 4), (5, 2, 9), (3, 4, 99)]
    calls = [call(torch.zeros(1, m, n), torch.tensor([at]), []) for m, n, at in sizes]
    Comparison(dynamic=True, ignore=("traceback",)).assert_same_calls(program, *calls)


CONTEXTS: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
}


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("around", [None, *CONTEXTS])
def test_contexts_that_a_failing_op_would_leave_are_not_left(name: str, around: str | None) -> None:
    """By what follows while the op has not failed."""

    def program(p: torch.Tensor, k: torch.Tensor, at: torch.Tensor, seen: list[Any]) -> Any:
        try:
            with CONTEXTS[name]():
                k.add_(1)
                y = p[at] @ p
                modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
                z = y @ p
                return z, z.requires_grad, z.dtype, modes, torch.is_grad_enabled()
        finally:
            seen.append(torch.is_grad_enabled())

    def within(*args: Any) -> Any:
        if around is None:
            return program(*args)
        with CONTEXTS[around]():
            return program(*args)

    for at in ([0, 1], [7, 1]):
        inputs = torch.ones(2, 2, requires_grad=True), torch.zeros(2), torch.tensor(at), []
        Comparison(ignore=("traceback",)).assert_same(within, *inputs)


NO_CLASSES = (((ValueError,),), (ValueError, 3), (KeyError, (ValueError,)), "ValueError", int)


@pytest.mark.parametrize("handled", NO_CLASSES, ids=repr)
def test_a_clause_for_what_is_no_exception_class(handled: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            raise ValueError
        except handled:
            return x + 1

    Comparison(ignore=("traceback",)).assert_same(program, torch.ones(2))


GIVEN = KeyError("given")


def in_a_handler(k: torch.Tensor, at: torch.Tensor) -> Any:
    try:
        raise ValueError(3)
    except ValueError:
        k.index_fill_(0, at, 1)


def in_a_handler_of_what_exists(k: torch.Tensor, at: torch.Tensor) -> Any:
    try:
        raise GIVEN
    except LookupError:
        k.index_fill_(0, at, 1)


def in_a_callee_of_a_handler(k: torch.Tensor, at: torch.Tensor) -> Any:
    k.add_(1)
    try:
        {}["a"]
    except KeyError:
        return without_handler(k, at, [])


def in_a_handler_of_a_handler(k: torch.Tensor, at: torch.Tensor) -> Any:
    k.add_(1)
    try:
        try:
            unknown  # type: ignore[name-defined]
        except NameError:
            raise ValueError from None
    except ValueError:
        return k[at]


def in_a_finally_block(k: torch.Tensor, at: torch.Tensor) -> Any:
    try:
        k.add_(1)
        raise ValueError(3)
    finally:
        k.index_fill_(0, at, 1)


class _Writes:
    def __init__(self, k: torch.Tensor, at: torch.Tensor) -> None:
        self.k, self.at = k, at

    def __enter__(self) -> None:
        self.k.add_(1)

    def __exit__(self, *error: object) -> None:
        self.k.index_fill_(0, self.at, 1)


def in_an_exit(k: torch.Tensor, at: torch.Tensor) -> Any:
    with _Writes(k, at):
        raise ValueError(3)


def in_a_handler_of_a_generator(k: torch.Tensor, at: torch.Tensor) -> Any:
    def written() -> Iterator[Any]:
        try:
            k.add_(1)
            raise ValueError(3)
        except ValueError:
            yield 1
            k.index_fill_(0, at, 1)

    return list(written())


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize(
    "program",
    [
        in_a_handler,
        in_a_handler_of_what_exists,
        in_a_callee_of_a_handler,
        in_a_handler_of_a_handler,
        in_a_finally_block,
        in_an_exit,
        in_a_handler_of_a_generator,
    ],
)
def test_what_an_op_raises_in_a_handler_says_what_was_handled(
    program: Callable[..., Any], backend: str
) -> None:
    calls = [call(torch.zeros(3), torch.tensor([at])) for at in (1, 7, 7)]
    Comparison(backend=backend, ignore=("traceback",)).assert_same_calls(program, *calls)
