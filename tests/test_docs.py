"""The documentation is true: its programs do what it says, and its pages are up to date."""

import builtins
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.config import Options
from jitpkg.tracer.reasons import CATALOGUE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

PINNED = re.search(r"^torch==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
IS_MADE_HERE = (
    sys.version_info[:2] == (3, 11)
    and PINNED is not None
    and torch.__version__.startswith(PINNED[1])
)


def load() -> ModuleType:
    """docs/build.py."""
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.path[:]
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


BUILD = load()
PROGRAMS = {program.reason.code: program for program in BUILD.breaks.programs()}


@pytest.fixture(autouse=True)
def _plain_settings() -> Iterator[None]:
    with jitpkg.config.patch(disturb=""):
        yield


def same(a: Any, b: Any) -> None:
    """The same tensors, numbers and strings; an exception counts as its text."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, check_dtype=False)
    else:
        assert str(a) == str(b)


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_breaks_for_its_reason(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAMS[code]
    _, breaks = program.run()
    assert code in [graph_break.reason.code for graph_break in breaks]


@pytest.mark.parametrize("code", PROGRAMS)
def test_what_is_rewritten_does_not_break(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAMS[code]
    whole = jitpkg.compile(program.rewritten, fullgraph=True)
    rewritten, breaks = BUILD.breaks.result_and_breaks(whole, program.rewritten_arguments())
    assert breaks == []
    eagerly, _ = BUILD.breaks.result_and_breaks(program.program, program.arguments())
    same(rewritten, eagerly)


COVERED = [row for rows in BUILD.coverage.groups().values() for row in rows]


@pytest.mark.parametrize("row", COVERED, ids=lambda row: row.label)
def test_a_program_means_the_same_with_its_breaks(row: Any) -> None:
    with BUILD.coverage.quietly():
        torch.manual_seed(0)
        expected = row.function(*BUILD.coverage.arguments())
        torch.manual_seed(0)
        found = jitpkg.compile(row.function)(*BUILD.coverage.arguments())
    same(found[0], expected[0])
    assert type(found[1]) is type(expected[1])
    if isinstance(expected[1], torch.Tensor | int | float | str):
        same(found[1], expected[1])


def test_every_builtin_function_is_on_the_page_of_what_is_covered() -> None:
    text = BUILD.coverage.PROGRAMS.read_text(encoding="utf-8")
    names = [
        name
        for name, found in vars(builtins).items()
        if callable(found)
        and not name.startswith("_")
        and not (isinstance(found, type) and issubclass(found, BaseException))
    ]
    left = [name for name in names if not re.search(rf"\b{name}\b", text)]
    assert set(left) <= set(
        "aiter anext breakpoint input copyright credits license exit quit help".split()
    )


def test_codes_are_unique_and_in_order() -> None:
    codes = [reason.code for reason in CATALOGUE]
    assert codes == sorted(set(codes))


def test_every_setting_and_topic_is_described() -> None:
    text = (DOCS / "options.md").read_text(encoding="utf-8")
    for name in Options.__slots__:
        assert f"| `{name}` | `JITPKG_{name.upper()}` |" in text
    for topic in jitpkg.logs.TOPICS:
        assert f"### {topic}\n" in text


@pytest.mark.skipif(not IS_MADE_HERE, reason="the pages show Python 3.11 and the pinned torch")
@pytest.mark.parametrize("name", BUILD.PAGES)
def test_a_page_is_up_to_date(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if not BUILD.can_be_made(name):
        pytest.skip(f"{' '.join(BUILD.NEEDS[name])} is not installed")
    assert (DOCS / name).read_text(encoding="utf-8") == BUILD.PAGES[name](), (
        f"docs/{name} is not up to date; run python docs/build.py"
    )


@pytest.mark.skipif(IS_MADE_HERE, reason="the page as a whole is compared")
@pytest.mark.parametrize("name", BUILD.troubleshooting.EXAMPLES)
def test_an_example_prints_what_the_page_shows(name: str) -> None:
    timeless, section_of = BUILD.troubleshooting.timeless, BUILD.troubleshooting.section_of
    shown = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert timeless(section_of(BUILD.troubleshooting.EXAMPLES[name], shown)) in timeless(shown)


@pytest.mark.parametrize(
    "page",
    [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "breaks").glob("*.md"))],
    ids=lambda page: page.name,
)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


# The site


def test_the_api_page_has_every_public_name() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\.\. auto\w+:: jitpkg\.(\w+)$", page, re.MULTILINE))
    assert named == {*jitpkg.__all__, "auto", "testing"} - {"events"}


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    for module in ("furo", "myst_parser", "sphinx"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    site = tmp_path / "site"
    done = subprocess.run(
        [*command, str(DOCS), str(site)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    index = (site / "index.html").read_text(encoding="utf-8")
    assert all(f'href="{page}.html"' in index for page in ("tutorial", "api", "options", "hooks"))
    assert not re.findall(r'(?:src|<link[^>]* href)="https?:', index)  # it needs no network
    assert "each" in (site / "searchindex.js").read_text(encoding="utf-8")
