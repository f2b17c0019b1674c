"""How many Triton kernels TorchInductor launches for a graph on an H200, where none needs to be.

Inductor's own code runs as far as the text of its wrapper. The graph is differentiated and
decomposed as for the CPU, for a torch without CUDA cannot do otherwise; then its tensors are fake
ones that say that they are on a GPU, and passes, scheduler and Triton code generation run for that.
What Inductor asks of the GPU and its driver is answered here. Nothing is compiled or run.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._inductor.codegen.cuda_combined_scheduling
import triton.runtime
from torch import Tensor, fx
from torch._dynamo.device_interface import CudaInterface
from torch._functorch import config as functorch_config
from torch._inductor import compile_fx as fx_compiler
from torch._inductor import config
from torch._inductor.debug import DebugContext
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.backends.compiler import GPUTarget

GPU = torch.device("cuda", 0)

H200 = SimpleNamespace(
    name="NVIDIA H200",
    major=9,
    minor=0,
    multi_processor_count=132,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
    total_memory=140 << 30,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    L2_cache_size=50 << 20,
    gcnArchName="",
)


@dataclass(frozen=True)
class Launches:
    """What a compiled graph does."""

    kernels: int
    """Launches of Triton kernels."""
    distinct: int
    """Kernels that are compiled."""


class _Driver:
    """What Inductor asks Triton's driver."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0


def _inverted(x: Tensor) -> Tensor:
    """`~x`, of which the operator's binding asks for the GPU, and the op does not."""
    return torch.ops.aten.bitwise_not.default(x)  # type: ignore[no-any-return]


def _copied(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """`x.copy_`, of which the same holds. There is nothing to copy: the tensors are fake."""
    torch.broadcast_shapes(x.shape, source.shape)
    return x


@contextmanager
def pretended_gpu() -> Iterator[None]:
    """Torch and Triton say meanwhile that an H200 is there; nothing can run on it."""
    properties = DeviceProperties(
        type="cuda",
        index=0,
        multi_processor_count=H200.multi_processor_count,
        cc=90,
        major=9,
        regs_per_multiprocessor=H200.regs_per_multiprocessor,
        max_threads_per_multi_processor=H200.max_threads_per_multi_processor,
        max_threads_per_block=H200.max_threads_per_block,
        warp_size=32,
    )
    answers = {
        "torch.cuda.is_available": lambda: True,
        "torch.cuda.device_count": lambda: 1,
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.get_device_properties": lambda device=None: H200,
        "torch.cuda.get_device_capability": lambda device=None: (9, 0),
        "torch.cuda.get_rng_state": lambda device=None: torch.get_rng_state(),
        "torch.cuda.set_rng_state": lambda state, device=None: None,
        "torch.utils._triton.has_triton": lambda: True,
        # There is no memory that could be counted.
        "torch._inductor.compile_fx.get_cuda_device_context": lambda gm: ExitStack(),
    }
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch(name, answer))
        for of, name, answer in (
            (CudaInterface, "get_device_properties", H200),
            (DeviceProperties, "create", properties),
        ):
            stack.enter_context(mock.patch.object(of, name, return_value=answer))
        stack.enter_context(mock.patch.object(Tensor, "__invert__", _inverted))
        stack.enter_context(mock.patch.object(Tensor, "copy_", _copied))
        before = triton.runtime.driver._active
        triton.runtime.driver.set_active(_Driver())
        try:
            yield
        finally:
            triton.runtime.driver._active = before


def on_gpu(gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[fx.GraphModule, list[Any]]:
    """A graph and its inputs as they would be on a GPU: fake tensors, and its constants, too."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def moved(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        with mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=GPU)

    made = copy.deepcopy(gm)
    for node in made.graph.nodes:
        if isinstance(node.kwargs.get("device"), torch.device | str):
            node.kwargs = {**node.kwargs, "device": GPU}
        node.args = tuple(GPU if isinstance(a, torch.device) else a for a in node.args)
        if node.op == "get_attr" and isinstance(getattr(made, node.target, None), Tensor):
            setattr(made, node.target, moved(getattr(made, node.target)))
    made.recompile()
    return made, [moved(each) for each in inputs]


def launches(gm: fx.GraphModule, inputs: Sequence[Any]) -> Launches:
    """Count for a graph of torch functions; where an input requires grad, for both directions."""
    texts: list[str] = []

    def inner(graph: fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
        outputs = next(iter(graph.graph.find_nodes(op="output"))).args[0]
        values = [n.meta["val"] if isinstance(n, fx.Node) else n for n in outputs]
        texts.append(wrapper(*on_gpu(graph, example_inputs), **options))
        return lambda *given: values

    at_once = functorch_config.patch(force_non_lazy_backward_lowering=True)
    with V.set_debug_handler(DebugContext()), config.patch(fx_graph_cache=False), at_once:
        fx_compiler.compile_fx(copy.deepcopy(gm), inputs, inner_compile=inner)
    names = [
        (k, name)
        for k, text in enumerate(texts)
        for name in re.findall(r"^ +(triton_\w+)\.run\(", text, re.M)
    ]
    return Launches(len(names), len(set(names)))


def wrapper(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    is_inference: bool = False,
    is_backward: bool = False,
    **others: Any,
) -> str:
    """What Inductor writes for a graph of ATen ops: Python that launches kernels."""
    with pretended_gpu():
        view_to_reshape(graph)
        with torch.no_grad():
            mode = fx_compiler.fake_tensor_prop(graph, inputs)
        fx_compiler._recursive_record_original_output_strides(graph)
        with V.set_fake_mode(mode):
            fx_compiler._recursive_post_grad_passes(graph, is_inference=is_inference)
        lowered = GraphLowering(
            graph, example_inputs=inputs, is_inference=is_inference, is_backward=is_backward
        )
        with V.set_graph_handler(lowered), V.set_fake_mode(mode):
            lowered.run(*inputs)
            text = lowered.codegen()[0]
    return str(getattr(text, "value", text))
