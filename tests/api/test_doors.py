"""Programs that compile callables of all kinds, in every place: as eager code, in each way."""

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import jitpkg
from jitpkg import errors
from tests.api import doors
from tests.api.doors import CASES
from tests.api.doors.support import plain

DOORS = Path(doors.__file__).parent

pytestmark = pytest.mark.timeout(60)


def in_place(f: Any) -> Any:
    """`jit`, where there is code to be replaced; a library's would stay so for other tests."""
    code = getattr(f, "__code__", None)
    if isinstance(code, CodeType) and Path(code.co_filename).parent != DOORS:
        return jitpkg.compile(f)
    try:
        return jitpkg.jit(f)
    except errors.NotCompilable:
        return jitpkg.compile(f)


WAYS: dict[str, Callable[[Any], Any]] = {
    "compile": jitpkg.compile,
    "jit": in_place,
    "dynamic": functools.partial(jitpkg.compile, dynamic=True),
    "kernels": functools.partial(jitpkg.compile, backend="jitpkg"),
}


def seen(case: str, compile_: Callable[[Any], Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.JitpkgWarning)  # a library's function is left alone
        return repr(plain(CASES[case](compile_))).replace("-0.0", "0.0")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_as_eager(case: str, way: str) -> None:
    expected = seen(case, lambda f: f)
    assert seen(case, WAYS[way]) == expected


@pytest.mark.parametrize("case", CASES)
def test_broken_anywhere(case: str) -> None:
    expected = seen(case, lambda f: f)
    with jitpkg.config.patch(disturb="break"):
        assert seen(case, jitpkg.compile) == expected
