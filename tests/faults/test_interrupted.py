"""The short form of `tests.faults.interrupted`."""

import pytest

from tests.faults.interrupted import hunt
from tests.faults.table import shown
from tests.native.support import needs_llvm


@needs_llvm
@pytest.mark.parametrize(("compiling", "count"), [(False, 80), (True, 15)])
def test_exceptions_of_handlers(compiling: bool, count: int) -> None:
    row = hunt(count, compiling=compiling)
    assert row.notes["came out"] == count
    assert not row.wrong, shown([row])
