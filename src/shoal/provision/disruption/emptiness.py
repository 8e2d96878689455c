"""Emptiness: nodes without reschedulable pods. Pure and fast, because nothing is simulated."""

from __future__ import annotations

from shoal.provision.disruption.budgets import allowed_disruptions
from shoal.provision.disruption.candidates import candidates, is_removable_empty, within_budget
from shoal.provision.disruption.model import EMPTY, Command, DisruptionDecision, DisruptionSnapshot


def decide_emptiness(snapshot: DisruptionSnapshot) -> DisruptionDecision:
    """All empty candidates within the budgets."""
    eligible, _ = candidates(snapshot)
    empty_candidates = sorted(
        (each for each in eligible if is_removable_empty(each)), key=lambda each: (-each.savings_ratio, each.name)
    )
    kept, limited = within_budget(empty_candidates, allowed_disruptions(snapshot, EMPTY))
    return DisruptionDecision(Command(EMPTY, "empty", tuple(kept)) if kept else None, (), limited)
