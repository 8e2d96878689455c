"""Divides replicas over clusters: Sainte-Laguë's highest averages between minimums and maximums. Pure.

The next replica goes to the cluster with the highest quotient of weight and next half step. So a share never shrinks
when the total grows, nor grows when it shrinks. On a tie it goes to a cluster that holds that many already, so that
nothing moves without need; then the order of the bounds decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

UNBOUNDED = 2**53
"""More than any total, and still exact as a float."""
MAX_ROUNDS = 80
"""Of bisection; each halves the logarithm of the error, so far fewer are ever used."""


@dataclass(frozen=True, slots=True)
class ShareBounds:
    name: str
    weight: float = 1
    """Without weight it gets its minimum and no more."""
    minimum: int = 0
    maximum: int = UNBOUNDED
    current: int = 0


def divide_replicas(total: int, bounds: Sequence[ShareBounds]) -> dict[str, int]:
    """Returns the shares in the order of the bounds; fewer in total if the maximums are lower than the total. If there
    is not enough for all minimums, those are divided.
    """
    weights = [seat.weight for seat in bounds]
    minimums = [min(seat.minimum, seat.maximum) for seat in bounds]
    if total < sum(minimums):
        weights = [max(weight, 0) or 1e-9 for weight in weights]
        shares = _divide_between(total, weights, [0] * len(bounds), minimums, bounds)
    else:
        shares = _divide_between(total, weights, minimums, [seat.maximum for seat in bounds], bounds)
    return {seat.name: share for seat, share in zip(bounds, shares, strict=True)}


def _divide_between(
    total: int, weights: list[float], low: list[int], high: list[int], bounds: Sequence[ShareBounds]
) -> list[int]:
    def next_step(index: int) -> tuple[float, bool, int]:
        share = shares[index]
        return -weights[index] / (2 * share + 1), share >= bounds[index].current, index

    high = [most if weight > 0 else least for weight, least, most in zip(weights, low, high, strict=True)]
    if total >= sum(high):
        return high
    shares = _approximate_shares(total, weights, low, high)
    heap = [next_step(index) for index, most in enumerate(high) if shares[index] < most]
    heapq.heapify(heap)
    for _ in range(total - sum(shares)):
        index = heap[0][2]
        shares[index] += 1
        if shares[index] < high[index]:
            heapq.heapreplace(heap, next_step(index))
        else:
            heapq.heappop(heap)
    return shares


def _approximate_shares(total: int, weights: list[float], low: list[int], high: list[int]) -> list[int]:
    """Returns shares that the one-by-one division passes through, at most one per cluster before the total: one step
    per replica would take ten times as long.
    """

    def rounded_shares(divisor: float) -> list[int]:
        # Half is rounded down: where many clusters are equal, the last steps decide which of them come first.
        return [
            min(max(-int((0.5 - weight / divisor) // 1), least), most)
            for weight, least, most in zip(weights, low, high, strict=True)
        ]

    upper, lower = 4 * max(weights), 0.0
    shares = low
    divisor = sum(weight for weight in weights if weight > 0) / max(total, 1)
    for _ in range(MAX_ROUNDS):
        shares_at = rounded_shares(divisor)
        shortfall = total - sum(shares_at)
        if shortfall >= 0:
            upper, shares = divisor, shares_at
            if shortfall <= len(weights):
                break
        else:
            lower = divisor
        divisor = (upper * lower) ** 0.5 if lower else upper / 4
    return list(shares)
