"""Seats: how many writes of a priority level may run at once, from its share of all seats and what other levels lend.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import ceil

from shoal.apiserver.fairness.flows import Level
from shoal.apiserver.paths import ROOT

Key = tuple[str, str]
"""Logical cluster and priority level."""


class Seats:
    def __init__(self, total: int, levels: Callable[[str], tuple[Level, ...]]) -> None:
        """`levels` returns the priority levels of a logical cluster."""
        self._total, self._levels = total, levels
        self._taken: dict[Key, int] = {}
        self.taken = 0

    @property
    def free(self) -> bool:
        return self.taken < self._total

    @property
    def plenty(self) -> bool:
        """True while so few seats are in use that requests need not be classified."""
        return self.taken * 2 < self._total

    def take(self, key: Key | None) -> None:
        """A key of None is a request that was not classified."""
        self.taken += 1
        if key is not None:
            self._taken[key] = self._taken.get(key, 0) + 1

    def give_back(self, key: Key | None) -> None:
        self.taken -= 1
        if key is None:
            return
        left = self._taken[key] - 1
        if left:
            self._taken[key] = left
        else:
            del self._taken[key]

    def may(self, key: Hashable) -> bool:
        """True if one more request of this cluster's level may start."""
        if not self.free:
            return False
        assert isinstance(key, tuple)
        cluster, name = key
        levels = self._limited(cluster)
        level = levels.get(name)
        if level is None:  # Leases, or a level deleted while its requests were queued
            return True
        nominal = self.nominal(cluster)
        taken = self._taken.get((cluster, name), 0)
        if taken < max(nominal[name], 1):
            return True
        if level.borrowing is not None and taken >= nominal[name] + round(nominal[name] * level.borrowing / 100):
            return False
        kept = sum(
            max(0, nominal[each.name] - round(nominal[each.name] * each.lendable / 100) - self._in(cluster, each.name))
            for each in levels.values()
            if each.name != name
        )
        return self.taken + kept < self._total

    def nominal(self, cluster: str) -> dict[str, int]:
        """Returns the nominal seats of each limited level of a cluster."""
        levels = self._limited(cluster)
        shares = sum(each.shares for each in levels.values()) or 1
        return {name: ceil(self._total * each.shares / shares) for name, each in levels.items()}

    def render(self, cluster: str | None) -> str:
        """Renders the nominal seats in the Prometheus text format, for root if no cluster is given."""
        name = "apiserver_flowcontrol_nominal_limit_seats"
        lines = [f"# HELP {name} Writes of a priority level that may be under way.", f"# TYPE {name} gauge"]
        lines += [
            f'{name}{{priority_level="{level}"}} {seats}' for level, seats in self.nominal(cluster or ROOT).items()
        ]
        return "\n".join([*lines, ""])

    def _limited(self, cluster: str) -> dict[str, Level]:
        return {level.name: level for level in self._levels(cluster) if not level.exempt}

    def _in(self, cluster: str, name: str) -> int:
        return self._taken.get((cluster, name), 0)
