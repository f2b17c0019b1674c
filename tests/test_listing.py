"""Generated functions have files of their own names, for as long as they live."""

import gc
import importlib
import linecache
import traceback
from dataclasses import replace

import pytest
import torch
from torch import fx

import jitpkg
from jitpkg import listing
from jitpkg.internals import library


def function_of(source: str, name: str):
    file = listing.file_name(name)
    namespace: dict[str, object] = {}
    exec(compile(source, file, "exec"), namespace)
    made = namespace["f"]
    listing.keep(made, source)
    return made


def test_names_are_unique_among_the_living() -> None:
    a = function_of("def f(): return 1\n", "test_listing.same")
    b = function_of("def f(): return 2\n", "test_listing.same")
    files = [f.__code__.co_filename for f in (a, b)]
    assert files == ["<jitpkg test_listing.same>", "<jitpkg test_listing.same (2)>"]
    assert [linecache.getline(file, 1) for file in files] == [
        "def f(): return 1\n",
        "def f(): return 2\n",
    ]
    del a
    gc.collect()
    assert files[0] not in linecache.cache
    assert files[1] in linecache.cache


def test_two_models_of_one_class_do_not_share_a_file() -> None:
    made = [jitpkg.explain(torch.nn.Linear(n, 1))(torch.ones(n)) for n in (2, 3)]
    assert [m.graph_names for m in made] == [["Linear#0"], ["Linear#0"]]


def test_a_traceback_shows_generated_lines() -> None:
    f = function_of("def f():\n    raise ValueError('no')\n", "test_listing.raises")
    try:
        f()
    except ValueError as error:
        text = "".join(traceback.format_exception(error))
    assert 'File "<jitpkg test_listing.raises>", line 2, in f\n    raise ValueError' in text


def increment(x):
    return x + 1


def test_nothing_is_left_when_a_compiled_function_dies() -> None:
    gc.collect()
    before = {name for name in linecache.cache if name.startswith("<jitpkg")}
    compiled = jitpkg.compile(increment)
    compiled(torch.ones(2))
    assert {name for name in linecache.cache if name.startswith("<jitpkg")} > before
    del compiled
    gc.collect()
    assert {name for name in linecache.cache if name.startswith("<jitpkg")} <= before


def test_what_runs_when_a_graph_dies_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector may run in the midst of an import, which Python 3.11 cannot nest."""
    monkeypatch.setattr(library, "TEXTS", replace(library.TEXTS))  # as before it is first used
    graph = fx.symbolic_trace(lambda x: x + 1)
    file = graph.forward.__code__.co_filename
    listing.drop_with(graph, file)
    imported: list[str] = []
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda n: imported.append(n) or real(n))
    assert file in listing.texts_of_fx()
    imported.clear()
    monkeypatch.setattr(library, "TEXTS", replace(library.TEXTS))
    del graph
    gc.collect()
    assert imported == []
    assert file not in listing.texts_of_fx()
