"""The options of the backend `jitpkg`: by mode, by name, refused with the nearest name."""

import importlib
import inspect
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.codegen.backends import configured
from jitpkg.codegen.options import MODES, Options, WithOptions
from jitpkg.errors import InvalidArgument

INDUCTOR: Any = importlib.import_module("torch._inductor")


def test_the_modes_are_those_of_torch() -> None:
    assert set(MODES) == set(INDUCTOR.list_mode_options()) - {"lite"}


def test_a_mode_is_listed_as_the_options_that_it_sets() -> None:
    assert jitpkg.list_mode_options() == {mode: jitpkg.list_mode_options(mode) for mode in MODES}
    assert jitpkg.list_mode_options("default") == {}
    for mode in MODES:
        listed = jitpkg.list_mode_options(mode)
        assert set(listed) <= set(jitpkg.list_options())
        assert Options.of(mode, None) == Options.of(None, listed) == Options(**listed)
    assert len({Options.of(mode, None) for mode in MODES}) == len(MODES)


def test_listing_gives_nothing_away() -> None:
    jitpkg.list_mode_options()["default"]["precision"] = "fused"
    jitpkg.list_mode_options("default")["precision"] = "fused"
    jitpkg.list_options().clear()
    assert Options.of("default", None) == Options()
    assert jitpkg.list_options()


def test_arguments_are_torch_s() -> None:
    theirs = inspect.signature(INDUCTOR.list_mode_options).parameters["mode"]
    ours = inspect.signature(jitpkg.list_mode_options).parameters["mode"]
    assert (ours.name, ours.default, ours.kind) == (theirs.name, theirs.default, theirs.kind)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, Options()),
        ({}, Options()),
        ({"fused_random": True}, Options(fused_random=True)),
        ({"fused-random": True}, Options(fused_random=True)),
        ({"precision": "fused"}, Options(precision="fused")),
        ({"precision": "eager", "max_autotune": True}, Options(max_autotune=True)),
    ],
)
def test_options_by_name(options: Any, expected: Options) -> None:
    assert Options.of(None, options) == expected


def test_options_are_frozen_and_compared() -> None:
    with pytest.raises(FrozenInstanceError):
        Options().precision = "fused"  # type: ignore[misc]
    assert hash(Options()) == hash(Options.of("default", {}))


ALL = "The options are: fused_random, precision, max_autotune, cudagraphs, backward."


@pytest.mark.parametrize(
    ("mode", "options", "text"),
    [
        (None, {"precison": "fused"}, f"no option 'precison'. Do you mean 'precision'? {ALL}"),
        (
            None,
            {"max-autotun": True},
            f"no option 'max-autotun'. Do you mean 'max_autotune'? {ALL}",
        ),
        (None, {"triton.cudagraphs": True}, "Do you mean 'cudagraphs'? "),
        (None, {"q": True}, f"no option 'q'. {ALL}"),
        (None, {3: True}, f"no option 3. {ALL}"),
        (None, {"precision": "fast"}, "'precision' takes 'eager' or 'fused', not 'fast'."),
        (None, {"precision": None}, "'precision' takes 'eager' or 'fused', not None."),
        (None, {"precision": ["eager"]}, "'precision' takes 'eager' or 'fused', not ['eager']."),
        (None, {"fused_random": 1}, "'fused_random' takes True or False, not 1."),
        (None, {"fused-random": "yes"}, "'fused-random' takes True or False, not 'yes'."),
        ("max-autotun", None, "no mode 'max-autotun'. Do you mean 'max-autotune'? The modes are: "),
        ("lite", None, "There is no mode 'lite'. The modes are: default, reduce-overhead, max"),
        (["default"], None, "There is no mode ['default']. The modes are: "),
    ],
)
def test_what_is_not_known_is_refused(mode: Any, options: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Options.of(mode, options)
    assert text in str(caught.value)


def test_unknown_modes_cannot_be_listed() -> None:
    with pytest.raises(InvalidArgument, match="Do you mean 'reduce-overhead'"):
        jitpkg.list_mode_options("reduce_overhead")


# A backend with options


def returned(gm: Any, inputs: list[Any], options: Options) -> Any:
    return lambda *_: options


def test_a_backend_is_configured() -> None:
    backend = WithOptions(returned)
    assert backend(None, [])() == Options()
    fused = configured("jitpkg", backend, None, {"precision": "fused"})
    assert fused(None, [])() == Options(precision="fused")
    tuned = configured("jitpkg", backend, "max-autotune", None)
    assert tuned(None, [])() == Options(max_autotune=True, cudagraphs=True)
    assert configured("jitpkg", tuned, None, None)(None, [])() == Options()
    with pytest.raises(InvalidArgument, match="Do you mean 'precision'"):
        configured("jitpkg", backend, None, {"precison": "fused"})


def test_torch_gives_options_with_each_graph() -> None:
    backend = WithOptions(returned, Options(precision="fused"))
    assert backend(None, [])() == Options(precision="fused")
    assert backend(None, [], mode="max-autotune-no-cudagraphs")() == Options(max_autotune=True)
    assert backend(None, [], options={"fused_random": True})() == Options(fused_random=True)
    with pytest.raises(InvalidArgument):
        backend(None, [], mode="fast")


@pytest.mark.parametrize("compile_", [jitpkg.jit, jitpkg.compile])
def test_options_reach_the_backend(compile_: Any) -> None:
    seen: list[Options] = []

    def eager(gm: Any, inputs: list[Any], options: Options) -> Any:
        seen.append(options)
        return gm.forward

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    backend = WithOptions(eager)
    f = compile_(doubled, backend=backend, options={"precision": "fused"})
    assert f(torch.ones(2)).tolist() == [2, 2]
    assert seen == [Options(precision="fused")]
    with pytest.raises(InvalidArgument, match=r"Do you mean 'fused_random'\?"):
        compile_(lambda x: x, backend=backend, options={"fused_randm": True})
