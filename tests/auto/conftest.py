"""`import jitpkg.auto` installs the hook: it is not for the tests themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.auto.project import Project  # before the hook is there

# isort: split

from jitpkg import auto, config, events

auto.uninstall()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    auto.install()
    made = Project(tmp_path)
    with events.STREAM.listening(made.heard), config.patch(disturb=""):
        yield made
    auto.uninstall()
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)) or name in made.names:
            del sys.modules[name]
