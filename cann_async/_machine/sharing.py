"""Step 5 on a modelled clock: device memory is shared by whoever moves bytes at the same time.

A kernel or copy that had the chip to itself would take `alone` nanoseconds and move so many bytes per second. While
all that run want no more than the memory gives, nobody notices. When they want more, the bandwidth is dealt out
max-min fairly (who wants less than an even share gets all it wants), and whoever gets half of what it wants goes half
as fast until somebody ends. The clock asks on start and on end; only then do the speeds change.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .task import Item


class Share:
    """What one running item wants of the memory, and how far it is."""

    __slots__ = ("demand", "left_ns", "since_ns", "speed")

    def __init__(self, demand: int, left_ns: int, now: int) -> None:
        self.demand = demand
        self.left_ns: float = left_ns
        """What is left to do, in time alone."""
        self.since_ns = now
        self.speed = 1.0


class Memory:
    """The memory of one device: `bandwidth` in bytes per second, and `plan`, which has the clock end an item then."""

    def __init__(self, bandwidth: int, plan: Callable[[int, Item], None]) -> None:
        self._bandwidth = bandwidth
        self._plan = plan
        self._shares: dict[Item, Share] = {}
        self._wanted = 0
        self._is_short = False
        """Whether more is wanted than there is."""

    def enter(self, item: Item, demand: int, alone_ns: int, now: int) -> None:
        """Begin an item that alone would take so long and move `demand` bytes per second, or all there is."""
        demand = min(demand, self._bandwidth)
        self._shares[item] = Share(demand, alone_ns, now)
        self._wanted += demand
        if self._wanted > self._bandwidth:
            self._deal(now)
        else:
            self._plan(now + alone_ns, item)

    def leave(self, item: Item, now: int) -> None:
        """End an item, or give it up; one that is not here is passed over."""
        share = self._shares.pop(item, None)
        if share is not None:
            self._wanted -= share.demand
            if self._is_short:
                self._deal(now)

    def _deal(self, now: int) -> None:
        """Give everybody a speed, and plan anew when it ends."""
        self._is_short = self._wanted > self._bandwidth
        level = self._level() if self._is_short else math.inf
        for item, share in self._shares.items():
            share.left_ns = max(share.left_ns - (now - share.since_ns) * share.speed, 0.0)
            share.since_ns = now
            share.speed = min(level / share.demand, 1.0)
            self._plan(now + math.ceil(share.left_ns / share.speed - 1e-6), item)

    def _level(self) -> float:
        """Give the most that anybody gets: all of the bandwidth is dealt out, and nobody gets more than it wants."""
        left: float = self._bandwidth
        demands = sorted(share.demand for share in self._shares.values())
        for number, demand in enumerate(demands):
            level = left / (len(demands) - number)
            if demand > level:
                return level
            left -= demand
        return math.inf
