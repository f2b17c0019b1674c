"""The short form of `tests.faults.killed`."""

import os
from pathlib import Path

import pytest

from tests.faults.killed import full_disk, hunt, together
from tests.faults.table import shown

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


def test_writers_are_killed() -> None:
    row = hunt(60)
    assert row.tried == 60
    assert row.notes["after an entry"] > 5
    assert not row.wrong, shown([row])


def test_processes_want_one_thing_at_once() -> None:
    row = together(10)
    assert row.notes["the maker was killed"] and row.notes["one made it"]
    assert not row.wrong, shown([row])


def test_a_full_disk(tmp_path: Path) -> None:
    rows = full_disk(tmp_path)
    assert rows[0].notes["failed"] > 10
    assert not any(row.wrong for row in rows), shown(rows)
