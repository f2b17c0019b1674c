"""From the call to the first result in a new process: what a user waits for.

CPU seconds of the process and of all that it starts, C++ compilers included; peak memory is that
of all of them together. The import of torch and the making of the model come before the call and
do not count. "empty": the caches are new; "primed": a tiny function was compiled in them by
another process before, so that what all programs share is there; "warm": the same program was.
Networks are tiny, with random weights, and of full depth.

    python benchmarks/run.py coldstart                     half an hour
    python benchmarks/run.py coldstart --only BERT         one program
    python benchmarks/run.py coldstart --no-compile        without torch.compile: two minutes
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import fresh
import rounds
from first_call import FUNCTIONS, TRAINING
from fresh import FirstCall
from networks import available

EMPTY, PRIMED, WARM = "empty", "primed", "warm"
Column = tuple[str, str]
"""A compiler, and the state of its caches."""

OURS_EMPTY, OURS_WARM = (rounds.OURS, EMPTY), (rounds.OURS, WARM)
THEIRS_EMPTY, THEIRS_PRIMED, THEIRS_WARM = ((rounds.THEIRS, s) for s in (EMPTY, PRIMED, WARM))
RATIOS = ((OURS_EMPTY, THEIRS_EMPTY), (OURS_EMPTY, THEIRS_PRIMED), (OURS_WARM, THEIRS_WARM))

TARGETS = {
    "inference": (1 / 10, 1 / 4, 1 / 3),
    "training": (1 / 6, None, 1 / 3),
}
"""Of the geometric means of those ratios."""


def titles() -> list[str]:
    functions = [title for title in FUNCTIONS if title != "tiny"]
    there = [network.title for network in available() if network.title != "ViT"]
    return [*functions, *there, "transformer block" + TRAINING]


def measured(title: str, backend: str, *, theirs: bool, primed: Path) -> dict[Column, FirstCall]:
    """One program in one process for each column.

    Args:
        primed: a folder with the caches of a tiny function; they hold only where they lie.
    """
    found: dict[Column, FirstCall] = {}
    with fresh.caches() as caches:
        found[rounds.EAGER, ""] = fresh.first_call(title, "eager", caches)
        for state in (EMPTY, WARM):
            found[rounds.OURS, state] = fresh.first_call(title, f"jitpkg:{backend}", caches)
    if theirs:
        with fresh.caches() as caches:
            for state in (EMPTY, WARM):
                found[rounds.THEIRS, state] = fresh.first_call(title, "torch.compile", caches)
        saved, current = primed / "saved", primed / "current"
        shutil.rmtree(current)
        shutil.copytree(saved, current)
        found[THEIRS_PRIMED] = fresh.first_call(title, "torch.compile", current)
    return found


def prime(primed: Path) -> None:
    """Compile a tiny function, and keep a copy of the caches as they are then."""
    current = primed / "current"
    current.mkdir()
    fresh.first_call("tiny", "torch.compile", current)
    shutil.copytree(current, primed / "saved")


def medians(samples: Sequence[Mapping[Column, FirstCall]]) -> dict[Column, FirstCall]:
    return {
        column: FirstCall(
            statistics.median(sample[column].cpu_seconds for sample in samples),
            statistics.median(sample[column].megabytes for sample in samples),
        )
        for column in samples[0]
    }


SHOWN: tuple[tuple[str, Column], ...] = (
    ("eager", (rounds.EAGER, "")),
    ("empty", THEIRS_EMPTY),
    ("primed", THEIRS_PRIMED),
    ("warm", THEIRS_WARM),
    ("empty", OURS_EMPTY),
    ("warm", OURS_WARM),
)
IN_MEMORY: tuple[tuple[str, Column], ...] = (
    ("eager", (rounds.EAGER, "")),
    ("t.compile", THEIRS_EMPTY),
    ("jitpkg", OURS_EMPTY),
)


def print_header() -> None:
    print(
        "\nFrom the call to the first result in a new process, in CPU seconds; peak memory, in MB"
    )
    print("(ratios: jitpkg's empty / torch.compile's empty, empty / primed, warm / warm)\n")
    print(
        f"{'':28}{'':8}{'torch.compile':>24}{'jitpkg':>16}{'ratios':>21}{'peak memory, MB':>33}"
        f"\n{'':28}"
        + "".join(f"{title:>8}" for title, _ in SHOWN)
        + "".join(f"{title:>7}" for title in ("empty", "primed", "warm"))
        + "".join(f"{title:>11}" for title, _ in IN_MEMORY)
    )


def ratio(row: Mapping[Column, FirstCall], ours: Column, theirs: Column) -> float | None:
    if theirs not in row:
        return None
    return row[ours].cpu_seconds / row[theirs].cpu_seconds


def cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def print_row(title: str, row: Mapping[Column, FirstCall]) -> None:
    def number(column: Column, of: Callable[[FirstCall], float]) -> float | None:
        return of(row[column]) if column in row else None

    text = f"{title:28}"
    for _, column in SHOWN:
        text += f"{cell(number(column, lambda call: call.cpu_seconds), 2):>8}"
    for pair in RATIOS:
        text += f"{cell(ratio(row, *pair), 3):>7}"
    for _, column in IN_MEMORY:
        text += f"{cell(number(column, lambda call: call.megabytes), 0):>11}"
    print(text, flush=True)


def print_means(rows: Mapping[str, Mapping[Column, FirstCall]]) -> None:
    print("\nGeometric means of the ratios, and the most that they should be\n")
    print(f"{'':28}{'empty / empty':>18}{'empty / primed':>18}{'warm / warm':>18}")
    for name, most in TARGETS.items():
        some = [
            row for title, row in rows.items() if title.endswith(TRAINING) == (name != "inference")
        ]
        text = f"{name:28}"
        for pair, target in zip(RATIOS, most, strict=True):
            found = [value for row in some if (value := ratio(row, *pair)) is not None]
            mean = f"{rounds.geomean(found):.3f}" if found else "-"
            text += f"{mean:>10} {f'({target:.3f})' if target else '':7}"
        print(text)
    larger = [
        title
        for title, row in rows.items()
        if THEIRS_EMPTY in row and row[OURS_EMPTY].megabytes > row[THEIRS_EMPTY].megabytes
    ]
    print(f"\nMore memory than torch.compile: {', '.join(larger) or 'none'}")


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="coldstart", description="Measure first calls.")
    rounds.add_arguments(parser)
    parser.add_argument("--rounds", type=int, default=3, help="of which medians are shown")
    arguments = parser.parse_args(given)
    count = 1 if arguments.quick else arguments.rounds
    chosen = [title for title in titles() if rounds.chosen(title, arguments.only)]
    if arguments.quick and not arguments.only:
        chosen = chosen[:1]
    theirs, backend = not arguments.no_compile, arguments.backend
    fresh.adopt_orphans()
    print(rounds.platform_line(backend))
    rows: dict[str, dict[Column, FirstCall]] = {}
    with fresh.caches() as primed:
        fresh.first_call("tiny", f"jitpkg:{backend}", primed)  # compiles the package's modules
        if theirs:
            prime(primed)
        print_header()
        for title in chosen:
            try:
                samples = [
                    measured(title, backend, theirs=theirs, primed=primed) for _ in range(count)
                ]
            except RuntimeError as error:
                print(f"{title:28}fails: {error}", flush=True)
                continue
            rows[title] = medians(samples)
            print_row(title, rows[title])
    print_means(rows)
