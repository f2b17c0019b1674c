"""Log records and warnings: replayed where nobody can tell, breaks elsewhere, never lost or twice.

Each program runs eagerly and compiled; output and records must be the same, file, line and function
of the call included.
"""

import io
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from tests.api.support import Counts
from tests.tracer.plain import LOG, plain_surroundings

CHILD = logging.getLogger("tests.messages.child")
X = torch.tensor([1.0, 2.0])


def outcome(f: Callable[..., Any], calls: int, action: str) -> tuple[str, list[Any]]:
    results = []
    with plain_surroundings(globals(), action) as out:
        for k in range(calls):
            try:
                results.append(f(X + k).tolist())
            except Exception as error:
                results.append((type(error), str(error)))
    return out.getvalue(), results


def check(
    f: Callable[..., Any],
    graphs: int,
    *,
    whole: bool | None = None,
    calls: int = 3,
    action: str = "default",
    text: str = "",
) -> None:
    """Compiled like eager, with so many graphs; one for the `whole` function unless said."""
    backend = Counts()
    eager = outcome(f, calls, action)
    assert outcome(jitpkg.compile(f, backend=backend), calls, action) == eager
    assert len(backend.graphs) == graphs
    assert text in eager[0]
    if graphs == 1 if whole is None else whole:
        assert outcome(jitpkg.compile(f, fullgraph=True), calls, action) == eager


# logging


def test_a_logger_by_its_name() -> None:
    def f(x):
        logging.getLogger("tests.messages").warning("by name")
        logging.getLogger("tests.messages.child").debug("not shown")
        return x.sin() * len(logging.getLogger().name)

    check(f, 1, text="by name")


def test_a_logger_that_does_not_exist_yet_is_made_by_python() -> None:
    name = "tests.messages.made.by.a.call"

    def f(x):
        return x.sin(), logging.getLogger(name)

    compiled = jitpkg.compile(f)
    assert compiled(X)[1] is logging.getLogger(name)
    placeholder = "tests.messages.made"  # of a logger below it; Python makes one in its place
    assert jitpkg.compile(lambda x: logging.getLogger(placeholder))(X).name == placeholder


def test_a_logger_under_a_name_that_another_one_gets() -> None:
    name = "tests.messages.replaced"
    first = logging.getLogger(name)

    def f(x):
        return x + 1, logging.getLogger(name)

    compiled = jitpkg.compile(f, fullgraph=True)
    assert compiled(X)[1] is first
    logging.root.manager.loggerDict.pop(name)
    second = logging.getLogger(name)
    assert second is not first and compiled(X)[1] is second


def test_a_record_of_a_disabled_level_is_nothing() -> None:
    def f(x):
        y = x.sin()
        LOG.debug("data %s", y)
        return y + 1

    check(f, 1)


def test_constant_records_are_replayed() -> None:
    def f(x):
        y = x.sin()
        LOG.info("shape %s of %s", y.shape, y.dtype)
        LOG.warning("100%")
        LOG.log(logging.ERROR, f"{y.shape[0]} rows")
        CHILD.critical("from a child: %d %s %5.2f", 3, "three", 3.0)
        return y + 1

    check(f, 1, text="test_messages.py")


def helper(x):
    LOG.info("in a callee")
    LOG.info("for its caller", stacklevel=2)
    return x * 2


def test_records_of_callees_and_of_their_callers() -> None:
    def f(x):
        LOG.info("before")
        return helper(x) + sum(helper(x) for _ in range(2))

    check(f, 1, text="<genexpr> for its caller")


def test_the_caller_of_the_function_itself_is_a_break() -> None:
    def f(x):
        y = x.sin()
        LOG.info("for my caller", stacklevel=2)
        return y + 1

    check(f, 2)


def test_order_with_prints_and_effects() -> None:
    items: list[int] = []

    def f(x):
        LOG.info("one")
        y = x.sin()
        items.append(1)
        print("two", file=sys.stderr)
        LOG.info("three")
        return y + 1

    check(f, 2, text="two")


@pytest.mark.parametrize("fails", ["op", "raise"])
def test_records_before_an_exception_appear_once(fails: str) -> None:
    def f(x):
        LOG.info("before")
        if fails == "raise":
            raise KeyError("no")
        y = torch.arange(5)[(x * 10).long()]
        LOG.info("behind")
        return y

    check(f, 0 if fails == "raise" else 1, text="before")


def test_records_before_a_failure_behind_a_mutation() -> None:
    def f(x):
        LOG.info("before")
        x.add_(1)
        LOG.info("between")
        y = torch.arange(5)[(x * 10).long()]
        LOG.info("behind")
        return y

    check(f, 1, text="between")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: LOG.info("%s", x),
        lambda x: LOG.info("caf\u00e9"),
        lambda x: LOG.info("%d", "three"),
        lambda x: LOG.info("data", extra={"a": 1}),
        lambda x: LOG.info("here", stack_info=True),
        lambda x: LOG.error("no exception", exc_info=True),
    ],
    ids=["a tensor", "other letters", "a wrong format", "extra", "stack_info", "exc_info"],
)
def test_other_records_are_breaks(call: Any) -> None:
    def f(x):
        y = x.sin()
        call(y)
        return y + 1

    backend = Counts()
    with plain_surroundings(globals()) as out:
        compiled = jitpkg.compile(f, backend=backend)
        for _ in range(2):
            assert torch.equal(compiled(X), X.sin() + 1)
    assert out.getvalue()
    assert len(backend.graphs) == 2


