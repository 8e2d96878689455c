"""Divides replicas over clusters: Sainte-Laguë's highest averages between minimums and maximums. Pure.

The next replica goes to the cluster with the highest quotient of weight and next half step. So a share never shrinks
when the total grows, nor grows when it shrinks. On a tie it goes to a cluster that holds that many already, so that
nothing moves without need; then the order of the bounds decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

WITHOUT_END = 2**53
"""More than any total, and still exact as a float."""
ROUNDS = 80
"""Of bisection; each halves the logarithm of the error, so far fewer are ever used."""


@dataclass(frozen=True, slots=True)
class Seat:
    name: str
    weight: float = 1
    """Without weight it gets its minimum and no more."""
    least: int = 0
    most: int = WITHOUT_END
    held: int = 0


def divide(total: int, seats: Sequence[Seat]) -> dict[str, int]:
    """Returns the shares in the order of the bounds; fewer in total if the maximums are lower than the total. If there
    is not enough for all minimums, those are divided.
    """
    weights = [seat.weight for seat in seats]
    floors = [min(seat.least, seat.most) for seat in seats]
    if total < sum(floors):
        weights = [max(weight, 0) or 1e-9 for weight in weights]
        shares = _between(total, weights, [0] * len(seats), floors, seats)
    else:
        shares = _between(total, weights, floors, [seat.most for seat in seats], seats)
    return {seat.name: share for seat, share in zip(seats, shares, strict=True)}


def _between(total: int, weights: list[float], low: list[int], high: list[int], seats: Sequence[Seat]) -> list[int]:
    def next_step(place: int) -> tuple[float, bool, int]:
        share = shares[place]
        return -weights[place] / (2 * share + 1), share >= seats[place].held, place

    high = [most if weight > 0 else least for weight, least, most in zip(weights, low, high, strict=True)]
    if total >= sum(high):
        return high
    shares = _nearly(total, weights, low, high)
    ahead = [next_step(place) for place, most in enumerate(high) if shares[place] < most]
    heapq.heapify(ahead)
    for _ in range(total - sum(shares)):
        place = ahead[0][2]
        shares[place] += 1
        if shares[place] < high[place]:
            heapq.heapreplace(ahead, next_step(place))
        else:
            heapq.heappop(ahead)
    return shares


def _nearly(total: int, weights: list[float], low: list[int], high: list[int]) -> list[int]:
    """Returns shares that the one-by-one division passes through, at most one per cluster before the total: one step
    per replica would take ten times as long.
    """

    def rounded(divisor: float) -> list[int]:
        # Half is rounded down: where many clusters are equal, the last steps decide which of them come first.
        return [
            min(max(-int((0.5 - weight / divisor) // 1), least), most)
            for weight, least, most in zip(weights, low, high, strict=True)
        ]

    above, below = 4 * max(weights), 0.0
    shares = low
    divisor = sum(weight for weight in weights if weight > 0) / max(total, 1)
    for _ in range(ROUNDS):
        found = rounded(divisor)
        missing = total - sum(found)
        if missing >= 0:
            above, shares = divisor, found
            if missing <= len(weights):
                break
        else:
            below = divisor
        divisor = (above * below) ** 0.5 if below else above / 4
    return list(shares)
