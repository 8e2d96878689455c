"""Emptiness: nodes without reschedulable pods. Pure and fast, because nothing is simulated."""

from __future__ import annotations

from shoal.provision.disruption.budgets import allowed
from shoal.provision.disruption.candidates import candidates, may_go_empty, within_budget
from shoal.provision.disruption.model import EMPTY, Command, Decision, Snapshot


def empty(snapshot: Snapshot) -> Decision:
    """All empty candidates within the budgets."""
    found, _ = candidates(snapshot)
    bare = sorted((each for each in found if may_go_empty(each)), key=lambda each: (-each.ratio, each.name))
    kept, limited = within_budget(bare, allowed(snapshot, EMPTY))
    return Decision(Command(EMPTY, "empty", tuple(kept)) if kept else None, (), limited)
