"""Checks that disruption commands really reduced cost; backs off exponentially if not. The scheduler places the pods
and may need more nodes than planned. Pure.

Consecutive commands are judged together when all pods are bound again, because each may undo another. A result that is
no cheaper than before is a failure. Only a new lowest cost resets the failures, so alternating between two states does
not count as success.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Backoff after a failure; doubled for each further one."""


@dataclass(slots=True)
class _Hope:
    cost: float
    """Cluster cost before the first command."""
    pods: int
    savings: float = 0.0
    known: set[str] = field(default_factory=set)
    """NodeClaims that existed before, and those of the commands."""


@dataclass(slots=True)
class Hopes:
    """Tracks one cluster."""

    open: _Hope | None = None
    failures: int = 0
    lowest: tuple[int, float] | None = None
    """Number of pods, and the lowest cluster cost with that many."""

    def begun(self, cost: float, pods: int, savings: float, there: Iterable[str]) -> None:
        if self.open is None:
            self.open = _Hope(cost, pods, known=set(there))
        self.open.savings += savings
        self.open.pods = max(self.open.pods, pods)

    def expect(self, claims: Iterable[str]) -> None:
        if self.open is not None:
            self.open.known.update(claims)

    def are_disturbed(self, there: Iterable[str]) -> bool:
        """True if NodeClaims were created besides those of the commands."""
        return self.open is not None and not self.open.known.issuperset(there)

    def judge(self, cost: float, pods: int) -> bool:
        """Ends the check and returns True if less than half of the expected savings remain."""
        hope, self.open = self.open, None
        if hope is None or pods > hope.pods:
            self.lowest = None
            return False
        best = self.lowest[1] if self.lowest is not None and self.lowest[0] == pods else hope.cost
        self.lowest = pods, min(best, cost)
        if cost > hope.cost - hope.savings / 2:
            return True
        if cost < best:
            self.failures = 0
        return False

    def failed(self) -> float:
        """Returns the backoff in seconds."""
        pause = min(FIRST_PAUSE * 2**self.failures, LONGEST_PAUSE)
        self.failures = min(self.failures + 1, 10)
        self.open = None
        return float(pause)
