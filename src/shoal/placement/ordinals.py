"""Assigns ranges of StatefulSet ordinals to clusters. Pure.

A pod and its volumes belong to an ordinal, so ranges are never shifted. A cluster keeps its range. Growing extends the
highest range, shrinking removes the highest ordinals first. What a lost cluster had goes to the neighbour that ends
there, or to a cluster that has no range. A cluster has one range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrdinalRange:
    start: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count


def assign_ranges(
    ordinals: OrdinalRange,
    held_ranges: Mapping[str, OrdinalRange],
    capacities: Mapping[str, int],
    divide: Callable[[int], Mapping[str, int]],
) -> dict[str, OrdinalRange]:
    """`held_ranges` are those that stay; `capacities` has the clusters that may get more, the best first, with their
    maximum in total; `divide` divides the ordinals where nothing exists yet.
    """
    assigned = _retained_ranges(ordinals, held_ranges)
    if not assigned:
        return _consecutive_ranges(ordinals.start, divide(ordinals.count))
    position = ordinals.start
    for ordinal_range in sorted(assigned.values(), key=lambda each: each.start):
        if ordinal_range.start > position:
            _fill_gap(assigned, OrdinalRange(position, ordinal_range.start - position), capacities)
        position = max(position, ordinal_range.end)
    if position < ordinals.end:
        _fill_gap(assigned, OrdinalRange(position, ordinals.end - position), capacities)
    return assigned


def _retained_ranges(ordinals: OrdinalRange, held_ranges: Mapping[str, OrdinalRange]) -> dict[str, OrdinalRange]:
    """Returns the part of each range that is requested. A range that begins inside another is dropped, which only an
    edit can cause.
    """
    retained: dict[str, OrdinalRange] = {}
    position = ordinals.start
    for name, ordinal_range in sorted(held_ranges.items(), key=lambda each: (each[1].start, each[0])):
        count = min(ordinal_range.end, ordinals.end) - ordinal_range.start
        if ordinal_range.start >= position and count > 0:
            retained[name] = OrdinalRange(ordinal_range.start, count)
            position = ordinal_range.start + count
    return retained


def _fill_gap(assigned: dict[str, OrdinalRange], gap: OrdinalRange, capacities: Mapping[str, int]) -> None:
    position, remaining = gap.start, gap.count
    for name, ordinal_range in list(assigned.items()):
        if ordinal_range.end == position and name in capacities:
            added = min(remaining, max(capacities[name] - ordinal_range.count, 0))
            assigned[name] = OrdinalRange(ordinal_range.start, ordinal_range.count + added)
            position, remaining = position + added, remaining - added
    for name, room in capacities.items():
        if remaining and name not in assigned and room > 0:
            count = min(remaining, room)
            assigned[name] = OrdinalRange(position, count)
            position, remaining = position + count, remaining - count


def _consecutive_ranges(start: int, shares: Mapping[str, int]) -> dict[str, OrdinalRange]:
    assigned = {}
    for name, count in shares.items():
        if count:
            assigned[name] = OrdinalRange(start, count)
            start += count
    return assigned
