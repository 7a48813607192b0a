"""Times at which anything of a kind was going on: sorted intervals that do not touch, as arrays of their ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .table import Ints


class Intervals(NamedTuple):
    """Begin and end of each, ascending; no two of them touch."""

    begins: Ints
    ends: Ints

    @classmethod
    def union(cls, begins: Ints, ends: Ints) -> Intervals:
        """Merge any intervals; those without length count for nothing."""
        some = ends > begins
        order = np.argsort(begins[some], kind="stable")
        begins, ends = begins[some][order], ends[some][order]
        if not len(begins):
            return cls(begins, ends)
        reach = np.maximum.accumulate(ends)
        first = np.append(True, begins[1:] > reach[:-1])
        return cls(begins[first], reach[np.append(first[1:], True)])

    @property
    def total(self) -> int:
        """How long all of them are together."""
        return int((self.ends - self.begins).sum())

    def gaps(self) -> Intervals:
        """Give what lies between them."""
        return Intervals(self.ends[:-1], self.begins[1:])

    def and_(self, other: Intervals) -> int:
        """Say how long both go on at once."""
        both = Intervals.union(np.concatenate((self.begins, other.begins)), np.concatenate((self.ends, other.ends)))
        return self.total + other.total - both.total
