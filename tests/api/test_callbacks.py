"""`jitpkg.on_compile_start` and `on_compile_end`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import events
from jitpkg.errors import GraphBreak, InvalidArgument, JitpkgWarning


def double(x: Any) -> Any:
    return x * 2


def test_each_compilation_is_heard_of() -> None:
    started: list[events.CompileStarted] = []
    ended: list[events.CompileEnded] = []
    compiled = jitpkg.compile(double, backend="eager")
    with jitpkg.on_compile_start(started.append), jitpkg.on_compile_end(ended.append):
        for n in (2, 2, 3, 4):
            compiled(torch.ones(n))
    assert [event.entry for event in started] == ["double#0", "double#1"]
    assert [event.entry for event in ended] == ["double#0", "double#1"]
    assert all(event.function == "double" and event.seconds > 0 for event in ended)
    compiled(torch.ones(2, 2))
    assert len(started) == 2


def test_a_handle_ends_it() -> None:
    heard: list[Any] = []
    handle = jitpkg.on_compile_start(heard.append)
    handle.remove()
    handle.remove()
    jitpkg.compile(double, backend="eager")(torch.ones(2))
    assert not heard


def test_in_turn_though_it_fails() -> None:
    heard: list[Any] = []

    def broken(x: Any) -> Any:
        return x.sum().item() > 3 and x

    compiled = jitpkg.compile(broken, backend="eager", fullgraph=True)
    with (
        jitpkg.on_compile_start(heard.append),
        jitpkg.on_compile_end(heard.append),
        pytest.raises(GraphBreak),
    ):
        compiled(torch.ones(3))
    assert [type(event) for event in heard] == [events.CompileStarted, events.CompileEnded]


def test_what_a_callback_raises_is_a_warning() -> None:
    def fails(event: events.CompileStarted) -> None:
        raise KeyError(event.entry)

    compiled = jitpkg.compile(double, backend="eager")
    with (
        jitpkg.on_compile_start(fails),
        pytest.warns(JitpkgWarning, match=r"on_compile_start failed \(KeyError: 'double#0'\)"),
    ):
        assert compiled(torch.ones(2)).tolist() == [2, 2]


def test_it_takes_a_function() -> None:
    with pytest.raises(InvalidArgument, match="takes a function of one event, not 3"):
        jitpkg.on_compile_start(3)  # type: ignore[arg-type]
