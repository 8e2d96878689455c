"""Which nodes are there for nothing. Pure, and quickly decided: nothing has to be simulated."""

from __future__ import annotations

from shoal.provision.disruption.budgets import allowed
from shoal.provision.disruption.candidates import candidates, may_go_empty, within_budget
from shoal.provision.disruption.model import EMPTY, Command, Decision, Snapshot


def empty(snapshot: Snapshot) -> Decision:
    """All that are, as far as budgets go."""
    found, _ = candidates(snapshot)
    bare = sorted((each for each in found if may_go_empty(each)), key=lambda each: (-each.ratio, each.name))
    kept, limited = within_budget(bare, allowed(snapshot, EMPTY))
    return Decision(Command(EMPTY, "empty", tuple(kept)) if kept else None, (), limited)
