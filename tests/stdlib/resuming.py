"""Regions that leave the frame at some points, chosen by a seed, for a resume function.

A resume function has hooks at some points, too, and some of these leave for another one; that one's
hooks do not leave. So a call has two frames more than it would have, at most.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import zlib
from typing import Any

from jitpkg.code.analysis import is_generator
from jitpkg.rewriter.door import Door
from jitpkg.rewriter.emitter import Emitter, Hook
from jitpkg.rewriter.points import Points
from tests.regions import Identity, Leaving, Outcome, Region

LEAVES = (0.15, 0.03, 0.0)
"""The share of a level's points that leave."""

HOOKS = (math.inf, 8, 8)
"""About how many of a level's other points have a hook."""


class Resuming:
    """The choice of points, and what was emitted."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.leaves = False
        """Whether regions leave at all."""
        self.left = 0
        self.emitted = 0
        self.seconds = 0.0
        self.regions: list[Region] = []
        """Kept alive, for hooks do not."""
        self.busy = threading.Lock()
        self.emitters: dict[tuple[int, int], Emitter] = {}

    def region(self, points: Points, h: int, level: int = 0) -> Region | None:
        chance = self.chance(points, h, level)
        if chance < LEAVES[level] and not is_generator(points.code):
            return Sometimes(self, points, h, level)
        few = min(1.0, HOOKS[level] / len(points.instructions))
        return Identity(points, h) if chance < LEAVES[level] + few else None

    def chance(self, points: Points, h: int, level: int) -> float:
        code = points.code
        text = f"{self.seed} {level} {code.co_qualname} {code.co_firstlineno} {h}"
        return zlib.crc32(text.encode()) / 2**32

    def emitter(self, points: Points, level: int) -> Emitter:
        """The emitter of the resume functions that a level leaves for."""
        key = id(points), level
        if key not in self.emitters:
            hooks = {}
            for h in points.hookable():
                if (region := self.region(points, h, level + 1)) is not None:
                    self.regions.append(region)
                    hooks[h] = Hook(Door(region), region.exits)
            self.emitters[key] = Emitter(points, hooks)
        return self.emitters[key]


class Sometimes(Leaving):
    """Leaves now and then, unless a resume function would have to be emitted just now.

    If it left always, points behind it would not be reached by the hooked code.
    """

    def __init__(self, owner: Resuming, points: Points, h: int, level: int) -> None:
        super().__init__(points, h, lambda: owner.emitter(points, level))
        self.owner = owner
        self.asked = 0

    def prepare(self) -> bool:
        """Not while another is emitted, which may use what is rewritten, nor under a tracer."""
        owner = self.owner
        if sys.gettrace() is not None or sys.getprofile() is not None:
            return False
        if not owner.busy.acquire(blocking=False):
            return False
        began = time.perf_counter()
        try:
            owner.emitted += 1
            return super().prepare()
        except RecursionError:
            return False
        finally:
            owner.seconds += time.perf_counter() - began
            owner.busy.release()

    def run(self, *values: Any) -> Outcome:
        if not self.owner.leaves or self.asked % (3 if self.asked < 30 else 50):
            self.asked += 1
            return self.at, None, self.pick(values)
        self.asked += 1
        outcome = super().run(*values)
        self.owner.left += outcome[1] is not None
        return outcome
