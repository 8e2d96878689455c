"""Sets of completion indexes as intervals: `1,3-5,7`. Pure.

The size depends on the number of gaps, not on the number of completions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Indexes:
    spans: tuple[Span, ...] = ()
    """First and last index of each interval, ordered, with a gap between two of them."""

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        return cls(_joined((index, index) for index in sorted(indexes)))

    @classmethod
    def parse(cls, text: str | None, completions: int) -> Indexes:
        """Returns the indexes below `completions`. Malformed parts are skipped."""
        return cls(_joined(sorted(_spans(text or "", completions))))

    @property
    def total(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __contains__(self, index: int) -> bool:
        place = bisect_left(self.spans, index, key=lambda span: span[1])
        return place < len(self.spans) and self.spans[place][0] <= index

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes(_joined(sorted([*self.spans, *other.spans])))

    def __str__(self) -> str:
        return ",".join(_written(first, last) for first, last in self.spans)

    def common(self, other: Indexes) -> int:
        """Returns the number of indexes in both sets."""
        return self.total + other.total - (self | other).total

    def missing(self, count: int, completions: int) -> list[int]:
        """Returns the first `count` indexes below `completions` that are not in the set."""
        return list(islice(self._missing(completions), max(count, 0)))

    def _missing(self, completions: int) -> Iterator[int]:
        start = 0
        for first, last in self.spans:
            yield from range(start, min(first, completions))
            start = last + 1
        yield from range(start, completions)


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Merges adjacent and overlapping intervals. The input is ordered."""
    found: list[Span] = []
    for first, last in spans:
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def _spans(text: str, completions: int) -> Iterator[Span]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            continue
        start, end = int(first), min(int(last) if dash else int(first), completions - 1)
        if start <= end:
            yield start, end


def _written(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