class Watching(logging.Handler):
    """Looks at a tensor, and at what has been done, when it handles a record."""

    def __init__(self, seen: list[Any], watched: Any) -> None:
        super().__init__()
        self.seen, self.watched = seen, watched

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append((record.getMessage(), record.lineno, self.watched.tolist()))


@pytest.mark.parametrize("late", [False, True])
def test_a_handler_that_may_see_tensors_sees_what_it_sees_in_eager_code(late: bool) -> None:
    """Also one that is added when the function has been compiled."""

    def f(x):
        x.add_(1)
        LOG.info("one more")
        x.add_(1)
        return x * 2

    def run(g: Any) -> list[Any]:
        seen: list[Any] = []
        x = X.clone()
        watching = Watching(seen, x)
        with plain_surroundings(globals()):
            try:
                for k in range(4):
                    if k == (2 if late else 0):
                        LOG.addHandler(watching)
                    g(x)
            finally:
                LOG.removeHandler(watching)
        return seen

    assert run(jitpkg.compile(f)) == run(f) != []


@pytest.mark.parametrize("what", ["filter", "formatter", "stream", "factory", "method"])
def test_what_else_may_look_is_called_in_time(what: str, monkeypatch: Any) -> None:
    seen: list[Any] = []
    x = X.clone()

    def look(*args: Any) -> Any:
        seen.append(x.tolist())
        return True

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            look()
            return super().format(record)

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            look()
            return super().write(text)

    class Record(logging.LogRecord):
        def getMessage(self) -> str:
            look()
            return super().getMessage()

    def f(x):
        x.add_(1)
        LOG.info("one more")
        x.add_(1)
        return x * 2

    def run(g: Any) -> list[Any]:
        seen.clear()
        x.copy_(X)
        with plain_surroundings(globals()), monkeypatch.context() as patch:
            g(x)
            handler: Any = LOG.handlers[0]
            match what:
                case "filter":
                    patch.setattr(handler, "filters", [look])
                case "formatter":
                    handler.setFormatter(Formatter())
                case "stream":
                    handler.setStream(Stream())
                case "factory":
                    patch.setattr(logging, "_logRecordFactory", Record)
                case "method":
                    patch.setattr(handler, "handle", look)
            g(x)
            g(x)
        return list(seen)

    assert run(jitpkg.compile(f)) == run(f) != []


def test_levels_that_change_between_calls() -> None:
    def f(x):
        y = x.sin()
        LOG.info("told")
        return y + 1

    def run(g: Any) -> str:
        with plain_surroundings(globals()) as out:
            g(X)
            LOG.setLevel(logging.ERROR)
            g(X), g(X)
            LOG.setLevel(logging.DEBUG)
            g(X)
            logging.disable(logging.INFO)
            g(X)
            logging.disable(logging.NOTSET)
            LOG.disabled = True
            g(X)
            LOG.disabled = False
            g(X)
        return out.getvalue()

    compiled = jitpkg.compile(f, fullgraph=True)
    assert run(compiled) == run(f)
    assert run(f).count("told") == 3


def test_a_level_that_the_program_changes_itself() -> None:
    def f(x):
        LOG.disabled = True
        LOG.info("not told")
        LOG.disabled = False
        LOG.info("told")
        return x + 1

    eager = outcome(f, 2, "default")
    assert outcome(jitpkg.compile(f), 2, "default") == eager
    assert "not told" not in eager[0]


def test_a_logger_adapter_and_the_root_logger() -> None:
    adapter = logging.LoggerAdapter(LOG, None)

    def f(x):
        adapter.info("by an adapter")
        logging.debug("by the root logger")
        return x + 1

    with plain_surroundings(globals()):
        if not logging.root.handlers:
            pytest.skip("the root logger has no handler")
    check(f, 1, text="by an adapter")


def test_a_number_that_varies_is_no_reason_to_compile_again() -> None:
    backend = Counts()

    def f(x):
        LOG.info("%d rows", x.shape[0])
        return x + 1

    def run(g: Any) -> str:
        with plain_surroundings(globals()) as out:
            for n in range(2, 8):
                g(torch.ones(n))
        return out.getvalue()

    assert run(jitpkg.compile(f, backend=backend)) == run(f)
    assert len(backend.graphs) == 2


# warnings


class Careful(UserWarning):
    pass


class Loud(UserWarning):
    def __str__(self) -> str:
        return "LOUD"


@pytest.mark.parametrize("action", ["default", "always", "once", "module", "ignore", "error"])
def test_warnings_are_replayed(action: str) -> None:
    def f(x):
        y = x.sin()
        warnings.warn("careful")  # noqa: B028
        warnings.warn("more careful", Careful, stacklevel=1)
        warnings.warn("old", DeprecationWarning, 1)
        return y + 1

    check(f, 1, whole=action != "error", action=action)


