"""What the solver says of its plan, besides the plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    cost: float
    """Of the new nodes, an hour."""
    rule_cost: float
    """Of Karpenter's rule for the same pods."""
    bound: float
    """What no plan can be cheaper than, with every pod in the topology domain that the rule chose; 0: not known."""
    nodes: int
    iterations: int
    kept: str = ""
    """Why the rule's plan was kept; "": it was made cheaper."""

    @property
    def gap(self) -> float:
        """By how much of the bound it costs more than that, at most; 0 too where no bound is known."""
        return self.cost / self.bound - 1.0 if self.bound > 0 else 0.0

    @property
    def text(self) -> str:
        told = f"{self.nodes} node{'s' if self.nodes != 1 else ''} at {self.cost:.4g} an hour"
        if self.cost < self.rule_cost:
            told += f" instead of {self.rule_cost:.4g}"
        if self.bound > 0:
            told += f", at most {self.gap:.1%} above the least possible"
        return told
