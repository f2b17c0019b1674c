from collections.abc import Iterator
from pathlib import Path

import pytest

from jitpkg.codegen import cache
from tests.codegen.kept.support import Process


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    yield Process(tmp_path / "cache", monkeypatch)
    cache.kernels.cache_clear()
