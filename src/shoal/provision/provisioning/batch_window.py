"""Batch window: how long pods are collected before a plan is made for them, and which nodes of the plan wait for more
pods. Pure; times are arguments.

A window ends when no pod came for the idle time, or at its maximum. The idle time grows with the gaps between pods that
come one by one: otherwise each of them would be planned alone, and would get the node that is cheapest for it alone.
While more pods are expected, a NodeClaim that is not full is held back and planned again with them, as long as none of
its pods has waited for the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shoal.fit.resources import CPU, MEMORY, Resources
from shoal.provision.simulation.model import NewNodeClaim

GAPS_WAITED = 3.0
"""Pods that come one by one are waited for during this many of their gaps."""
NEW_GAP_SHARE = 0.25
"""Weight of the last gap in the average of the gaps."""
FULL_SHARE = 0.9
"""A node is full if its pods request this much of its cpu or memory."""
MIN_REPLAN_SECONDS = 0.5
"""Minimum time between two plans with the same pods."""


@dataclass(slots=True)
class ArrivalGaps:
    """Gaps between the pods of a cluster that need a node."""

    last: float | None = None
    """Time of the last pod."""
    average: float = 0.0

    def record(self, now: float, longest: float) -> None:
        """Records a pod. After a gap longer than `longest`, pods are no longer expected to follow each other."""
        gap, self.last = longest if self.last is None else now - self.last, now
        if gap >= longest:
            self.average = 0.0
        elif not self.average:
            self.average = gap
        else:
            self.average += NEW_GAP_SHARE * (gap - self.average)

    def expects_more(self, now: float) -> bool:
        return self.last is not None and self.average > 0 and now < self.last + GAPS_WAITED * self.average


@dataclass(slots=True)
class BatchWindow:
    opened: float
    last_pod: float
    pod_uids: set[str] = field(default_factory=set)

    def add(self, uid: str, now: float) -> None:
        """A pod that is already in the window does not extend it."""
        if uid and uid not in self.pod_uids:
            self.pod_uids.add(uid)
            self.last_pod = now

    def end(self, idle: float, longest: float, gaps: ArrivalGaps) -> float:
        """`idle` is the idle time of pods that come at once, `longest` the maximum of the window."""
        return min(self.last_pod + max(idle, GAPS_WAITED * gaps.average), self.opened + longest)

    def extend_for(self, arrivals: Iterable[float], now: float, longest: float) -> None:
        """Continues with pods that came earlier: the window ends when the first of them has waited for the maximum."""
        self.opened = min(self.opened, max(min(arrivals), now + MIN_REPLAN_SECONDS - longest))


def is_full(claim: NewNodeClaim, allocatable: Resources) -> bool:
    """`allocatable`: of its cheapest type."""
    return any(claim.requests.get(name, 0) >= FULL_SHARE * allocatable.get(name, 0) for name in (CPU, MEMORY))
