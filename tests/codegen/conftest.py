"""What makes the kernels of a test."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitpkg.codegen import cache
from tests.codegen.cache.graphs.support import Process


@pytest.fixture
def by_triton(monkeypatch: pytest.MonkeyPatch) -> str:
    """Kernels are printed as Triton, and interpreted."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("Triton compiles where a GPU is")
    monkeypatch.setenv("JITPKG_DEBUG", "triton")
    return "triton"


@pytest.fixture(params=["cpu", "triton"])
def by_each_printer(request: pytest.FixtureRequest) -> str:
    """Kernels by each printer."""
    if request.param == "triton":
        request.getfixturevalue("by_triton")
    return str(request.param)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A process with a cache of its own, and others after it."""
    yield Process(tmp_path / "cache", monkeypatch)
    cache.kernels.cache_clear()
