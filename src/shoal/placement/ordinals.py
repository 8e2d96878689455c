"""Assigns ranges of StatefulSet ordinals to clusters. Pure.

A pod and its volumes belong to an ordinal, so ranges are never shifted. A cluster keeps its range. Growing extends the
highest range, shrinking removes the highest ordinals first. What a lost cluster had goes to the neighbour that ends
there, or to a cluster that has no range. A cluster has one range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    start: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count


def ranges(
    wanted: Range,
    held: Mapping[str, Range],
    rooms: Mapping[str, int],
    divided: Callable[[int], Mapping[str, int]],
) -> dict[str, Range]:
    """`held_ranges` are those that stay; `capacities` has the clusters that may get more, the best first, with their
    maximum in total; `divide` divides the ordinals where nothing exists yet.
    """
    found = _cut(wanted, held)
    if not found:
        return _in_a_row(wanted.start, divided(wanted.count))
    place = wanted.start
    for one in sorted(found.values(), key=lambda each: each.start):
        if one.start > place:
            _fill(found, Range(place, one.start - place), rooms)
        place = max(place, one.end)
    if place < wanted.end:
        _fill(found, Range(place, wanted.end - place), rooms)
    return found


def _cut(wanted: Range, held: Mapping[str, Range]) -> dict[str, Range]:
    """Returns the part of each range that is requested. A range that begins inside another is dropped, which only an
    edit can cause.
    """
    found: dict[str, Range] = {}
    place = wanted.start
    for name, one in sorted(held.items(), key=lambda each: (each[1].start, each[0])):
        count = min(one.end, wanted.end) - one.start
        if one.start >= place and count > 0:
            found[name] = Range(one.start, count)
            place = one.start + count
    return found


def _fill(found: dict[str, Range], gap: Range, rooms: Mapping[str, int]) -> None:
    place, left = gap.start, gap.count
    for name, one in list(found.items()):
        if one.end == place and name in rooms:
            more = min(left, max(rooms[name] - one.count, 0))
            found[name] = Range(one.start, one.count + more)
            place, left = place + more, left - more
    for name, room in rooms.items():
        if left and name not in found and room > 0:
            count = min(left, room)
            found[name] = Range(place, count)
            place, left = place + count, left - count


def _in_a_row(start: int, shares: Mapping[str, int]) -> dict[str, Range]:
    found = {}
    for name, count in shares.items():
        if count:
            found[name] = Range(start, count)
            start += count
    return found
