"""Assigns ranges of StatefulSet ordinals to clusters. Pure.

A pod and its volumes belong to an ordinal, so ranges are never shifted, and an ordinal goes down in one cluster before
it comes up in another. A cluster keeps its range, and has only one. Growing extends the highest range, shrinking
removes the highest ordinals first. What a lost cluster had goes to the neighbour that ends there, to a cluster that has
no range, or to the neighbour that begins there.
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


@dataclass(frozen=True, slots=True)
class HeldRange:
    """The range that a cluster has now."""

    ordinals: OrdinalRange
    available: int
    is_stopping: bool = False
    """It still runs pods of ordinals that it has given up."""


def step_ranges(
    target: Mapping[str, OrdinalRange], held_ranges: Mapping[str, HeldRange], min_available: int
) -> dict[str, OrdinalRange]:
    """Returns the ranges until the next reconcile. A cluster that is left gives up as many ordinals as may be
    unavailable. Nobody gets an ordinal that another cluster still has, or whose pod may still stop there.
    """
    spare = max(sum(min(held.available, held.ordinals.count) for held in held_ranges.values()) - min_available, 0)
    end = max((each.end for each in target.values()), default=0)
    left = {name: held for name, held in held_ranges.items() if name not in target}
    ranges = {}
    for name, held in sorted(left.items()):
        requested = max(min(held.ordinals.end, end) - held.ordinals.start, 0)
        not_running = max(held.ordinals.count - held.available, 0)
        given = min(requested, not_running + spare)
        spare -= max(given - not_running, 0)
        # Ranges have no gaps: a neighbour above needs the highest first, any other cluster the lowest.
        goes_up = any(
            other in held_ranges and held_ranges[other].ordinals.start == held.ordinals.start + requested > wanted.start
            for other, wanted in target.items()
        )
        ranges[name] = OrdinalRange(held.ordinals.start + (0 if goes_up else given), requested - given)
    is_stopping = any(held.is_stopping for held in held_ranges.values())
    for name, wanted in target.items():
        current = held_ranges[name].ordinals if name in held_ranges else OrdinalRange(wanted.start, 0)
        start = current.start if current.count else wanted.start
        if wanted.start < start and not is_stopping:
            below = (held.ordinals.end for held in left.values() if held.ordinals.start < start)
            lowest = max([wanted.start, *(min(each, start) for each in below)])
            current = OrdinalRange(lowest, current.count + start - lowest)
            start = lowest
        blocked = [max(held.ordinals.start, start) for held in left.values() if held.ordinals.end > start]
        limit = min([wanted.end, *blocked])
        if is_stopping:
            limit = min(limit, start + current.count)
        ranges[name] = OrdinalRange(start, max(limit - start, 0))
    return ranges


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
    for name, ordinal_range in list(assigned.items()):
        if remaining and ordinal_range.start == position + remaining and name in capacities:
            added = min(remaining, max(capacities[name] - ordinal_range.count, 0))
            assigned[name] = OrdinalRange(ordinal_range.start - added, ordinal_range.count + added)
            remaining -= added


def _consecutive_ranges(start: int, shares: Mapping[str, int]) -> dict[str, OrdinalRange]:
    assigned = {}
    for name, count in shares.items():
        if count:
            assigned[name] = OrdinalRange(start, count)
            start += count
    return assigned
