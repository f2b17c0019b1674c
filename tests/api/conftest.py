"""Fixtures of the tests of the public names."""

from typing import Any

import pytest

import jitpkg
from tests.api.support import Counts


@pytest.fixture
def backend() -> Counts:
    return Counts()


@pytest.fixture(params=[jitpkg.jit, jitpkg.compile], ids=["jit", "compile"])
def C(request: pytest.FixtureRequest) -> Any:
    return request.param
