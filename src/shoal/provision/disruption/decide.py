"""Chooses the next disruption command (empty, drifted, underutilized) and validates a pending one. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shoal.objects.conditions import get_condition
from shoal.provision.disruption.budgets import allowed
from shoal.provision.disruption.candidates import (
    BLOCKED,
    candidates,
    is_drifted,
    may_be_consolidated,
    may_go_empty,
    within_budget,
)
from shoal.provision.disruption.consolidation import Stop, multi, never, single
from shoal.provision.disruption.emptiness import empty
from shoal.provision.disruption.model import (
    DRIFTED,
    EMPTY,
    Candidate,
    Command,
    Decision,
    Note,
    Settings,
    Snapshot,
)
from shoal.provision.disruption.moving import move
from shoal.provision.disruption.outcome import foreseen
from shoal.provision.disruption.prices import renamed
from shoal.provision.disruption.repack import repack, repacked
from shoal.provision.settings import KARPENTER

Filter = Callable[[Candidate], bool]


def decide(snapshot: Snapshot, settings: Settings, stop: Stop = never) -> Decision:
    """Only the first method that finds a command acts."""
    found = empty(snapshot)
    return found if found.command is not None else rest(snapshot, settings, stop)


def rest(snapshot: Snapshot, settings: Settings, stop: Stop = never) -> Decision:
    """Methods that need a simulation; emptiness is left out."""
    limited, notes = False, dict[tuple[str, str], Note]()
    for method in (drifted, consolidation):
        found = method(snapshot, settings, stop)
        limited |= found.limited
        notes |= {(note.node, note.reason): note for note in found.notes}
        if found.command is not None:
            return replace(found, notes=tuple(notes.values()))
    return Decision(None, tuple(notes.values()), limited)


def drifted(snapshot: Snapshot, settings: Settings | None = None, stop: Stop = never) -> Decision:
    """One node at a time, nodes without pods first, then by time of drift. It may have several replacements."""
    found, notes = candidates(snapshot, eventual=True)
    notes = [note for note in notes if note.node in {each.name for each in snapshot.nodes if _drifts(each.claim)}]
    old = sorted(filter(is_drifted, found), key=lambda each: (bool(each.pods), _since(each), each.name))
    left, limited = allowed(snapshot, DRIFTED), False
    for each in old:
        if stop():
            break
        if left.get(each.pool.name, 0) < 1:
            limited = True
            continue
        moved = move(snapshot, (each,), settle=False)
        if moved.problem:
            notes.append(Note(each.name, BLOCKED, moved.problem))
            continue
        claims = tuple(renamed(claim, (each,)) for claim in moved.plan.claims)
        return Decision(Command(DRIFTED, "drift", (each,), claims, moved.plan), tuple(notes), limited)
    return Decision(None, tuple(notes), limited)


def consolidation(snapshot: Snapshot, settings: Settings, stop: Stop = never) -> Decision:
    """Karpenter's consolidation, or the solver's if it is better."""
    found = multi(snapshot, settings, stop)
    if settings.planner != KARPENTER:
        found = repack(snapshot, settings, found, stop)
    return found if found.command is not None else _both(found, single(snapshot, settings, stop))


def validate(snapshot: Snapshot, command: Command, settings: Settings) -> tuple[Command | None, str]:
    """Returns the revised command, or None and the reason: churn, budget or scheduling."""
    keep: Filter = may_go_empty if command.reason == EMPTY else lambda each: may_be_consolidated(each)[0]
    names = {each.name for each in command.candidates}
    found = [each for each in candidates(snapshot)[0] if each.name in names and keep(each)]
    kept, limited = within_budget(found, allowed(snapshot, command.reason))
    if command.reason == EMPTY:
        return (replace(command, candidates=tuple(kept)), "") if kept else (None, "budget" if limited else "churn")
    if len(found) < len(names):
        return None, "churn"
    if limited:
        return None, "budget"
    if command.method == "repack":
        packed = repacked(snapshot, found, settings)
        return (packed, "") if packed is not None else (None, "scheduling")
    moved = move(snapshot, found)
    if moved.problem or len(moved.plan.claims) != len(command.replacements):
        return None, "scheduling"
    pairs = list(zip(command.replacements, moved.plan.claims, strict=True))
    if any(wanted.pool != claim.pool or not set(wanted.types) <= set(claim.types) for wanted, claim in pairs):
        return None, "scheduling"
    claims = tuple(replace(wanted, pods=claim.pods, requests=claim.requests) for wanted, claim in pairs)
    now = Command(command.reason, command.method, tuple(found), claims, moved.plan)
    again = foreseen(now, moved.question, settings)
    return (again, "") if again is not None else (None, "scheduling")


def _both(one: Decision, other: Decision) -> Decision:
    return replace(other, limited=one.limited or other.limited)


def _drifts(claim: dict[str, object]) -> bool:
    return (get_condition(claim, DRIFTED) or {}).get("status") == "True"


def _since(each: Candidate) -> str:
    return str((get_condition(each.standing.claim, DRIFTED) or {}).get("lastTransitionTime", ""))
