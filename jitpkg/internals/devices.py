"""GPUs: streams, and what CUDA graphs need."""

from __future__ import annotations

from collections.abc import Callable

import torch.backends.cuda

from jitpkg.internals.row import Row

_has_cuda: Callable[[], bool] = vars(torch.backends.cuda)["is_built"]


def _stream_of() -> Callable[[int], int]:
    return lambda device: torch.cuda.current_stream(device).cuda_stream


RAW_STREAM = Row[Callable[[int], int]](
    "torch._C._cuda_getCurrentRawStream",
    only_if=_has_cuda,
    use="launching kernels on the current stream",
    lost="torch.cuda.current_stream says which it is, in some microseconds",
    instead=_stream_of,
)


def _current_device() -> Callable[[], int]:
    return torch.cuda.current_device


CURRENT_DEVICE = Row[Callable[[], int]](
    "torch._C._cuda_getDevice",
    only_if=_has_cuda,
    use="seeing which GPU is the current one at each launch",
    lost="torch.cuda.current_device says it, which is slower",
    instead=_current_device,
)


_NO_GRAPHS = "nothing is launched as a CUDA graph"
CLEAR_WORKSPACES = Row[Callable[[], object]](
    "torch._C._cuda_clearCublasWorkspaces",
    only_if=_has_cuda,
    use="having cuBLAS's workspace in a CUDA graph's own memory",
    lost=_NO_GRAPHS,
)
STORAGE_USES = Row[Callable[[int], int]](
    "torch._C._storage_Use_Count",
    use="seeing that nobody has a CUDA graph's results any more",
    lost=_NO_GRAPHS,
)
