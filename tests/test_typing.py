"""The public names have types, and decorated functions keep theirs."""

import ast
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import jitpkg

ROOT = Path(__file__).parents[1]
STUB = ROOT / "jitpkg" / "__init__.pyi"


@pytest.mark.timeout(300)  # with no cache, mypy reads all of torch first
def test_mypy_sees_what_it_should() -> None:
    """Each `assert_type` holds, and each line with a `type: ignore` is an error indeed."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores"]
    run = subprocess.run(
        [*command, "tests/typed_program.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_stub_has_every_public_name() -> None:
    stub = ast.parse(STUB.read_text(encoding="utf-8"))
    froms = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    imported = [(alias.name, alias.asname) for node in froms for alias in node.names]
    assert all(name == exported for name, exported in imported)
    assert sorted(name for name, _ in imported) == sorted(jitpkg.__all__)


def test_settings_are_typed_as_their_fields() -> None:
    known = {field.name: field.type for field in fields(jitpkg.config.Options)}
    declared = vars(jitpkg.config)["__annotations__"]
    assert {name: declared[name] for name in known} == known
