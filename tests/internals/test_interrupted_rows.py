"""What a signal handler raises while a private name is looked up is not taken for a lack of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch

from jitpkg.internals import aot


class Alarm(AttributeError):
    """What looks as if the name were missing."""


def raises(signum: int, frame: FrameType | None) -> None:
    raise Alarm


@pytest.fixture
def handled() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, raises)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_the_function_of_a_node(handled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    node = torch.ones(1, requires_grad=True).exp().grad_fn
    metadata: Any = SimpleNamespace(raw=object())
    assert not aot.is_node_of(node, metadata)

    def interrupted(_: Any) -> None:
        signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(aot.FUNCTION_OF_NODE, "get", lambda: interrupted)
    with pytest.raises(Alarm):
        aot.is_node_of(node, metadata)
