"""The backend's whole way for tensors on a GPU that is not there: all but the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import jitpkg
from jitpkg import events
from jitpkg.codegen import backend as own
from jitpkg.codegen import cache
from jitpkg.codegen.triton import maker
from jitpkg.codegen.triton.launch import Launches
from jitpkg.codegen.triton.target import H200
from jitpkg.facts import fake
from tests.codegen.fake_cuda import CUDA
from tests.codegen.triton.support import needs_triton
from tests.codegen.triton.test_launch import Recorder

pytestmark = needs_triton


class Compiled:
    """What the backend is asked for, and what it makes of it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.fused: list[events.Fused] = []
        self.texts: list[str] = []

    def backend(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        with events.STREAM.listening(self._note):
            own.compile_graph_module(gm, inputs, own.Options())
        return gm.forward

    def _note(self, event: events.Event) -> None:
        match event:
            case events.Fused():
                self.fused.append(event)
            case events.KernelCompiled(text=text):
                self.texts.append(text)

    def calls(self) -> list[str]:
        """Of all graphs."""
        return [call for event in self.fused for call in event.calls]


@pytest.fixture
def compiled(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiled]:
    """As if all inputs were on a GPU."""
    recorder = Recorder()

    def moved(made: fake.Fakes) -> fake.Fakes:
        with made.mode:
            there = [x.to(CUDA) if isinstance(x, Tensor) else x for x in made.values]
        return fake.Fakes(made.mode, there, made.varies)

    real, varying = fake.fakes, fake.varying
    monkeypatch.setattr(fake, "fakes", lambda tensors: moved(real(tensors)))
    monkeypatch.setattr(fake, "varying", lambda *given: moved(varying(*given)))
    monkeypatch.setattr(maker, "launches_on", lambda device, *, tunes: Launches(recorder.gpu()))
    kernels = maker.TritonKernels(CUDA, H200, Launches(recorder.gpu()))
    monkeypatch.setattr(own, "_maker", lambda options, device: (kernels, ""))
    monkeypatch.setenv("JITPKG_CACHE_DIR", str(tmp_path / "cache"))
    cache.kernels.cache_clear()
    with torch.no_grad():
        yield Compiled(recorder)
    cache.kernels.cache_clear()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        heads = [
            t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1)
        ]
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return x + functional.gelu(self.out(attended.transpose(1, 2).flatten(-2)))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ).eval()


def rows(x: Tensor) -> tuple[Tensor, ...]:
    return x.softmax(-1), x.exp().sum(0), x.argmax(-1), x.cumsum(-1)


PROGRAMS: dict[
    str, tuple[Callable[[], Callable[..., Any]], tuple[int, ...], set[str], set[str]]
] = {
    "rows": (lambda: rows, (6, 40), set(), {"softmax", "exp", "argmax", "cumsum"}),
    "attention": (Attention, (2, 6, 16), {"addmm"}, {"native_layer_norm", "gelu", "add"}),
    "convolutions": (convolutions, (2, 3, 9, 9), {"convolution"}, {"relu", "mean"}),
}
"""Each with the size of its input, ops that are called, and ops that are in kernels."""


def check_calls(compiled: Compiled, called: set[str], fused: set[str]) -> None:
    assert called <= set(compiled.calls())
    kernels = [kernel for event in compiled.fused for kernel in event.kernels]
    assert fused <= {op for kernel in kernels for op in kernel.ops}
    assert not fused & set(compiled.calls())
    assert compiled.texts


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_graph_is_compiled_once_for_all_processes(
    compiled: Compiled, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, size, called, fused = PROGRAMS[title]
    function = make()
    jitpkg.compile(function, backend=compiled.backend, fullgraph=True)(torch.ones(size))
    check_calls(compiled, called, fused)
    assert not any(", n0, " in text for text in compiled.texts)
    found = Compiled(compiled.recorder)
    cache.kernels.cache_clear()
    monkeypatch.setattr(own, "_through_aot", None)
    jitpkg.compile(function, backend=found.backend, fullgraph=True)(torch.ones(size))
    assert sorted(found.texts) == sorted(set(compiled.texts))
    assert [event.kernels for event in found.fused] == [event.kernels for event in compiled.fused]


@pytest.mark.parametrize("title", ["rows", "convolutions"])
def test_sizes_that_vary_are_one_compilation(compiled: Compiled, title: str) -> None:
    """Attention asks for a GPU then."""
    make, size, called, fused = PROGRAMS[title]
    fast = jitpkg.compile(make(), backend=compiled.backend, fullgraph=True, dynamic=True)
    fast(torch.ones(size))
    check_calls(compiled, called, fused)
    assert any(", n0, " in text for text in compiled.texts)
    assert len(compiled.fused) == 1
