"""Many programs in worker processes: what became of them, and the faults of each kind."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread, Timer
from typing import Any

from jitpkg.dataclass import dataclass

CHUNK = 2000
"""A worker checks so many programs, and is replaced: what torch keeps grows by 0.1 MB for each."""

_START = 120
"""Seconds that a worker has to import torch."""

Answer = dict[str, Any]


class Chunk:
    """A worker process for a range of seeds.

    Args:
        grammar: its name, or "".
        timeout: seconds that a program may take; then the process is stopped.
    """

    def __init__(self, seeds: range, grammar: str, timeout: float) -> None:
        self._seeds = seeds
        self._grammar = grammar
        self._timeout = timeout

    def answers(self) -> Iterator[Answer]:
        """What becomes of each seed; another process goes on after one that has died."""
        seeds = self._seeds
        while seeds:
            last = None
            for answer in self._process(seeds):
                yield answer
                last = answer.get("seed", last)
            seeds = range(seeds.start if last is None else last + 1, seeds.stop)
            if last is None:
                raise RuntimeError("a worker died before its first program")

    def _process(self, seeds: range) -> Iterator[Answer]:
        command = [sys.executable, "-m", "jitpkg.testing.programs.worker"]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        with subprocess.Popen(
            [*command, str(seeds.start), str(seeds.stop), self._grammar],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:
            heard: list[str] = []
            listener = Thread(target=_listen, args=(process.stderr, heard))
            listener.start()
            begun: Answer = {}
            for line in self._lines(process):
                answer = json.loads(line)
                if "verdict" not in answer and "statistics" not in answer:
                    begun |= answer
                    continue
                begun = {}
                yield answer
            process.kill()
            code = process.wait()
            listener.join()
            if begun:
                verdict, kind = died(code, "ended" in begun)
                said = "".join(heard[-60:])
                yield {"seed": begun["seed"], "verdict": verdict, "kind": kind, "said": said}

    def _lines(self, process: subprocess.Popen[str]) -> Iterator[str]:
        assert process.stdout is not None
        for timeout in itertools.chain([_START + self._timeout], itertools.repeat(self._timeout)):
            late = Timer(timeout, process.kill)
            late.start()
            try:
                line = process.stdout.readline()
            finally:
                late.cancel()
            if not line:
                return
            yield line


def died(code: int, ended: bool) -> tuple[str, str]:
    """The verdict on a program, and the kind of fault, where the process that checked it died.

    Args:
        ended: whether the program had run eagerly.
    """
    kind = "took too long" if code == -9 else f"the process died ({code})"
    return ("failed", kind) if ended else ("left out", f"{kind} eagerly")


def _listen(stream: Any, heard: list[str]) -> None:
    for line in stream:
        heard.append(line)
        del heard[:-200]


@dataclass
class Findings:
    """What became of many programs."""

    verdicts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    said: dict[str, str] = field(default_factory=dict)
    statistics: Counter[str] = field(default_factory=Counter)

    def add(self, answer: Answer) -> bool:
        """Add an answer; true, if it is a fault of a kind that was not there yet."""
        if "statistics" in answer:
            self.statistics.update(answer["statistics"])
            return False
        self.verdicts[answer["verdict"]] += 1
        kind = answer["kind"]
        if answer["verdict"] == "left out":
            self.left_out[kind] += 1
        if answer["verdict"] not in ("differs", "failed"):
            return False
        self.faults[kind].append(answer["seed"])
        if kind in self.said:
            return False
        self.said[kind] = answer["said"]
        return True

    def summary(self, seconds: float) -> str:
        """One line."""
        count = sum(self.verdicts.values())
        parts = [f"{count} programs in {seconds:.0f} s ({count / max(seconds, 1e-9):.1f}/s)"]
        parts += [f"{n} {verdict}" for verdict, n in sorted(self.verdicts.items())]
        parts.append(f"{len(self.faults)} kinds of faults")
        return ", ".join(parts)

    def listed(self) -> Iterator[str]:
        """A line for each kind of fault, and what the programs were like."""
        for kind, found in sorted(self.faults.items(), key=lambda item: -len(item[1])):
            yield f"{len(found)} times {kind}: seeds {', '.join(map(str, found[:6]))}"
        yield self.described()
        for kind, count in self.left_out.most_common(8):
            yield f"left out {count}: {kind}"

    def described(self) -> str:
        """What the programs were like."""
        s = self.statistics
        if not s["calls"]:
            return ""
        ended = 100 - 100 * s["raised"] / s["calls"]
        graphs = max(s["graphs"], 1)
        return (
            f"{s['calls']} eager calls, {ended:.0f}% run to their end; {s['graphs']} graphs of"
            f" {s['ops'] / graphs:.1f} ops, {s['breaks']} breaks"
        )


def ranges(seeds: Iterable[int], most: int = CHUNK) -> Iterator[range]:
    """Seeds that follow each other, in ranges of at most so many."""
    first = end = None
    for seed in sorted(seeds):
        if first is None or end is None or seed != end or seed - first >= most:
            if first is not None and end is not None:
                yield range(first, end)
            first = seed
        end = seed + 1
    if first is not None and end is not None:
        yield range(first, end)


def run(
    seeds: Iterable[int],
    workers: int,
    timeout: float,
    done: Callable[[Answer], None],
    grammar: str = "",
) -> None:
    """Check the programs of these seeds; tell `done`, in one thread at a time, of each answer."""
    waiting: SimpleQueue[range] = SimpleQueue()
    for some in ranges(seeds):
        waiting.put(some)
    lock, failed = Lock(), list[BaseException]()

    def serve() -> None:
        try:
            while not failed:
                for answer in Chunk(waiting.get_nowait(), grammar, timeout).answers():
                    with lock:
                        done(answer)
        except Empty:
            return
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=serve) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def write_tests(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"test_{name}.py"
    path.write_text(text, encoding="utf-8")
    return path
