"""Torch's random streams, which a graph draws from, and which can be set back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch


class RandomStreams:
    """The default generators of some devices."""

    def __init__(self, devices: Iterable[torch.device]) -> None:
        found = tuple(devices)
        self._generators = tuple(map(_generator, found))
        self._on_gpus = any(device.type == "cuda" for device in found)

    def save(self) -> Sequence[torch.Tensor]:
        """Where each is now: 5 kB and 2 µs for the CPU's.

        Nothing while a CUDA graph is recorded: its numbers are drawn when it is replayed.
        """
        if self._on_gpus and torch.cuda.is_current_stream_capturing():
            return ()
        return tuple(generator.get_state() for generator in self._generators)

    def restore(self, states: Sequence[torch.Tensor]) -> None:
        """Set them back to where they were; to nothing, as they are."""
        for generator, state in zip(self._generators, states, strict=False):
            generator.set_state(state)


def _generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    found: torch.Generator = torch.cuda.default_generators[device.index]
    return found


def can_be_set_back(device: torch.device) -> bool:
    return device.type == "cpu" or (device.type == "cuda" and device.index is not None)
