"""Contexts of torch's that are written in C."""

from __future__ import annotations

from jitpkg.facts.thread_state import enter_inference_mode, leave_inference_mode


class InferenceMode:
    """What `torch.inference_mode` enters: an instance is alive where a graph ends inside."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        enter_inference_mode(self.mode)

    def __exit__(self, *error: object) -> None:
        leave_inference_mode()
