"""Random programs, run eagerly and compiled, and compared.

    python -m jitpkg.testing.programs --seed 0 --programs 1000
    python -m jitpkg.testing.programs --programs 100000 --file F.jsonl --resume

Each seed is a program and a way to compile it. A fault of a kind that was not seen yet is printed
when it is found; in the end one of each kind is made small, and written to a folder as a test. What
became of each seed can be kept in a file: so a long run can be done in pieces. The exit status is 1
if there is any fault.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from jitpkg.testing.programs.bulk import Answer, Findings, run, write_tests
from jitpkg.testing.programs.record import Record
from jitpkg.testing.programs.shrinking import shrunk
from jitpkg.testing.programs.worker import named, of_seed

_SHRUNK = 8
"""Of so many kinds of faults programs are made small."""


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
    parser.add_argument("--file", type=Path, help="for what became of each, as JSON lines")
    parser.add_argument(
        "--resume", action="store_true", help="what the file lacks, or has as wrong"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/programs"), help="for tests")
    parser.add_argument("--shrink", type=int, default=1, help="programs of each kind of fault")
    parser.add_argument("--seconds", type=float, default=60, help="to make one small")
    parser.add_argument("--grammar", default="", help="of your own, as MODULE:NAME")
    parser.add_argument("--show", action="store_true", help="print the program of a seed, and stop")
    options = parser.parse_args()
    if options.resume and options.file is None:
        parser.error("--resume needs --file: what has been done stands there.")
    return options


def main() -> int:
    options = arguments()
    if options.show:
        program, mode = of_seed(options.seed, named(options.grammar))
        sys.stdout.write(program.as_test(mode.text(), around=mode.around))
        return 0
    start = time.monotonic()
    findings = Findings()
    _check(options, findings, start)
    _say(findings.listed())
    _shrink(options, findings)
    _say([findings.summary(time.monotonic() - start)])
    return 1 if findings.faults else 0


def _check(options: argparse.Namespace, findings: Findings, start: float) -> None:
    """Check the programs that are to be, and add what becomes of them."""
    seeds = set(range(options.seed, options.seed + options.programs))
    with ExitStack() as stack:
        record = None
        if options.file is not None:
            record = stack.enter_context(Record(options.file, options.grammar))
            for answer in record.read(resume=options.resume):
                if answer.get("seed") in seeds:
                    seeds.discard(answer["seed"])
                    findings.add(answer)

        def done(answer: Answer) -> None:
            is_new = findings.add(answer)
            if record is not None:
                record.write(answer)
            if is_new:
                _say([f"seed {answer['seed']}, {answer['kind']}"])
                _say("    " + line for line in answer["said"].splitlines()[-12:])
            if "verdict" in answer and sum(findings.verdicts.values()) % 1000 == 0:
                _say([findings.summary(time.monotonic() - start)])

        run(seeds, options.workers, options.timeout, done, options.grammar)


def _shrink(options: argparse.Namespace, findings: Findings) -> None:
    for kind, found in list(findings.faults.items())[:_SHRUNK]:
        for seed in found[: options.shrink]:
            program, mode = of_seed(seed, named(options.grammar))
            small = shrunk(program, mode, kind, timeout=options.timeout, seconds=options.seconds)
            doc = f"Seed {seed}: {kind.splitlines()[0]}"
            text = small.as_test(mode.text(), doc, mode.around)
            path = write_tests(options.folder, str(seed), text)
            _say([f"{path}: {len(small.source.splitlines())} lines"])


def _say(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
