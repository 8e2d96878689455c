"""Bit sets of the elements with at least a given amount, one per distinct amount, found by bisection. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from shoal.fit.resources import Resources


class ThresholdBitmap:
    """One resource. Bit n of a mask is the n-th element it was built from."""

    __slots__ = ("_masks", "_values")

    def __init__(self, amounts: Sequence[int]) -> None:
        by_value: dict[int, int] = {}
        for number, amount in enumerate(amounts):
            by_value[amount] = by_value.get(amount, 0) | (1 << number)
        self._values = sorted(by_value)
        self._masks = [0] * (len(self._values) + 1)
        for number in range(len(self._values) - 1, -1, -1):
            self._masks[number] = self._masks[number + 1] | by_value[self._values[number]]

    def at_least(self, amount: int) -> int:
        return self._masks[bisect_left(self._values, amount)]

    def at_most(self, amount: int) -> int:
        return self._masks[0] & ~self._masks[bisect_right(self._values, amount)]

    def highest(self, among: int) -> int:
        """Maximum amount among these elements."""
        for number in range(len(self._values) - 1, -1, -1):
            if self._masks[number] & among:
                return self._values[number]
        return 0


class ResourceBitmaps:
    def __init__(self, many: Sequence[Mapping[str, int]]) -> None:
        names = {name for each in many for name in each}
        self._by_name = {name: ThresholdBitmap([each.get(name, 0) for each in many]) for name in names}

    def with_room_for(self, requests: Resources, used: Resources) -> int:
        """Elements that have the requests on top of what is used. Resources that are not requested are ignored."""
        mask = -1
        for name, amount in requests.items():
            bitmap = self._by_name.get(name)
            if bitmap is None:
                return 0
            mask &= bitmap.at_least(amount + used.get(name, 0))
        return mask

    def within(self, limits: Resources) -> int:
        """Elements that exceed no limit."""
        mask = -1
        for name, amount in limits.items():
            bitmap = self._by_name.get(name)
            if bitmap is not None:
                mask &= bitmap.at_most(amount)
            elif amount < 0:
                return 0
        return mask

    def highest(self, name: str, among: int) -> int:
        bitmap = self._by_name.get(name)
        return bitmap.highest(among) if bitmap is not None else 0
