"""9. The tracer knows Python, and the library is written in it.

The tracer executes bytecode on values that stand for objects. What a library function means is,
where that can be, Python code that is traced like the program's own: a polyfill.
"""

import itertools
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

import jitpkg
from jitpkg.code.dialect import translate
from jitpkg.tracer.polyfills import itertools_functions
from jitpkg.tracer.rows import ROWS


def test_bytecode_is_read_in_one_dialect() -> None:
    """Instructions differ between Pythons; the tracer's operations do not."""

    def f(x):
        return x + 1

    names = [op.name for op in translate(f.__code__).ops]
    assert names == ["LOAD_LOCAL", "LOAD_CONST", "BINARY_OP", "RETURN_VALUE"]


def test_a_builtin_is_a_row_of_a_table() -> None:
    assert len in ROWS
    assert list.append in ROWS
    assert itertools.accumulate in ROWS


def test_a_polyfill_is_plain_python() -> None:
    given = [3, 1, 2]
    assert list(itertools_functions.accumulate(given)) == list(itertools.accumulate(given))


@dataclass
class Settings:
    scale: float
    shifts: tuple[int, ...] = (1, 2)


@contextmanager
def noted(log, name):
    log.append(f"{name} begins")
    try:
        yield name.upper()
    finally:
        log.append(f"{name} ends")


def pythonic(x, settings, log):
    """Generators, context managers, dataclasses, pattern matching: one graph."""
    settings = replace(settings, scale=settings.scale * 2)
    with noted(log, "sum") as title:
        total = sum(x * s for s in settings.shifts)
    match settings:
        case Settings(scale=scale) if scale > 1:
            total = total * scale
    partial_sums = list(itertools.accumulate([total, total + 1]))
    counts = Counter(len(part) for part in title)
    return partial_sums[-1], f"{title}: {counts.total()}"


def test_the_library_leaves_no_trace_in_the_graph() -> None:
    log: list[str] = []
    x = torch.ones(2)
    explanation = jitpkg.explain(pythonic)(x, Settings(1.5), log)
    assert explanation.graph_break_count == 0
    (graph,) = explanation.graphs
    operations = [node.name for node in graph.graph.nodes if node.op.startswith("call")]
    assert operations == ["mul", "add", "mul_1", "add_1", "mul_2", "add_2", "add_3"]
    assert log == ["sum begins", "sum ends"]

    expected, text = pythonic(x, Settings(1.5), [])
    assert torch.equal(explanation.result[0], expected)
    assert explanation.result[1] == text
