"""Ranges of sizes (minimum, maximum) and costs, with arithmetic that saturates at the largest uint64."""

from __future__ import annotations

import math

SizeRange = tuple[int, int]
MAX_UINT64 = (1 << 64) - 1
UNKNOWN_SIZE: SizeRange = (0, MAX_UINT64)


def saturate(value: float) -> int:
    return MAX_UINT64 if value >= MAX_UINT64 else math.ceil(value)


def fixed_size(size: int) -> SizeRange:
    return size, size


def union_ranges(a: SizeRange, b: SizeRange) -> SizeRange:
    return min(a[0], b[0]), max(a[1], b[1])


def add_ranges(a: SizeRange, b: SizeRange) -> SizeRange:
    return saturate(a[0] + b[0]), saturate(a[1] + b[1])


def multiply_ranges(a: SizeRange, b: SizeRange) -> SizeRange:
    return saturate(a[0] * b[0]), saturate(a[1] * b[1])


def scale_size(size: int, cost: float) -> int:
    return saturate(size * cost)
