"""Pages with programs that build on each other: what they print, put where it is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pages.text import ROOT, scrubbed

MARK = "-- end of block --"
PAIR = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)


def page(name: str) -> str:
    """
    Args:
        name: of a file, from the root on.
    """
    text = (ROOT / name).read_text(encoding="utf-8")
    outputs = iter(_printed([found[1] for found in PAIR.finditer(text)]))
    return PAIR.sub(lambda f: f"```python\n{f[1]}```\n\n```\n{next(outputs)}```", text)


def _printed(programs: list[str]) -> list[str]:
    """What programs that build on each other print, one by one."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JITPKG_")}
    with tempfile.TemporaryDirectory() as folder:
        program = f"print({MARK!r})\n".join(programs)
        Path(folder, "example.py").write_text(program, encoding="utf-8")
        run = subprocess.run(
            [sys.executable, "example.py"],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(ROOT), "JITPKG_CACHE_DIR": f"{folder}/cache"},
            capture_output=True,
            text=True,
            check=True,
        )
    return [scrubbed(text) + "\n" for text in run.stdout.split(f"{MARK}\n")]
