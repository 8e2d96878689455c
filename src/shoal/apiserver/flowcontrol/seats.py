"""Seats: how many writes of a priority level may run at once, from its share of all seats and what other levels lend.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import ceil
from types import TracebackType

from shoal.apiserver.flowcontrol.flowschema import PriorityLevel
from shoal.apiserver.request.info import ROOT
from shoal.objects.errors import TooManyRequests

MAX_IN_FLIGHT = 1000


class InFlightLimiter:
    def __init__(self, limit: int = MAX_IN_FLIGHT) -> None:
        self._limit = limit
        self.count = 0
        """Number of writes under way."""
        self.waiting_reads = 0
        """Number of reads that wait until the store is known to hold nothing newer."""

    def __enter__(self) -> None:
        if self.count >= self._limit:
            raise TooManyRequests("Too many requests, please try again later.", retry_after=1)
        self.count += 1

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.count -= 1


LevelKey = tuple[str, str]
"""Logical cluster and priority level."""


class SeatAllocator:
    def __init__(self, total: int, levels: Callable[[str], tuple[PriorityLevel, ...]]) -> None:
        """`levels` returns the priority levels of a logical cluster."""
        self._total, self._levels = total, levels
        self._in_use_by_level: dict[LevelKey, int] = {}
        self.in_use = 0

    @property
    def has_free(self) -> bool:
        return self.in_use < self._total

    @property
    def has_slack(self) -> bool:
        """True while so few seats are in use that requests need not be classified."""
        return self.in_use * 2 < self._total

    def acquire(self, key: LevelKey | None) -> None:
        """A key of None is a request that was not classified."""
        self.in_use += 1
        if key is not None:
            self._in_use_by_level[key] = self._in_use_by_level.get(key, 0) + 1

    def release(self, key: LevelKey | None) -> None:
        self.in_use -= 1
        if key is None:
            return
        remaining = self._in_use_by_level[key] - 1
        if remaining:
            self._in_use_by_level[key] = remaining
        else:
            del self._in_use_by_level[key]

    def can_acquire(self, key: Hashable) -> bool:
        """True if one more request of this cluster's level may start."""
        if not self.has_free:
            return False
        assert isinstance(key, tuple)
        cluster, name = key
        levels = self._limited_levels(cluster)
        level = levels.get(name)
        if level is None:  # Leases, or a level deleted while its requests were queued
            return True
        nominal = self.nominal_seats(cluster)
        level_in_use = self._in_use_by_level.get((cluster, name), 0)
        if level_in_use < max(nominal[name], 1):
            return True
        if level.borrowing_limit_percent is not None and level_in_use >= nominal[name] + round(
            nominal[name] * level.borrowing_limit_percent / 100
        ):
            return False
        reserved = sum(
            max(
                0,
                nominal[each.name]
                - round(nominal[each.name] * each.lendable_percent / 100)
                - self._level_in_use(cluster, each.name),
            )
            for each in levels.values()
            if each.name != name
        )
        return self.in_use + reserved < self._total

    def nominal_seats(self, cluster: str) -> dict[str, int]:
        """Returns the nominal seats of each limited level of a cluster."""
        levels = self._limited_levels(cluster)
        shares = sum(each.shares for each in levels.values()) or 1
        return {name: ceil(self._total * each.shares / shares) for name, each in levels.items()}

    def render_metrics(self, cluster: str | None) -> str:
        """Renders the nominal seats in the Prometheus text format, for root if no cluster is given."""
        name = "apiserver_flowcontrol_nominal_limit_seats"
        lines = [f"# HELP {name} Nominal number of execution seats of each priority level.", f"# TYPE {name} gauge"]
        lines += [
            f'{name}{{priority_level="{level}"}} {seats}'
            for level, seats in self.nominal_seats(cluster or ROOT).items()
        ]
        return "\n".join([*lines, ""])

    def _limited_levels(self, cluster: str) -> dict[str, PriorityLevel]:
        return {level.name: level for level in self._levels(cluster) if not level.is_exempt}

    def _level_in_use(self, cluster: str, name: str) -> int:
        return self._in_use_by_level.get((cluster, name), 0)
