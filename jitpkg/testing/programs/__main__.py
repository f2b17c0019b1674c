"""Random programs, run eagerly and compiled, and compared.

    python -m jitpkg.testing.programs --seed 0 --programs 1000

Each seed is a program and a way to compile it. A fault of a kind that was not seen yet is printed;
in the end some of each kind are made small, and written to a folder as tests. The exit status is 1
if there is any.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from jitpkg.testing.programs.bulk import Answer, Findings, run, write_tests
from jitpkg.testing.programs.shrinking import shrunk
from jitpkg.testing.programs.worker import named, of_seed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m jitpkg.testing.programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--programs", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one program")
    parser.add_argument("--folder", type=Path, default=Path("build/programs"), help="for tests")
    parser.add_argument("--shrink", type=int, default=2, help="programs of each kind of fault")
    parser.add_argument("--grammar", default="", help="of your own, as MODULE:NAME")
    parser.add_argument("--show", action="store_true", help="print the program of a seed, and stop")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    out = sys.stdout
    if options.show:
        program, mode = of_seed(options.seed, named(options.grammar))
        out.write(program.as_test(mode.text()))
        return 0
    start = time.monotonic()

    def done(answer: Answer, findings: Findings) -> None:
        if findings.add(answer):
            out.write(f"seed {answer['seed']}, {answer['kind']}\n")
            out.write("".join(f"    {line}\n" for line in answer["said"].splitlines()[-12:]))
        count = sum(findings.verdicts.values())
        if count % 1000 == 0 and "verdict" in answer:
            out.write(findings.summary(time.monotonic() - start) + "\n")
        out.flush()

    seeds = range(options.seed, options.seed + options.programs)
    findings = run(seeds, options.workers, options.timeout, done, options.grammar)
    took = time.monotonic() - start
    for kind, found in sorted(findings.faults.items(), key=lambda item: -len(item[1])):
        out.write(f"{len(found)} times {kind}: seeds {', '.join(map(str, found[:6]))}\n")
    out.write(f"{findings.described()}\n")
    for kind, count in findings.left_out.most_common(8):
        out.write(f"left out {count}: {kind}\n")
    _shrink(options, findings)
    out.write(findings.summary(took) + "\n")
    return 1 if findings.faults else 0


def _shrink(options: argparse.Namespace, findings: Findings) -> None:
    for kind, found in findings.faults.items():
        for seed in found[: options.shrink]:
            program, mode = of_seed(seed, named(options.grammar))
            small = shrunk(program, mode, kind, timeout=options.timeout)
            text = small.as_test(mode.text(), doc=f"Seed {seed}: {kind.splitlines()[0]}")
            path = write_tests(options.folder, str(seed), text)
            sys.stdout.write(f"{path}: {len(small.source.splitlines())} lines\n")
            sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
