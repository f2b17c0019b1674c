"""A row: looked up when it is first used, tried, replaced, or missing."""

import importlib
import pkgutil
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from jitpkg import events, internals
from jitpkg.internals import Attribute, Missing, Row, Setting, Variable, table, versions
from jitpkg.internals.table import ROWS


def row(name: str = "torch._C._len_torch_dispatch_stack", **how: Any) -> Row[Any]:
    return Row(name, use="a test", lost="nothing is lost", **how)


@pytest.fixture
def missing() -> Any:
    """Those that were found missing."""
    seen: list[events.NameMissing] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.NameMissing):
            seen.append(event)

    with events.STREAM.listening(note):
        yield seen


def test_a_name_is_looked_up_when_it_is_first_used() -> None:
    known = row()
    assert not known.is_used
    assert known.get() is known.get() is torch._C._len_torch_dispatch_stack
    assert known.is_used


@pytest.mark.parametrize("name", ["torch._C._gone", "torch._gone._gone", "torch.nn._gone.Gone"])
def test_a_missing_name_raises_and_is_said(name: str, missing: Any) -> None:
    gone = row(name, since="99")
    with pytest.raises(Missing, match=name):
        gone.get()
    with pytest.raises(Missing):
        gone.get()
    assert gone.found() is None
    assert [(event.name, event.lost) for event in missing] == [(name, "nothing is lost")]


def test_what_it_is_replaced_by() -> None:
    gone = row("torch._C._gone", instead=lambda: len)
    assert gone.get() is len
    assert gone.found() is None
    other = row("torch._C._gone", since="99", instead=lambda: torch._C._gone_too)
    with pytest.raises(Missing, match=r"nor is there another way.*_gone_too"):
        other.get()


@pytest.mark.parametrize("works", [lambda _: False, lambda found: found.gone])
def test_a_name_that_does_not_behave_is_missing(works: Any, missing: Any) -> None:
    odd = row(works=works, since="99")
    with pytest.raises(Missing, match="does not behave as it did"):
        odd.get()
    assert len(missing) == 1


def test_kinds() -> None:
    x = torch.ones(2)
    version = Attribute[int]("torch.Tensor._version", use="a test", lost="nothing")
    before = version.get()(x)
    x.add_(1)
    assert version.get()(x) == before + 1
    kept = Attribute[Any](
        "torch.nn.Module._gone", use="", lost="", of=torch.nn.Identity, since="99"
    )
    assert kept.found() is None
    level = Variable[int]("torch.autograd.forward_ad._current_level", use="", lost="")
    with torch.autograd.forward_ad.dual_level():
        assert level.get()() == 0
    assert level.get()() == -1
    flag = Setting[object]("torch.autograd.forward_ad._gone", use="", lost="", since="99")
    assert flag.found() is None
    depth = Setting[int]("torch.autograd.forward_ad._current_level", use="", lost="")
    depth.get()(-1)


def test_the_user_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with row().removed():
        assert [row(f"torch._C._gone_{k}").found() for k in range(2)] == [None, None]
    (said,) = caplog.messages
    assert "_C._gone_0 is missing (AttributeError" in said
    assert "nothing is lost. `python -m jitpkg doctor`" in said


def test_a_name_that_this_version_is_not_to_have_is_not_complained_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with row().removed():
        assert row("torch._C._gone", since="99").found() is None
        assert row("torch._C._gone", until="1.0").found() is None
    assert not caplog.messages


@pytest.mark.parametrize(
    ("version", "is_newer"),
    [
        *(("2.15.0", False), ("2.15.0+cu132", False), ("2.15.1", True), ("2.16.0", True)),
        *(("2.16.0.dev20270101+cpu", True), ("3.0", True), ("2.9.1", False), ("2.11.0", False)),
    ],
)
def test_versions(monkeypatch: pytest.MonkeyPatch, version: str, is_newer: bool) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=version))
    assert versions.is_newer() is is_newer
    remark = versions.remark()
    assert (remark is None) == (version.startswith(("2.11", "2.15.0")))
    assert is_newer == (remark is not None and "is newer than what" in remark)


def test_since_and_until(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.13.1+cpu"))
    assert versions.has(None, None)
    assert versions.has("2.13", "2.13")
    assert not versions.has("2.14", None)
    assert not versions.has(None, "2.12")


def test_the_table_has_every_row_once() -> None:
    modules = [importlib.import_module(f"jitpkg.internals.{m.name}") for m in _modules()]
    found = {row for module in modules if module is not table for row in table.rows_of(module)}
    assert found == set(ROWS)
    assert len({row.name for row in ROWS}) == len(ROWS)


def _modules() -> Any:
    return pkgutil.iter_modules(internals.__path__)


@pytest.mark.parametrize("each", ROWS, ids=lambda row: row.name)
def test_every_row_is_found_here(each: Row[Any]) -> None:
    looked = type(each)(**{f: getattr(each, f) for f in _fields(each)}).look()
    assert (looked.why is None) == each.is_expected, looked.why


def _fields(each: Row[Any]) -> list[str]:
    return [name for name in each.__dataclass_fields__ if not name.startswith("_")]


@pytest.mark.parametrize("each", ROWS, ids=lambda row: row.name)
def test_what_is_said_of_a_row_is_a_clause(each: Row[Any]) -> None:
    for text in (each.use, each.lost):
        assert len(text.split()) > 1
        assert not text.endswith(".")
