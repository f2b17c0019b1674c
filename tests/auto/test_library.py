"""CPython's own tests of library modules that the hook has compiled; `make auto` runs all."""

import importlib.util

import pytest

from tests.auto.library import TESTS, compared
from tests.stdlib.tasks import load_tasks

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("test.test_json") is None, reason="a Python without its tests"
)


@pytest.mark.parametrize("test", ["test_configparser", "test_contextlib", "test_dataclasses"])
def test_as_users_have_it(test: str) -> None:
    (task,) = load_tasks([test], reduced=False)
    done = compared(task, "auto", timeout=60)
    assert not done.found
    assert done.counts["functions"] == 0
    assert done.counts["stubs"] > done.counts["gone"] > 0


@pytest.mark.parametrize("test", ["test_bisect", "test_textwrap"])
def test_with_every_function_compiled(test: str) -> None:
    (task,) = load_tasks([test], reduced=False)
    done = compared(task, "forced", timeout=100)
    assert not done.found
    assert done.counts["functions"]


def test_all_modules_of_the_list_can_be_run() -> None:
    assert len(load_tasks(TESTS, reduced=False)) == len(TESTS)
