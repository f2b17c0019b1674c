"""The programs of the README and of the tutorial run, and print what is shown."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/tutorial.md")
}

BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
OF_PROFILER = re.compile(
    r"[A-Z]+:\d{4}-\d\d-\d\d .*\.cpp:\d+\] |.*/torch/profiler/profiler\.py:|  _warn_once\($"
)
"""What torch's profiler writes to the standard error stream."""

MARK = "-- end of block --"


def blocks(page: str) -> list[tuple[str, str]]:
    """Each Python block, and the output that is shown after it."""
    found = BLOCK.findall(page)
    return [
        (text, found[k + 1][1])
        for k, (language, text) in enumerate(found)
        if language == "python" and not found[k + 1][0]
    ]


def comparable(text: str) -> str:
    """Without times, and without counts that differ between versions of Python and torch."""
    return re.sub(r"\d+ (guards|more)", r"… \1", re.sub(r"\d+\.\d ms", "… ms", text))


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_program_is_followed_by_its_output(page: str) -> None:
    assert len(blocks(page)) == len(re.findall(r"```python\n", page)) > 3


@pytest.mark.skipif(
    sys.version_info >= (3, 13),
    reason="compares and branches in one instruction, so that one op fewer is in a graph",
)
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_programs_print_what_is_shown(tmp_path: Path, page: str) -> None:
    """They build on each other, as they would in one file."""
    program = f"print({MARK!r})\n".join(text for text, _ in blocks(page))
    (tmp_path / "example.py").write_text(program, encoding="utf-8")
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JITPKG_")}
    run = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=environment
        | {"PYTHONPATH": paths, "JITPKG_STRICT": "1", "JITPKG_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for (_, shown), made in zip(blocks(page), run.stdout.split(f"{MARK}\n"), strict=True):
        assert comparable(made) == comparable(shown)
    said = [line for line in run.stderr.splitlines() if not OF_PROFILER.match(line)]
    assert not said


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", PAGES["README.md"]))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
