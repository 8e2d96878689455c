"""Whether commands came to what was hoped of them. Pods are placed by others, who may need more nodes for it. Pure.

Commands that follow each other are judged together, when all pods have their place again: each may undo what another
one did. What ends no cheaper than the cluster was before counts as a failure, and only a lower cost than any before
makes failures forgotten: going up and down for ever is no success.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""After a failure; doubled for each that follows."""


@dataclass(slots=True)
class _Hope:
    cost: float
    """Of the cluster before the first command."""
    pods: int
    savings: float = 0.0
    known: set[str] = field(default_factory=set)
    """NodeClaims that were there, and those of the commands."""


@dataclass(slots=True)
class Hopes:
    """Of one cluster."""

    open: _Hope | None = None
    failures: int = 0
    lowest: tuple[int, float] | None = None
    """The number of pods, and the least that the cluster has cost with them."""

    def begun(self, cost: float, pods: int, savings: float, there: Iterable[str]) -> None:
        if self.open is None:
            self.open = _Hope(cost, pods, known=set(there))
        self.open.savings += savings
        self.open.pods = max(self.open.pods, pods)

    def expect(self, claims: Iterable[str]) -> None:
        if self.open is not None:
            self.open.known.update(claims)

    def are_disturbed(self, there: Iterable[str]) -> bool:
        """Nodes were bought besides those of the commands."""
        return self.open is not None and not self.open.known.issuperset(there)

    def judge(self, cost: float, pods: int) -> bool:
        """Whether it was in vain: less than half of the saving is left."""
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
        """For how long the cluster is left alone now."""
        pause = min(FIRST_PAUSE * 2**self.failures, LONGEST_PAUSE)
        self.failures = min(self.failures + 1, 10)
        self.open = None
        return float(pause)
