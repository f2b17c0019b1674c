"""A portion of PyTorch's own modules, in training and in evaluation, trained and not."""

from __future__ import annotations

import re

import pytest

from jitpkg import config
from tests.opinfo.check import Check, quiet
from tests.opinfo.modules import ModuleOp, modules
from tests.opinfo.samples import Task
from tests.portions import portion

MODULES = portion(modules(), 6, "modules")
BREAK = re.compile(
    r"module_nn_(Lazy\w+|CTCLoss|MultiLabelMarginLoss|RNN|LSTM|GRU|Transformer|TransformerEncoder)_"
)
"""Modules that are not one graph: their shapes or their classes depend on what they are called
with, or torch has a loop over time."""


@pytest.mark.parametrize("op", MODULES, ids=lambda op: op.formatted_name)
@pytest.mark.parametrize("context", ["plain", "grad"])
def test_a_module(op: ModuleOp, context: str) -> None:
    task = Task(op.formatted_name, "float32", context)
    with quiet(), config.patch(strict=True):
        done = Check(op, task, most=3).all()
    assert not done.wrong, done.wrong[0]
    assert done.compared and (not done.breaks or BREAK.search(op.formatted_name)), done.breaks
