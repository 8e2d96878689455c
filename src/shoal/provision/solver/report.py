"""Report of the solver about a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    cost: float
    """Hourly cost of the new nodes."""
    rule_cost: float
    """Cost of Karpenter's plan for the same pods."""
    bound: float
    """Lower bound of the cost of any plan with every pod in the topology domain that Karpenter chose; 0: unknown."""
    nodes: int
    iterations: int
    kept: str = ""
    """Why Karpenter's plan was kept; "": it was made cheaper."""

    @property
    def gap(self) -> float:
        """Maximum relative distance to the bound; 0 if no bound is known."""
        return self.cost / self.bound - 1.0 if self.bound > 0 else 0.0

    @property
    def text(self) -> str:
        told = f"{self.nodes} node{'s' if self.nodes != 1 else ''} at {self.cost:.4g} an hour"
        if self.cost < self.rule_cost:
            told += f" instead of {self.rule_cost:.4g}"
        if self.bound > 0:
            told += f", at most {self.gap:.1%} above the least possible"
        return told
