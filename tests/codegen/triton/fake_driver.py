"""Real binaries and Triton's own objects, with a driver that launches nothing: a program that says
what would be launched. It needs a process in which Triton compiles."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from jitpkg.codegen.kernels.compile import compile_graph
from jitpkg.codegen.triton import gpu
from jitpkg.codegen.triton.launch import Gpu, Launches
from jitpkg.codegen.triton.maker import TritonKernels
from jitpkg.codegen.triton.target import H200
from tests.codegen.fake_cuda import CUDA, graph_of
from tests.codegen.triton.sources import POINTWISE, SOFTMAX

FUNCTION, STREAM = 4321, 77

launched: list[dict[str, Any]] = []
loaded: list[str] = []


class Launcher:
    """In place of Triton's `CudaLauncher`."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.signature = list(src.signature.values())
        self.attributes = sorted(str(place[0]) for place in src.attrs)

    def __call__(self, *args: Any) -> None:
        x, y, z, stream, function, packed, said, enter, leave, *given = args
        assert len(given) == len(self.signature), (given, self.signature)
        assert (stream, function, said, enter, leave) == (STREAM, FUNCTION, None, None, None)
        numbers = [n for n, kind in zip(given, self.signature, strict=True) if kind[0] != "*"]
        launched.append(
            {
                "grid": [x, y, z],
                "warps": packed[0],
                "signature": self.signature,
                "numbers": numbers,
                "aligned": self.attributes,
            }
        )


class Utils:
    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> Any:
        assert binary.startswith(b"\x7fELF")
        loaded.append(name)
        return 1, FUNCTION, 32, 0, 1024

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": H200.shared}

    def unload_module(self, module: int) -> None:
        pass


class Driver:
    """In place of Triton's `CudaDriver`."""

    utils = Utils()
    launcher_cls = Launcher

    def get_current_device(self) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", H200.architecture, 32)


def block(x: Tensor, w: Tensor, b: Tensor) -> Any:
    """A part of a model."""
    hidden = F.gelu(F.layer_norm(x + b, (64,), w, b))
    scores = (hidden @ hidden.t() * 0.125).softmax(-1)
    return hidden, scores, (hidden.float() ** 2).sum()


def main() -> None:
    driver.set_active(Driver())
    device = Gpu(
        device=CUDA,
        target=H200,
        compile=gpu._compiled,
        stream=lambda index: STREAM,
        current=None,
        guard=lambda device: nullcontext(),
        enter=knobs.runtime.launch_enter_hook,
        leave=knobs.runtime.launch_exit_hook,
        seconds=lambda launch: 0.0,
        is_capturing=lambda: False,
    )
    launches = Launches(device)
    x, out = torch.empty(1001), torch.empty(1000)
    run = launches.runner(POINTWISE, 1)
    launches.wait(POINTWISE)
    run(x[:1000], out)
    run(x[1:], out)
    half = torch.empty(5, 37).half()
    launches.runner(SOFTMAX, 1)(half, half, 5, 48)

    def empty(*size: int) -> Any:
        return lambda: torch.empty(size, dtype=torch.bfloat16, device=CUDA)

    graph = graph_of(block, empty(4096, 64), empty(64), empty(64))
    before = len(loaded)
    report = compile_graph("block", graph, TritonKernels(CUDA, H200, launches)).report
    said = {
        "launched": launched,
        "loaded": loaded[before:],
        "kernels": [kernel.ops for kernel in report.kernels],
        "calls": report.calls,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
