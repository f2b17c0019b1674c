"""What is told of compiling: explain, events, errors, warnings."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import config, errors, events
from tests.api.support import Counts, Net, X, affine, broken, fresh, sine

# explain


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    e = jitpkg.explain(broken)(X)
    assert torch.equal(e.result, sine(X))
    assert capsys.readouterr().out == "in the middle\n"
    assert (e.graph_count, e.graph_break_count, e.op_count) == (2, 1, 2)
    assert [type(graph) for graph in e.graphs] == [type(graph) for graph in e.graphs]
    assert all(isinstance(graph, torch.fx.GraphModule) for graph in e.graphs)
    assert [[getattr(op, "__name__", op) for op in ops] for ops in e.ops_per_graph] == [
        ["sin"],
        ["add"],
    ]
    assert [b.reason.code for b in e.break_reasons] == ["B106"]
    assert e.break_reasons[0].where.function == "broken"
    assert any(
        "requires" in guard or "float32[2]" in guard or "x" in guard for guard in e.out_guards
    )
    assert {"tracing", "backend"} <= set(e.compile_times)
    assert all(seconds > 0 for seconds in e.compile_times.values())
    assert list(e.sources) == ["broken#0", "broken#1"]
    assert all(source.startswith("def entry(") for source in e.sources.values())
    text = str(e)
    for part in ("2 graphs", "2 ops", "1 graph break", "sin", "add", "B106: "):
        assert part in text


def test_an_explanation_is_short_in_a_debugger() -> None:
    e = jitpkg.explain(broken, backend="eager")(X)
    assert repr(e) == f"<Explanation: {str(e).splitlines()[0]}>"


def test_explain_uses_and_changes_nothing_that_was_compiled(backend: Counts) -> None:
    f = jitpkg.jit(fresh(sine), backend=backend)
    f(X)
    assert jitpkg.explain(f)(X).graph_count == 1
    f(X)
    assert len(backend.graphs) == 1


def test_explain_of_a_module_and_with_settings(backend: Counts) -> None:
    e = jitpkg.explain(Net(), backend=backend)(X)
    assert (e.graph_count, e.graph_break_count) == (1, 0)
    assert len(backend.graphs) == 1


def test_explain_says_why_something_was_compiled_again() -> None:
    explained = jitpkg.explain(fresh(affine))
    assert explained(X).recompiles == []
    assert explained(X, 5).recompiles == ["affine, because k is 5; built for 2"]


# Recompiling


def test_recompile_limit(C: Any, backend: Counts) -> None:
    f = C(fresh(affine), backend=backend, dynamic=False)
    with config.patch(recompile_limit=3):
        for k in range(3):
            assert torch.equal(f(X, k), affine(X, k))
        with pytest.warns(UserWarning, match=r"^affine has been compiled 3 times") as caught:
            assert torch.equal(f(X, 4), affine(X, 4))
        assert "The last call did not fit because k is 4; built for 2." in str(caught[0].message)
        for k in range(6):
            assert torch.equal(f(X, k), affine(X, k))
    assert len(caught) == 1
    assert len(backend.graphs) == 3


# Errors and events


def test_exceptions_form_a_tree() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert all(issubclass(c, errors.JitpkgError | errors.JitpkgWarning) for c in classes)
    assert {c.__name__ for c in classes} == {
        "JitpkgError",
        "InvalidArgument",
        "NotCompilable",
        "BackendError",
        "NativeError",
        "IncorrectResult",
        "InternalError",
        "GraphBreak",
        "RecompileForbidden",
        "RecompileLimit",
        "SizeSpecialized",
        "JitpkgWarning",
    }


def listened(run: Callable[[], Any]) -> Iterator[events.Event]:
    found: list[events.Event] = []
    with events.STREAM.listening(found.append):
        run()
    yield from found


def test_events_tell_the_story(C: Any) -> None:
    f = C(fresh(broken))
    kinds = [type(event).__name__ for event in listened(lambda: f(X))]
    assert kinds == [
        "CompileStarted",
        *("Traced", "Broke", "GraphCompiled", "EntryAdded"),
        "CompileEnded",
        "CompileStarted",
        *("Traced", "GraphCompiled", "EntryAdded"),
        "CompileEnded",
    ]
    kinds = [type(event).__name__ for event in listened(lambda: f(X))]
    assert kinds == ["CodeEmitted"]  # the exit is met again
    assert not list(listened(lambda: f(X)))
