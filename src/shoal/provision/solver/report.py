"""Report of the solver about a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OptimizationReport:
    cost: float
    """Hourly cost of the new nodes."""
    karpenter_cost: float
    """Cost of Karpenter's plan for the same pods."""
    bound: float
    """Lower bound of the cost of any plan with every pod in the topology domain that Karpenter chose; 0: unknown."""
    nodes: int
    iterations: int
    kept_reason: str = ""
    """Why Karpenter's plan was kept; "": it was made cheaper."""

    @property
    def gap(self) -> float:
        """Maximum relative distance to the bound; 0 if no bound is known."""
        return self.cost / self.bound - 1.0 if self.bound > 0 else 0.0

    @property
    def summary(self) -> str:
        summary = f"{self.nodes} node{'s' if self.nodes != 1 else ''} at {self.cost:.4g} per hour"
        if self.cost < self.karpenter_cost:
            summary += f" instead of {self.karpenter_cost:.4g}"
        if self.bound > 0:
            summary += f", at most {self.gap:.1%} above the lower bound"
        return summary