def deprecated(x):
    warnings.warn("use something else", FutureWarning, stacklevel=2)
    return x * 2


@pytest.mark.parametrize("action", ["default", "always"])
def test_warnings_for_the_caller_of_a_callee(action: str) -> None:
    def f(x):
        x = deprecated(x)
        return deprecated(x) + 1

    check(f, 1, action=action, text="FutureWarning: use something else\n  x = deprecated(x)")


@pytest.mark.parametrize("action", ["default", "always"])
def test_warnings_for_the_caller_of_the_function(action: str) -> None:
    check(deprecated, 1, whole=False, action=action, text="results.append(f(X + k)")


def test_a_function_that_reads_no_globals() -> None:
    def f(x, warn=warnings.warn):
        warn("careful")
        return x + 1

    check(f, 1, whole=False, text="careful")


def test_a_warning_that_becomes_an_exception_is_handled() -> None:
    def f(x):
        try:
            warnings.warn("careful", stacklevel=1)
        except UserWarning:
            return x - 1
        return x + 1

    for action in ("error", "default"):
        eager = outcome(f, 2, action)
        assert outcome(jitpkg.compile(f), 2, action) == eager
    compiled = jitpkg.compile(f)
    with plain_surroundings(globals()):
        assert torch.equal(compiled(X), X + 1)
    with plain_surroundings(globals(), "error"):
        assert torch.equal(compiled(X), X - 1)
    with plain_surroundings(globals()):
        assert torch.equal(compiled(X), X + 1)


@pytest.mark.parametrize("category", [Loud, None])
def test_a_category_with_code_of_its_own_and_recorded_warnings(category: Any) -> None:
    caught: list[Any] = []

    def f(x):
        y = x.sin()
        warnings.warn("careful", category, stacklevel=1)
        return y + len(caught)

    def run(g: Any) -> list[Any]:
        found = []
        with (
            plain_surroundings(globals(), "always"),
            warnings.catch_warnings(record=True) as recorded,
        ):
            caught[:] = []
            warnings._showwarnmsg_impl = caught.append  # type: ignore[attr-defined]
            found.extend(g(X).tolist() for _ in range(3))
            del recorded
        return [*found, *((str(w.message), w.category, w.filename, w.lineno) for w in caught)]

    assert run(jitpkg.compile(f)) == run(f)


def test_a_replaced_showwarning_is_called_in_time(monkeypatch: Any) -> None:
    seen: list[Any] = []
    x = X.clone()

    def f(x):
        x.add_(1)
        warnings.warn("careful", stacklevel=1)
        x.add_(1)
        return x * 2

    def run(g: Any) -> list[Any]:
        seen.clear()
        x.copy_(X)
        with plain_surroundings(globals(), "always"):
            g(x)
            monkeypatch.setattr(warnings, "showwarning", lambda *args: seen.append(x.tolist()))
            g(x), g(x)
        return list(seen)

    assert run(jitpkg.compile(f)) == run(f) != []


def test_logger_warn_warns_and_logs() -> None:
    def f(x):
        LOG.warn("old")
        return x + 1

    if sys.version_info < (3, 13):
        check(f, 1, text="DeprecationWarning")


@pytest.mark.parametrize("keyword", [True, False])
def test_a_call_that_discovers_a_break_has_no_frame_more(keyword: bool) -> None:
    def positional(x):
        y = x.sin()
        print("here", file=sys.stderr)
        warnings.warn("for my caller", UserWarning, 2)
        return y + 1

    def by_name(x):
        y = x.sin()
        print("here", file=sys.stderr)
        LOG.info("for my caller", stacklevel=2)
        return y + 1

    check(by_name if keyword else positional, 2, action="always", text="for my caller")


def messages(x):
    LOG.info("one of %d", x.shape[0])
    x = helper(x.sin())
    warnings.warn("two", stacklevel=1)
    LOG.debug("never")
    return deprecated(x) + 1


@pytest.mark.parametrize("k", [None, 1, 3, 5, 8, 13, 21, 34])
def test_the_same_with_breaks_anywhere(k: int | None) -> None:
    eager = outcome(messages, 3, "always")
    with jitpkg.config.patch(disturb="break" if k is None else f"break:{k}"):
        assert outcome(jitpkg.compile(messages), 3, "always") == eager


def test_verifying_says_nothing_twice() -> None:
    def f(x):
        LOG.info("told")
        return x + 1

    eager = outcome(f, 2, "default")
    with jitpkg.config.patch(verify_correctness=True):
        assert outcome(jitpkg.compile(f), 2, "default") == eager


def test_explain_and_a_global_stream() -> None:
    """A guard says what was asked."""

    def f(x):
        LOG.info("told")
        return x + 1

    with plain_surroundings(globals()):
        made = jitpkg.explain(f)(X)
    assert "unchanged: who sees a logger's records" in made.out_guards
