"""Write the generated pages of this folder.

    python docs/build.py            write them
    python docs/build.py --check    say which are not up to date

Among them are the README, with what its programs print, and CONTRIBUTING.md, which quotes code.

Everything that they show of the package (disassembly, graphs, generated code, messages) is what
running it gives, on Python 3.11 and the torch of constraints.txt. The pages that show code of
Triton's or LLVM's are left as they are where the version that they show is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
os.environ.setdefault("JITPKG_NEVER_WORSE", "0")  # no page depends on the clock

from pages import (  # noqa: E402
    breaks,
    coverage,
    graph_to_kernel,
    hooks,
    kernels,
    one_call,
    options,
    pains,
    picture,
    quoted,
    readme,
    training,
    triton,
    troubleshooting,
)

PAGES: Mapping[str, Callable[[], str]] = {
    "architecture.svg": picture.picture,
    "breaks.md": breaks.page,
    **breaks.pages(),
    "coverage.md": coverage.page,
    "graph-to-kernel.md": graph_to_kernel.page,
    "hooks.md": hooks.page,
    "kernels.md": kernels.page,
    "one-call.md": one_call.page,
    "options.md": options.page,
    "pains.md": pains.page,
    "training.md": training.page,
    "triton.md": triton.page,
    "troubleshooting.md": troubleshooting.page,
    "tutorial.md": partial(readme.page, "docs/tutorial.md"),
    "../README.md": partial(readme.page, "README.md"),
    "../CONTRIBUTING.md": quoted.page,
}

NEEDS = {"kernels.md": ("llvmlite", "0.50.0"), "triton.md": ("triton", "3.7.1")}
"""Libraries that pages cannot be made without, in the version that they show."""


def can_be_made(name: str) -> bool:
    if name not in NEEDS:
        return True
    library, wanted = NEEDS[name]
    return importlib.util.find_spec(library) is not None and version(library) == wanted


def outdated() -> list[str]:
    """The pages that differ from what they would be now."""
    return [
        name
        for name, make in PAGES.items()
        if can_be_made(name)
        and not ((FOLDER / name).exists() and (FOLDER / name).read_text(encoding="utf-8") == make())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the generated pages.")
    parser.add_argument("--check", action="store_true", help="only say what is not up to date")
    if parser.parse_args().check:
        if names := outdated():
            sys.exit(f"not up to date: {', '.join(names)}; run python docs/build.py")
        return
    for name, make in PAGES.items():
        if not can_be_made(name):
            print(f"{name} is left as it is: {' '.join(NEEDS[name])} is not installed")
            continue
        (FOLDER / name).write_text(make(), encoding="utf-8")
        print((FOLDER / name).resolve().relative_to(FOLDER.parent))


if __name__ == "__main__":
    main()
