"""How many of a total each of several clusters gets: Sainte-Laguë's highest averages between floors and ceilings. Pure.

Who has the largest weight for each of its next half steps gets the next one. So a share never shrinks when the total
grows, nor grows when it shrinks. Among equals it goes to who holds that much already, so that nothing moves without
need; then the order of the seats decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

WITHOUT_END = 2**53
"""More than any total; and a float can still tell it from its neighbour."""
ROUNDS = 80
"""Of halving; each halves the logarithm of the error, so far fewer are ever used."""


@dataclass(frozen=True, slots=True)
class Seat:
    name: str
    weight: float = 1
    """Without weight it gets its floor and no more."""
    least: int = 0
    most: int = WITHOUT_END
    held: int = 0


def divide(total: int, seats: Sequence[Seat]) -> dict[str, int]:
    """The shares, in the order of the seats; less in all where the ceilings are lower than the total. Where there is
    not enough for all floors, they are what is divided."""
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
    """Shares that giving one by one comes by, at most one for each seat before the total: one step for each replica
    would take ten times as long as this."""

    def rounded(divisor: float) -> list[int]:
        # Half is rounded down: where many seats are equal, which of them are first is for the last steps to say.
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
