"""Sets of completion indexes as intervals: `1,3-5,7`. Pure.

The size depends on the number of gaps, not on the number of completions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

IndexInterval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class IndexSet:
    intervals: tuple[IndexInterval, ...] = ()
    """First and last index of each interval, ordered, with a gap between two of them."""

    @classmethod
    def from_indexes(cls, indexes: Iterable[int]) -> IndexSet:
        return cls(_merge_intervals((index, index) for index in sorted(indexes)))

    @classmethod
    def parse(cls, text: str | None, completions: int) -> IndexSet:
        """Returns the indexes below `completions`. Malformed parts are skipped."""
        return cls(_merge_intervals(sorted(_parse_intervals(text or "", completions))))

    @property
    def total(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        position = bisect_left(self.intervals, index, key=lambda span: span[1])
        return position < len(self.intervals) and self.intervals[position][0] <= index

    def __or__(self, other: IndexSet) -> IndexSet:
        return IndexSet(_merge_intervals(sorted([*self.intervals, *other.intervals])))

    def __str__(self) -> str:
        return ",".join(_format_interval(first, last) for first, last in self.intervals)

    def intersection_size(self, other: IndexSet) -> int:
        """Returns the number of indexes in both sets."""
        return self.total + other.total - (self | other).total

    def first_absent(self, count: int, completions: int) -> list[int]:
        """Returns the first `count` indexes below `completions` that are not in the set."""
        return list(islice(self._absent(completions), max(count, 0)))

    def _absent(self, completions: int) -> Iterator[int]:
        start = 0
        for first, last in self.intervals:
            yield from range(start, min(first, completions))
            start = last + 1
        yield from range(start, completions)


def _merge_intervals(intervals: Iterable[IndexInterval]) -> tuple[IndexInterval, ...]:
    """Merges adjacent and overlapping intervals. The input is ordered."""
    merged: list[IndexInterval] = []
    for first, last in intervals:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _parse_intervals(text: str, completions: int) -> Iterator[IndexInterval]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            continue
        start, end = int(first), min(int(last) if dash else int(first), completions - 1)
        if start <= end:
            yield start, end


def _format_interval(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
