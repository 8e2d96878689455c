"""Checks that disruption commands really reduced cost; backs off exponentially if not. The scheduler places the pods
and may need more nodes than planned. Pure.

Consecutive commands are judged together when all pods are bound again, because each may undo another. A result that is
no cheaper than before is a failure. Only a new lowest cost resets the failures, so alternating between two states does
not count as success.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

BASE_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 60.0, 3600.0
"""Backoff after a failure; doubled for each further one."""


@dataclass(slots=True)
class _PendingCheck:
    initial_cost: float
    """Cluster cost before the first command."""
    pods: int
    expected_savings: float = 0.0
    expected_claims: set[str] = field(default_factory=set)
    """NodeClaims that existed before, and those of the commands."""


@dataclass(slots=True)
class SavingsTracker:
    """Tracks one cluster."""

    pending: _PendingCheck | None = None
    failures: int = 0
    lowest_cost: tuple[int, float] | None = None
    """Number of pods, and the lowest cluster cost with that many."""

    def start(self, cost: float, pods: int, savings: float, existing_claims: Iterable[str]) -> None:
        if self.pending is None:
            self.pending = _PendingCheck(cost, pods, expected_claims=set(existing_claims))
        self.pending.expected_savings += savings
        self.pending.pods = max(self.pending.pods, pods)

    def expect_claims(self, claims: Iterable[str]) -> None:
        if self.pending is not None:
            self.pending.expected_claims.update(claims)

    def has_unexpected_claims(self, claims: Iterable[str]) -> bool:
        """True if NodeClaims were created besides those of the commands."""
        return self.pending is not None and not self.pending.expected_claims.issuperset(claims)

    def check_failed(self, cost: float, pods: int) -> bool:
        """Ends the check and returns True if less than half of the expected savings remain."""
        check, self.pending = self.pending, None
        if check is None or pods > check.pods:
            self.lowest_cost = None
            return False
        best = (
            self.lowest_cost[1] if self.lowest_cost is not None and self.lowest_cost[0] == pods else check.initial_cost
        )
        self.lowest_cost = pods, min(best, cost)
        if cost > check.initial_cost - check.expected_savings / 2:
            return True
        if cost < best:
            self.failures = 0
        return False

    def record_failure(self) -> float:
        """Returns the backoff in seconds."""
        backoff = min(BASE_BACKOFF_SECONDS * 2**self.failures, MAX_BACKOFF_SECONDS)
        self.failures = min(self.failures + 1, 10)
        self.pending = None
        return float(backoff)
