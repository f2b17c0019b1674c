"""The README's programs run, and print what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
MARK = "-- end of block --"


def blocks() -> list[tuple[str, str]]:
    """Each Python block, and the output that is shown behind it."""
    found = BLOCK.findall(README)
    return [
        (text, found[k + 1][1])
        for k, (language, text) in enumerate(found)
        if language == "python" and not found[k + 1][0]
    ]


def comparable(text: str) -> str:
    """Without times, and without counts that differ between versions of Python and torch."""
    return re.sub(r"\d+ (guards|more)", r"… \1", re.sub(r"\d+\.\d ms", "… ms", text))


def test_every_program_is_followed_by_its_output() -> None:
    assert len(blocks()) == len(re.findall(r"```python\n", README)) > 3


@pytest.mark.skipif(
    sys.version_info >= (3, 13),
    reason="compares and branches in one instruction, so that one op fewer is in a graph",
)
def test_programs_print_what_is_shown(tmp_path: Path) -> None:
    """They build on each other, as they would in one file."""
    program = f"print({MARK!r})\n".join(text for text, _ in blocks())
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
    for (_, shown), made in zip(blocks(), run.stdout.split(f"{MARK}\n"), strict=True):
        assert comparable(made) == comparable(shown)
    assert not run.stderr


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
