"""Contexts of torch's that are written in C."""

from __future__ import annotations

from typing import Any

from jitpkg.facts.thread_state import enter_inference_mode, leave_inference_mode
from jitpkg.internals import modes


class InferenceMode:
    """What `torch.inference_mode` enters: an instance is alive where a graph ends inside."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        enter_inference_mode(self.mode)

    def __exit__(self, *error: object) -> None:
        leave_inference_mode()


class WithoutSubclasses:
    """What asks no subclass of tensors inside."""

    def __enter__(self) -> None:
        self.before = ask_no_subclasses()

    def __exit__(self, *error: object) -> None:
        ask_subclasses(self.before)


def ask_no_subclasses() -> Any:
    """From now on calls of torch's ask no class of tensors. Returns what undoes it."""
    entered = modes.WITHOUT_SUBCLASSES.get()()
    entered.__enter__()
    return entered


def ask_subclasses(before: Any) -> None:
    """As it was before."""
    before.__exit__(None, None, None)
