import pytest

from tests.codegen.cache.graphs.support import Process
from tests.codegen.triton.support import needs_triton
from tests.native.support import needs_llvm


@pytest.fixture(
    params=[pytest.param("", marks=needs_llvm), pytest.param("triton", marks=needs_triton)],
    ids=["cpu", "triton"],
)
def each_process(
    request: pytest.FixtureRequest, process: Process, monkeypatch: pytest.MonkeyPatch
) -> Process:
    """A process whose kernels are made for the CPU, or by Triton, for its interpreter."""
    monkeypatch.setenv("JITPKG_DEBUG", request.param)
    return process
