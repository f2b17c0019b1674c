"""docs/troubleshooting.md: what programs of the folder beside print. The prose is in
troubleshooting.in.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pages.text import ROOT

TEMPLATE = Path(__file__).parent / "troubleshooting.in.md"
PROGRAMS = Path(__file__).parent / "troubleshooting"
PAGE = ROOT / "docs" / "troubleshooting.md"

RUN = ("-m", "jitpkg", "run")

OTHERS = re.compile(r"^.*module (?!torch:)\w+: left alone: it is installed\n", re.MULTILINE)
"""Lines of packages that are loaded here, and elsewhere may not be."""


@dataclass(frozen=True)
class Example:
    """A program, and how it is run."""

    program: str
    python: tuple[str, ...] = ()
    """What stands before the program."""
    variables: tuple[tuple[str, str], ...] = ()
    shown: bool = True
    """Whether the page shows the program."""

    @property
    def command(self) -> str:
        settings = [f"{name}={value}" for name, value in self.variables]
        return " ".join([*settings, "python", *self.python, self.program])

    def printed(self) -> str:
        """What it prints, as a terminal shows it."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("JITPKG_")}
        paths = [str(ROOT), str(PROGRAMS / "site-packages"), os.environ.get("PYTHONPATH", "")]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, *self.python, self.program],
                cwd=PROGRAMS,
                env={
                    **kept,
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    "JITPKG_CACHE_DIR": folder,
                    "PYTHONUNBUFFERED": "1",
                    **dict(self.variables),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=True,
            )
        return OTHERS.sub("", done.stdout.replace(f"{PROGRAMS}/", "")).strip()


ALL_AT_ONCE = (("JITPKG_NEVER_WORSE", "0"),)
"""At the second call, whatever the clock says."""

EXAMPLES = {
    "once": Example("once.py", RUN),
    "steps": Example("steps.py", (*RUN, "--report"), ALL_AT_ONCE),
    "library": Example("library.py", RUN),
    "decisions": Example("steps.py", RUN, (("JITPKG_LOGS", "auto"), *ALL_AT_ONCE), shown=False),
    "breaks": Example("prints.py", (), (("JITPKG_LOGS", "breaks"),)),
    "again": Example("again.py", (), (("JITPKG_LOGS", "recompiles"),)),
    "cost": Example("cost.py", (*RUN, "--report")),
    "gains": Example("cost.py", (), (("JITPKG_LOGS", "gains"),), shown=False),
}


def page() -> str:
    """The page. Where nothing but times differs from what it shows now, that stays."""
    text = TEMPLATE.read_text(encoding="utf-8")
    wanted = set(re.findall(r"\{\{(\w+)\}\}", text))
    assert wanted == EXAMPLES.keys(), wanted ^ EXAMPLES.keys()
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    made = re.sub(r"\{\{(\w+)\}\}", lambda found: section_of(EXAMPLES[found[1]], before), text)
    return before if timeless(before) == timeless(made) else made


def section(example: Example) -> str:
    source = (PROGRAMS / example.program).read_text(encoding="utf-8")
    program = f"```python\n{source}```\n\n" if example.shown else ""
    return f"{program}```\n$ {example.command}\n{example.printed()}\n```"


def section_of(example: Example, page: str) -> str:
    """An example's section as a page shows it, but for times, if one of three runs gives that: what
    gains something is measured, and on a busy machine the clock may say otherwise."""
    for _ in range(3):
        made = section(example)
        if timeless(made) in timeless(page):
            break
    return made


def timeless(text: str) -> str:
    """Text without times, and without what depends on how long their digits are."""
    text = re.sub(r"-?[\d.]+(e[+-]\d+)? (us|ms|s)\b", "…", text)
    return re.sub(r" +", " ", text)
