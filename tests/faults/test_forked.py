"""The short form of `tests.faults.forked`."""

import os

import pytest

from tests.faults.forked import hunt
from tests.faults.table import shown

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "count"), [("compiling", 2), ("importing", 1)])
def test_forks(kind: str, count: int) -> None:
    row = hunt(count, kind=kind)
    assert row.tried == count
    assert not row.wrong, shown([row])
