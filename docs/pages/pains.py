"""docs/pains.md: what hurts users of torch.compile, and programs that show what it is here.

The prose is in pains.in.md.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pages.text import ROOT, filled, scrubbed

TEMPLATE = Path(__file__).parent / "pains.in.md"
PROGRAMS = sorted((ROOT / "examples" / "pains").glob("p*.py"))


def page() -> str:
    with ThreadPoolExecutor(2) as pool:
        shown = dict(zip((file.stem for file in PROGRAMS), pool.map(_shown, PROGRAMS), strict=True))
    return filled(TEMPLATE.read_text(encoding="utf-8"), shown)


def _shown(file: Path) -> str:
    """A program: what it is, its code, and what it prints."""
    text = file.read_text(encoding="utf-8")
    what = ast.get_docstring(ast.parse(text))
    code = text.split('"""', 2)[2].strip()
    return f"{what}\n\n```python\n{code}\n```\n\n```\n{_printed(file)}\n```"


def _printed(file: Path) -> str:
    """What a program prints, in a process of its own."""
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith("JITPKG_")
    }
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{file.name} fails: {done.stdout}")
    return scrubbed(done.stdout).strip()
