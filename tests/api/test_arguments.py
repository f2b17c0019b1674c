"""Arguments of `jit` and `compile`, and what becomes of a function."""

import copy
import inspect
import pickle
import types
import typing
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import errors, events
from jitpkg.codegen.backends import REGISTRY
from tests.api.support import Counts, X, affine, fresh, sine


@jitpkg.jit
def module_level(x: torch.Tensor) -> torch.Tensor:
    """Found again by a pickle."""
    return x.cos() * 2


# Names and arguments


PUBLIC = [
    name for name in jitpkg.__all__ if not isinstance(getattr(jitpkg, name), types.ModuleType)
]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name: str) -> None:
    text = inspect.getdoc(getattr(jitpkg, name))
    assert text and text.splitlines()[0].endswith((".", ":")), text


NEWER = ["name", "recompile_limit", "isolate_recompiles"]
"""Arguments that torch.compile does not have in version 2.11."""


def test_names_and_defaults_of_arguments_are_torch_compile_s() -> None:
    theirs = inspect.signature(torch.compile).parameters
    ours = inspect.signature(jitpkg.compile).parameters
    shared = [name for name in ours if name != "backend" and name in theirs]
    assert set(ours) - set(theirs) <= {"others", *NEWER}
    assert set(theirs) - set(ours) <= {"shapes_spec", "dynamic_shapes"}
    assert [(n, ours[n].default, ours[n].kind) for n in shared] == [
        (n, theirs[n].default, theirs[n].kind) for n in shared
    ]
    assert ours["backend"].default is None


def test_without_a_backend_it_is_the_one_that_is_set(
    C: Any, backend: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTRY._backends, "counts", backend)
    with jitpkg.config.patch(backend="counts"):
        f = C(fresh(sine))
    f(X)
    assert len(backend.graphs) == 1
    with (
        jitpkg.config.patch(backend="cuonts"),
        pytest.raises(errors.InvalidArgument, match="Do you mean 'counts'"),
    ):
        C(fresh(sine))


def test_jit_takes_what_compile_takes() -> None:
    jit, compile_ = inspect.signature(jitpkg.jit), inspect.signature(jitpkg.compile)
    more = {"each"}
    assert [n for n in jit.parameters if n not in more][1:] == list(compile_.parameters)[1:]
    defaults = [p.default for n, p in jit.parameters.items() if n not in more]
    assert defaults == [p.default for p in compile_.parameters.values()]


