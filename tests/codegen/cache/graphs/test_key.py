"""Keys: each thing that a graph's compilation depends on makes another one."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from torch._functorch import config as functorch_config

from jitpkg import native
from jitpkg.codegen.cache import graph_key as key
from jitpkg.codegen.cache.graph_key import facts_text, graph_key
from jitpkg.codegen.cpu.maker import CpuKernels
from jitpkg.codegen.kernels.maker import Maker
from jitpkg.codegen.options import Options
from jitpkg.codegen.triton import maker, version
from jitpkg.codegen.triton.target import H200, Target
from jitpkg.facts.tensor import facts_of
from jitpkg.marks import VARIES
from tests.codegen.triton.support import needs_triton
from tests.native.support import needs_llvm

pytestmark = needs_llvm

Graph = tuple[fx.GraphModule, list[Any]]


def key_of(
    gm: fx.GraphModule,
    given: list[Any],
    options: Options | None = None,
    made_by: Maker | None = None,
) -> str | None:
    return graph_key(gm, given, options or Options(), (made_by or CpuKernels()).depends())


def graph(function: Any = torch.add, *rest: Any, **named: Any) -> fx.GraphModule:
    made = fx.Graph()
    x, y = made.placeholder("x"), made.placeholder("y")
    called = made.call_function(function, (x, y, *rest), named)
    made.output((called,))
    return fx.GraphModule(torch.nn.Module(), made, class_name="graph")


def inputs() -> list[torch.Tensor]:
    return [torch.ones(4, 6), torch.ones(4, 6)]


def with_first(x: torch.Tensor) -> Graph:
    return graph(), [x, torch.ones(4, 6)]


def shared() -> Graph:
    x = torch.ones(4, 6)
    return graph(), [x, x.view(4, 6)]


def same() -> Graph:
    x = torch.ones(4, 6)
    return graph(), [x, x]


def in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(4, 6)


GRAPHS: dict[str, Callable[[], Graph]] = {
    "the graph itself": lambda: (graph(), inputs()),
    "another function": lambda: (graph(torch.sub), inputs()),
    "a constant": lambda: (graph(alpha=2), inputs()),
    "another constant": lambda: (graph(alpha=2.0), inputs()),
    "one of another type": lambda: (graph(alpha=True), inputs()),
    "a constant by position": lambda: (graph(torch.add, 2), inputs()),
    "dtype": lambda: with_first(torch.ones(4, 6, dtype=torch.float64)),
    "sizes": lambda: with_first(torch.ones(1, 6)),
    "strides": lambda: with_first(torch.ones(6, 4).T),
    "requires grad": lambda: with_first(torch.ones(4, 6, requires_grad=True)),
    "no leaf": lambda: with_first(torch.ones(4, 6, requires_grad=True) * 2),
    "a parameter": lambda: with_first(torch.nn.Parameter(torch.ones(4, 6))),
    "inference tensor": lambda: with_first(in_inference_mode()),
    "shared memory": shared,
    "the same tensor": same,
}


def test_each_graph_has_a_key_of_its_own() -> None:
    keys = {title: key_of(*make()) for title, make in GRAPHS.items()}
    again = {title: key_of(*make()) for title, make in GRAPHS.items()}
    assert keys == again
    assert None not in keys.values()
    assert len(set(keys.values())) == len(GRAPHS)


OPTIONS = [
    Options(fused_random=True),
    Options(precision="fused"),
    Options(max_autotune=True),
    Options(cudagraphs=True),
    Options(backward="aot"),
]


def test_each_option_makes_another_key() -> None:
    assert len(OPTIONS) == len(Options.__slots__)
    keys = {key_of(graph(), inputs(), options) for options in (Options(), *OPTIONS)}
    assert len(keys) == 1 + len(OPTIONS)
    assert replace(OPTIONS[0], fused_random=False) == Options()


@contextmanager
def set_by(setter: Callable[[Any], object], value: Any, before: Any) -> Iterator[None]:
    setter(value)
    try:
        yield
    finally:
        setter(before)


@contextmanager
def changed_functorch() -> Iterator[None]:
    with set_by(lambda value: setattr(functorch_config, "cse", value), False, functorch_config.cse):
        yield


def variable() -> AbstractContextManager[None]:
    context = pytest.MonkeyPatch.context()

    @contextmanager
    def changed() -> Iterator[None]:
        with context as patch:
            patch.setenv("TORCH_SOMETHING", "1")
            yield

    return changed()


THREADS = torch.get_num_threads()
ORDER = torch._C._get_sdp_priority_order()  # type: ignore[attr-defined]
STATES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "grad mode": torch.no_grad,
    "inference mode": torch.inference_mode,
    "default dtype": lambda: set_by(torch.set_default_dtype, torch.float64, torch.float32),
    "threads": lambda: set_by(torch.set_num_threads, THREADS + 1, THREADS),
    "deterministic": lambda: set_by(torch.use_deterministic_algorithms, True, False),
    "precision of products": lambda: set_by(
        torch.set_float32_matmul_precision, "medium", torch.get_float32_matmul_precision()
    ),
    "attention": lambda: set_by(torch.backends.cuda.enable_flash_sdp, False, True),
    "order of attention": lambda: set_by(
        torch._C._set_sdp_priority_order,
        ORDER[::-1],
        ORDER,  # type: ignore[attr-defined]
    ),
    "cuDNN": lambda: set_by(torch._C._set_cudnn_enabled, False, True),
    "mkldnn": lambda: set_by(torch._C._set_mkldnn_enabled, False, True),
    "fast path": lambda: set_by(torch.backends.mha.set_fastpath_enabled, False, True),
    "settings of AOTAutograd": changed_functorch,
    "environment": variable,
}


def test_each_state_of_torch_has_a_key_of_its_own() -> None:
    keys = [key_of(graph(), inputs())]
    for state in STATES.values():
        given = inputs()
        with state():
            keys.append(key_of(graph(), given))
    assert None not in keys
    assert len(set(keys)) == 1 + len(STATES)
    assert key_of(graph(), inputs()) == keys[0]


PROCESSES: dict[str, tuple[Any, str, Any]] = {
    "Python": (key.sys, "version", "3.99"),
    "torch": (torch, "__version__", "9.9"),
    "processor, llvmlite": (native, "target", lambda: "another"),
    "binding": (native, "binding", lambda: "another"),
    "torch's threads": (native, "has", lambda symbol: "another"),
    "jitpkg": (key, "source", lambda: "another"),
    "format": (key, "FORMAT", "0"),
}


@pytest.fixture
def anew() -> Iterator[None]:
    key._process.cache_clear()
    key.source.cache_clear()
    source = key.source
    yield
    key._process.cache_clear()
    source.cache_clear()


@pytest.mark.parametrize("what", PROCESSES)
def test_each_part_of_the_process_is_in_the_key(
    anew: None, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    before = key_of(graph(), inputs())
    key._process.cache_clear()
    monkeypatch.setattr(*PROCESSES[what])
    assert key_of(graph(), inputs()) not in (None, before)


def test_each_source_file_is_in_the_key(
    anew: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / name for name in ("a.py", "b.py")]
    for file in files:
        file.write_text("1")
        os.utime(file, (1e9, 1e9))
    monkeypatch.setattr(key, "_files", lambda: iter(files))
    seen = {key.source()}
    for file in files:
        file.write_text("2")
        os.utime(file, (1e9, 1e9))
        key.source.cache_clear()
        seen.add(key.source())
    assert len(seen) == 3


def test_no_key_where_the_source_is_not_what_runs(
    anew: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "edited.py"
    file.write_text("1")
    os.utime(file, (key._BEGAN + 10,) * 2)
    monkeypatch.setattr(key, "_files", lambda: iter([file]))
    assert key_of(graph(), inputs()) is None


def varying() -> Graph:
    made = graph()
    made.meta[VARIES] = [frozenset({0}), frozenset()]
    return made, inputs()


def holding() -> Graph:
    return graph(torch.where, torch.ones(1)), inputs()


UNKNOWN: dict[str, Callable[[], Graph]] = {
    "sizes that vary": varying,
    "a tensor in the graph": holding,
    "a number as input": lambda: (graph(), [torch.ones(2), 3]),
    "a subclass": lambda: with_first(torch.ones(2).as_subclass(type("T", (torch.Tensor,), {}))),
    "sparse": lambda: with_first(torch.ones(2).to_sparse()),
    "another device": lambda: with_first(torch.ones(2, device="meta")),
    "a function of the program": lambda: (graph(lambda x, y: x), inputs()),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_cannot_be_told_has_no_key(what: str) -> None:
    assert key_of(*UNKNOWN[what]()) is None


def test_autocast_has_no_key() -> None:
    with torch.autocast("cpu"):
        assert key_of(graph(), inputs()) is None


def test_devices_are_in_the_key() -> None:
    facts = facts_of(torch.ones(4, 6))
    devices = "cpu", "cuda:0", "cuda:1"
    texts = [str(facts_text(replace(facts, device=torch.device(each)))) for each in devices]
    assert len(set(texts)) == len(devices)


@needs_triton
def test_the_gpu_and_triton_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(target: Target) -> str | None:
        made = maker.TritonKernels(torch.device("cpu"), target, maker.Interprets())
        return key_of(graph(), inputs(), made_by=made)

    keys = [of(H200), of(replace(H200, processors=2)), of(replace(H200, capability=(8, 0)))]
    monkeypatch.setattr(version, "version", lambda package: "9.9")
    keys.append(of(H200))
    assert len({*keys, key_of(graph(), inputs())}) == 5
    assert None not in keys
