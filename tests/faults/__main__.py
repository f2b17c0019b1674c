"""`python -m tests.faults`, or `make faults`: the long form of all hunts, as a table.

Takes about an hour of one processor; `--part` runs one kind alone, `--scale 0.1` a tenth of each.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.faults import files, forked, interrupted, killed
from tests.faults.table import Row, shown

KILLS = 1000
INTERRUPTS = 2000
FORKS = 100


def parts(place: Path, scale: float) -> dict[str, Callable[[], list[Row]]]:
    """The kinds of faults, by name."""

    def times(count: int) -> int:
        return max(1, round(count * scale))

    return {
        "kills": lambda: [killed.hunt(times(KILLS)), killed.together(times(KILLS // 10))],
        "disk": lambda: killed.full_disk(place),
        "files": lambda: files.hunt(place, whole=True),
        "handlers": lambda: [
            interrupted.hunt(times(INTERRUPTS * 3 // 4), compiling=False),
            interrupted.hunt(times(INTERRUPTS // 4), compiling=True),
        ],
        "forks": lambda: [
            forked.hunt(times(FORKS), kind="compiling"),
            forked.hunt(times(FORKS // 5), kind="importing"),
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--part", choices=parts(Path(), 1), action="append")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the long form")
    given = parser.parse_args()
    os.environ.setdefault("JITPKG_CACHE_DIR", "off")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        for name, hunt in parts(Path(place), given.scale).items():
            if not given.part or name in given.part:
                found = hunt()
                print(shown(found), flush=True, file=sys.stderr)
                rows += found
    print(shown(rows))
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
