"""Questions about the PyTorch that is installed, which a small trial answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

import torch


def asked_once(question: Callable[[], bool]) -> Callable[[], bool]:
    """The answer to a question, found when it is first needed, in whatever state that is.

    The trial sees the usual state: no inference mode, gradients or autocast. The answer is kept.
    """

    @cache
    @wraps(question)
    def answer() -> bool:
        usual = torch.autocast("cpu", enabled=False)
        with torch.inference_mode(False), torch.no_grad(), usual:
            return question()

    return answer