def test_arguments_of_disable_are_torch_s() -> None:
    theirs = inspect.signature(torch.compiler.disable).parameters
    ours = inspect.signature(jitpkg.disable).parameters
    assert [(p.name, p.default, p.kind) for p in ours.values()] == [
        (p.name, p.default, p.kind) for p in theirs.values()
    ]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "backend": (
        {"backend": "egaer"},
        "There is no backend 'egaer'. Do you mean 'eager'? The backends are: ",
    ),
    "backend, no name": ({"backend": 3}, "backend= takes a name or a function, not 3."),
    "mode": (
        {"mode": "fast"},
        "There is no mode 'fast'. The modes are: default, reduce-overhead, max-autotune, max-",
    ),
    "mode and options": (
        {"mode": "default", "options": {"a": 1}, "backend": lambda gm, inputs, options: gm},
        "Give either mode= or options=, not both.",
    ),
    "options": ({"options": {"a": 1}}, "The backend 'eager' takes no options; a given."),
    "options, no dict": ({"options": 3}, "options= takes a dict, not 3."),
    "fullgraph": ({"fullgraph": 1}, "fullgraph= takes True, False, not 1."),
    "dynamic": ({"dynamic": "yes"}, "dynamic= takes True, False, None, not 'yes'."),
    "name": ({"name": 3}, "name= takes a string, not 3."),
    "limit": ({"recompile_limit": 0}, "recompile_limit= takes a number from 1 on, not 0."),
    "isolated": ({"isolate_recompiles": 1}, "isolate_recompiles= takes True, False, not 1."),
    "shapes": (
        {"shapes_spec": None},
        "{}() has no argument 'shapes_spec'. Say which sizes vary with mark_dynamic, ",
    ),
    "misspelt": ({"full_graph": 1}, "{}() has no argument 'full_graph'. Do you mean 'fullgraph'?"),
    "disable": ({"disable": "no"}, "disable= takes True, False, not 'no'."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused_at_once(C: Any, name: str) -> None:
    arguments, text = REFUSED[name]
    for call in (lambda: C(fresh(sine), **arguments), lambda: C(**arguments)):
        with pytest.raises(errors.InvalidArgument) as caught:
            call()
        assert str(caught.value).startswith(text.format(C.__name__))
        assert isinstance(caught.value, ValueError)


def test_a_name_for_reports(C: Any, recwarn: pytest.WarningsRecorder) -> None:
    seen: list[str] = []
    f = C(lambda x, k: x + len(k), name="my region", recompile_limit=1)
    with events.STREAM.listening(lambda event: seen.append(str(event))):
        for k in "a", "bb":
            f(X, k)
    assert any("entry='my region#0'" in text for text in seen)
    (warning,) = recwarn.list
    assert str(warning.message).startswith("my region has been compiled 1 times")


@pytest.mark.parametrize("isolated", [True, False])
def test_entries_are_counted_by_each_compiled_version(isolated: bool) -> None:
    f, found = fresh(affine), Counts()
    versions = [
        jitpkg.compile(f, backend=found, recompile_limit=1, isolate_recompiles=isolated)
        for _ in range(3)
    ]
    for g in versions:
        assert torch.equal(g(X), affine(X))
    assert len(found.graphs) == 3


# Ways of calling them


def test_decorator_without_arguments(C: Any) -> None:
    @C
    def f(x):
        return x.sin() + 1

    assert torch.equal(f(X), sine(X))


def test_decorator_with_arguments(C: Any, backend: Counts) -> None:
    @C(backend=backend, fullgraph=True)
    def f(x):
        return x.sin() + 1

    assert torch.equal(f(X), sine(X))
    assert len(backend.graphs) == 1


def test_decorator_with_empty_parentheses(C: Any) -> None:
    @C()
    def f(x):
        return x.sin() + 1

    assert torch.equal(f(X), sine(X))


def test_jit_returns_the_very_same_function() -> None:
    f = fresh(sine)
    assert jitpkg.jit(f) is f
    assert jitpkg.jit(f, fullgraph=True) is f


def test_compile_leaves_the_original_as_it_is(backend: Counts) -> None:
    f = fresh(sine)
    code = f.__code__
    g = jitpkg.compile(f, backend=backend)
    assert g is not f
    assert f.__code__ is code
    f(X)
    assert not backend.graphs
    g(X)
    assert len(backend.graphs) == 1


@pytest.mark.parametrize("function", [affine, sine])
def test_what_a_compiled_function_looks_like(C: Any, function: Any) -> None:
    f = C(fresh(function))
    f(X)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
        assert getattr(f, name) == getattr(function, name)
    assert inspect.signature(f) == inspect.signature(function)
    assert inspect.getsource(f) == inspect.getsource(function)
    assert inspect.getfile(f) == inspect.getfile(function)
    assert typing.get_type_hints(f) == typing.get_type_hints(function)
    assert f.__defaults__ == function.__defaults__
    assert f.__kwdefaults__ == function.__kwdefaults__
    assert f.__code__.co_name == function.__name__
    assert copy.deepcopy(f) is f
    assert callable(f) and inspect.isfunction(f)


def test_the_original_is_reached_through_wrapped() -> None:
    f = fresh(affine)
    assert inspect.unwrap(jitpkg.compile(f)).__code__ in (f.__code__, affine.__code__)


def test_pickle_by_name() -> None:
    module_level(X)
    assert pickle.loads(pickle.dumps(module_level)) is module_level


def test_disabled_by_an_argument(C: Any, backend: Counts) -> None:
    f = fresh(sine)
    code = f.__code__
    assert C(f, backend=backend, disable=True) is f
    assert f.__code__ is code


def test_one_function_compiled_again(C: Any, backend: Counts) -> None:
    """The second call replaces what the first has made."""
    f = C(C(fresh(affine)), backend=backend)
    assert torch.equal(f(X), affine(X))
    assert torch.equal(f(X, 3, n=4), affine(X, 3, n=4))
    assert len(backend.graphs) == 2
