"""What the tests count."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jitpkg.codegen.autograd.aot import varying
from jitpkg.codegen.sizes.by_symbols import BySymbols


@contextmanager
def compilations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each compilation of a graph whose sizes vary: whether it is for symbols."""
    made: list[bool] = []
    compile_ = varying.Varying._compilation

    def noted(self: Any, inputs: Any) -> Any:
        result = compile_(self, inputs)
        made.append(self._as_symbols)
        return result

    add = BySymbols._add

    def added(self: Any, inputs: Any) -> bool:
        done = add(self, inputs)
        if done:
            made.append(True)
        return done

    with monkeypatch.context() as patched:
        patched.setattr(varying.Varying, "_compilation", noted)
        patched.setattr(BySymbols, "_add", added)
        yield made
