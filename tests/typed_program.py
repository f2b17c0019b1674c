"""Every public name in each of its forms, for mypy to check in `test_typing.py`; nobody runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, assert_type

import torch
from torch import Tensor, fx, nn

import jitpkg

# Functions and methods keep their signatures


@jitpkg.jit
def scaled(x: Tensor, factor: float = 1.0, *, bias: Tensor | None = None) -> Tensor:
    return x * factor if bias is None else x * factor + bias


@jitpkg.jit(fullgraph=True, dynamic=None, backend="eager", mode="default")
def doubled(x: Tensor) -> Tensor:
    return x + x


@jitpkg.compile(backend="eager", options=None, disable=False)
def halved(x: Tensor) -> Tensor:
    return x / 2


def size(x: Tensor) -> int:
    return x.numel()


x = torch.ones(3)
assert_type(scaled(x, 2.0, bias=x), Tensor)
assert_type(doubled(x), Tensor)
assert_type(halved(x), Tensor)
assert_type(jitpkg.compile(size)(x), int)
assert_type(jitpkg.jit(size)(x), int)
scaled("x")  # type: ignore[arg-type]
doubled(x, x)  # type: ignore[call-arg]
jitpkg.compile(size)("x")  # type: ignore[arg-type]
jitpkg.jit(size, fullgraf=True)  # type: ignore[call-overload]
jitpkg.compile(3)  # type: ignore[call-overload]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.linear(x))

    @jitpkg.jit
    def again(self, x: Tensor) -> Tensor:
        return x.relu()


assert_type(jitpkg.compile(Model()), Model)
assert_type(jitpkg.jit(Model()), Model)
assert_type(jitpkg.compile(Model()).linear, nn.Linear)
assert_type(Model().again(x), Tensor)


# What was compiled

explanation = jitpkg.explain(scaled)(x, factor=2.0)
assert_type(explanation, jitpkg.Explanation)
assert_type(explanation.graph_count, int)
assert_type(explanation.out_guards, list[str])
assert_type(explanation.break_reasons, list[jitpkg.errors.Break])
assert_type(jitpkg.explain(Model(), fullgraph=True)(x), jitpkg.Explanation)
jitpkg.explain(scaled)("x")  # type: ignore[arg-type]

with jitpkg.events.STREAM.listening(explanation.note):
    jitpkg.reset()


# Marks


@jitpkg.disable
def logged(x: Tensor) -> Tensor:
    jitpkg.graph_break("here")
    return x


@jitpkg.disable(recursive=False, reason="it talks to a database")
def stored(x: Tensor) -> Tensor:
    return x


assert_type(logged(x), Tensor)
assert_type(stored(x), Tensor)
assert_type(jitpkg.is_compiling(), bool)


# Backends, settings, logs, errors


@jitpkg.register_backend
def plain(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    return gm.forward


graph = fx.symbolic_trace(Model())
assert_type(plain(graph, [x]), Callable[..., Any])
plain(graph)  # type: ignore[call-arg]
assert_type(jitpkg.list_backends(), list[str])
jitpkg.register_backend(3)  # type: ignore[type-var]
jitpkg.compile(scaled, backend=plain)

jitpkg.set_logs("graphs,breaks")
jitpkg.set_logs(["guards"])
assert_type(jitpkg.config.recompile_limit, int)
assert_type(jitpkg.config.disable, bool)
assert_type(jitpkg.config.current(), jitpkg.config.Options)
settings: AbstractContextManager[jitpkg.config.Options] = jitpkg.config.patch(recompile_limit=2)

try:
    jitpkg.compile(scaled, fullgraph=True)(x)
except jitpkg.errors.GraphBreak as error:
    assert_type(error.graph_break.reason, jitpkg.errors.Reason)
