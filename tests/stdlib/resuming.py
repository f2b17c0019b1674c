"""Regions for the standard library's functions: they stay, or leave now and then.

At some points, chosen by a seed, a frame is left for a resume function, which has hooks at some
points, too, and some of these leave for another one; that one's hooks stay. So a call has two
frames more than it would have, at most. As in the package, generators and functions that look at
frames themselves go on where they are.

Every region goes after some passes, and the hook finds none: a hot loop would take minutes
otherwise, and that way through a hook is a way, too.

Seed 0 chooses the first point of each function and leaves there on every call. That has little to
do with hooks; it shows all tests that notice one more frame, whichever points a seed chooses.
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
"""The share of a level's points that leave, and how many may at most."""

MOST = (20, 4, 0)

HOOKS = (math.inf, 8, 8)
"""About how many of a level's other points have a hook."""

PASSES = 200
"""So often a region is asked."""


class Resuming:
    """The choice of points, and what was emitted."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.leaves = False
        """Whether regions leave at all."""
        self.left = 0
        self.emitted = 0
        self.seconds = 0.0
        self.regions: set[Region] = set()
        """Kept alive, for hooks do not."""
        self.busy = threading.Lock()
        self.emitters: dict[tuple[int, int], Emitter] = {}

    def region(self, points: Points, h: int, level: int = 0) -> Region | None:
        chance, count = self.chance(points, h, level), len(points.instructions)
        leaves = min(LEAVES[level], MOST[level] / count)
        hooks = min(1.0, HOOKS[level] / count)
        if not self.seed:
            hooks = 0.0
            leaves = float(level == 0 and h == next(points.hookable()))
        region: Region
        stays = is_generator(points.code) or points.looks_at_frames
        if chance < leaves and not stays:
            region = Sometimes(self, points, h, level)
        elif chance < leaves + hooks:
            region = Passing(self, points, h)
        else:
            return None
        self.regions.add(region)
        return region

    def chance(self, points: Points, h: int, level: int) -> float:
        code = points.code
        text = f"{self.seed} {level} {code.co_qualname} {code.co_firstlineno} {h}"
        return zlib.crc32(text.encode()) / 2**32

    def emitter(self, points: Points, level: int) -> Emitter:
        """The emitter of the resume functions that a level leaves for."""
        key = id(points), level
        if key not in self.emitters:
            regions = ((h, self.region(points, h, level + 1)) for h in points.hookable())
            hooks = {h: Hook(Door(region), region.exits) for h, region in regions if region}
            self.emitters[key] = Emitter(points, hooks)
        return self.emitters[key]


class Passing(Identity):
    """Goes on where it was asked, and is no more after some passes."""

    def __init__(self, owner: Resuming, points: Points, h: int) -> None:
        super().__init__(points, h)
        self.owner = owner
        self.passes = PASSES

    def run(self, *values: Any) -> Outcome:
        self.passes -= 1
        if not self.passes:
            self.owner.regions.discard(self)
        return self.exit, None, self.pick(values)


class Sometimes(Leaving):
    """Leaves now and then, unless a resume function would have to be emitted just now.

    If it left always, points behind it would not be reached by the hooked code.
    """

    def __init__(self, owner: Resuming, points: Points, h: int, level: int) -> None:
        super().__init__(points, h, lambda: owner.emitter(points, level))
        self.owner = owner
        self.passes = PASSES

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
        if not self.is_time():
            return self.at, None, self.pick(values)
        outcome = super().run(*values)
        self.owner.left += outcome[1] is not None
        return outcome

    def is_time(self) -> bool:
        """Whether this pass leaves."""
        if not self.owner.leaves or not self.owner.seed:
            return self.owner.leaves
        passes, self.passes = self.passes, self.passes - 1
        if not self.passes:
            self.owner.regions.discard(self)
        return (PASSES - passes) % 3 == 0
