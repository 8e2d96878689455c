"""Ranges of sizes (minimum, maximum) and costs, with arithmetic that saturates at the largest uint64."""

from __future__ import annotations

import math

Range = tuple[int, int]
MOST = (1 << 64) - 1
UNKNOWN: Range = (0, MOST)


def capped(value: float) -> int:
    return MOST if value >= MOST else math.ceil(value)


def exactly(size: int) -> Range:
    return size, size


def union(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def added(a: Range, b: Range) -> Range:
    return capped(a[0] + b[0]), capped(a[1] + b[1])


def multiplied(a: Range, b: Range) -> Range:
    return capped(a[0] * b[0]), capped(a[1] * b[1])


def times(size: int, cost: float) -> int:
    return capped(size * cost)
