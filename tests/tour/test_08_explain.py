"""8. `explain` tells what compiling made of a function; logs tell it while it happens."""

import logging

import torch

import jitpkg


def f(x, n):
    y = torch.sin(x) * n
    print(y.shape)
    return y.cos()


def test_an_explanation_has_counts_and_parts(capsys) -> None:
    explanation = jitpkg.explain(f)(torch.ones(2), 3)
    assert explanation.graph_count == 2
    assert explanation.graph_break_count == 1
    assert explanation.op_count == 3
    assert explanation.ops_per_graph[0][0] is torch.sin
    assert len(explanation.sources) == 2
    assert explanation.compile_times.keys() >= {"tracing", "backend"}
    assert torch.equal(explanation.result, torch.cos(torch.sin(torch.ones(2)) * 3))


def test_an_explanation_reads_as_a_page() -> None:
    text = str(jitpkg.explain(f)(torch.ones(2), 3))
    for part in ("B106", "print(y.shape)", "sin", "cos"):
        assert part in text


def test_every_event_can_be_listened_to() -> None:
    heard: list[str] = []
    with jitpkg.events.STREAM.listening(lambda event: heard.append(type(event).__name__)):
        jitpkg.jit(f)(torch.ones(2), 3)
    assert heard.count("GraphCompiled") == 2
    assert heard.count("Broke") == 1
    assert heard.index("Traced") < heard.index("GraphCompiled") < heard.index("EntryAdded")


def test_logs_are_switched_on_by_topic() -> None:
    """In code, or by `JITPKG_LOGS=graphs,breaks`."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("jitpkg").addHandler(handler)
    jitpkg.set_logs("graphs")
    try:
        jitpkg.compile(lambda x: x.tan())(torch.ones(2))
    finally:
        jitpkg.set_logs()
        logging.getLogger("jitpkg").removeHandler(handler)
    (record,) = records
    assert record.name == "jitpkg.graphs"
    assert "tan = x.tan()" in record.getMessage()
    assert isinstance(record.event, jitpkg.events.GraphCompiled)
