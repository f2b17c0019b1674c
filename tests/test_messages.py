"""Messages of breaks, and warnings: they show the program's own line."""

import functools
import warnings

import pytest
import torch

import jitpkg
from jitpkg.errors import Break, Location, Reason
from jitpkg.messages import WIDTH, break_message, wrapped

REASON = Reason("B999", "a test", "Because " + "it is so " * 20, "Nothing " + "at all " * 20)


def test_paragraphs_fit_a_terminal() -> None:
    text = break_message(Break(REASON, "a detail"))
    assert text.startswith("B999: a test: a detail\nWhy: Because it is so")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert wrapped("Why: ", "short") == ["Why: short"]


def long_branch(x):
    if (
        x.sum() + 1  # over
        > 0
    ):
        return x + 1
    return x


def test_fullgraph_raises_with_the_line_and_a_caret() -> None:
    with pytest.raises(jitpkg.errors.GraphBreak) as raised:
        jitpkg.compile(long_branch, fullgraph=True)(torch.ones(2))
    text = str(raised.value)
    assert "x.sum() + 1  # over\n" in text
    assert "^^^^" in text
    assert f'File "{__file__}"' in text
    assert raised.value.graph_break.reason.code == "B103"


def test_a_place_without_source() -> None:
    text = break_message(Break(REASON, "", (Location("<nowhere>", "f", 1, 1, 0, 5),)))
    assert '  File "<nowhere>", line 1, in f\nWhy:' in text


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.calls


def test_the_warning_at_the_limit_names_the_line_of_the_call() -> None:
    compiled = jitpkg.compile(Counts(), dynamic=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(10):
            compiled(torch.ones(2))
    assert [warning.filename for warning in caught] == [__file__]
    text = str(caught[0].message)
    assert "Counts has been compiled 8 times" in text
    assert "because self.calls is 8; built for 7" in text


def fails(gm, example_inputs):
    raise ValueError("no kernel for this")


def test_a_backend_that_fails_is_named() -> None:
    compiled = jitpkg.compile(lambda x: x + 1, backend=fails)
    with jitpkg.config.patch(strict=False), pytest.warns(UserWarning, match="runs, because") as w:
        assert compiled(torch.ones(1)).item() == 2
    assert "ValueError: no kernel for this" in str(w[0].message)
    assert "mistake in jitpkg" not in str(w[0].message)
    assert w[0].filename == __file__


@functools.partial(jitpkg.disable, reason="it writes files")
def writes(x):
    return x


def marked(x):
    return writes(x + 1)


def test_the_reason_of_a_mark_is_shown() -> None:
    explanation = jitpkg.explain(marked)(torch.ones(2))
    (graph_break,) = explanation.break_reasons
    assert graph_break.title().endswith("test_messages.writes (it writes files)")


def asks(x):
    y = x + 1
    jitpkg.graph_break("here, for a test")
    return y * 2


def test_the_message_of_a_break_is_shown() -> None:
    (graph_break,) = jitpkg.explain(asks)(torch.ones(2)).break_reasons
    assert graph_break.title().endswith(": here, for a test")
