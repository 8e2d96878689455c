"""Karpenter's consolidation: several nodes into at most one, or one into a cheaper one. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from shoal.kinds.karpenter import SPOT
from shoal.provision.disruption.balanced import Totals, approved, can_pass, totals
from shoal.provision.disruption.budgets import allowed
from shoal.provision.disruption.candidates import UNCONSOLIDATABLE, candidates, may_be_consolidated, within_budget
from shoal.provision.disruption.model import UNDERUTILIZED, Candidate, Command, Decision, Note, Settings, Snapshot
from shoal.provision.disruption.moving import Move, move
from shoal.provision.disruption.outcome import foreseen
from shoal.provision.disruption.prices import (
    allows,
    below,
    enough,
    most_for,
    pin_to_spot,
    pinned,
    priced,
    renamed,
    with_types,
)
from shoal.provision.simulation.model import NewClaim

Stop = Callable[[], bool]

MOST_AT_ONCE = 100
SPOT_TYPES = 15
"""Minimum number of cheaper types to replace a spot node, and the number of types requested."""


def never() -> bool:
    return False


def eligible(snapshot: Snapshot) -> tuple[list[Candidate], list[Note], dict[str, Totals]]:
    """Consolidatable candidates by descending price per disruption cost."""
    found, notes = candidates(snapshot)
    may = []
    for each in found:
        yes, why = may_be_consolidated(each)
        if yes:
            may.append(each)
        elif why:
            notes.append(Note(each.name, UNCONSOLIDATABLE, why))
    return sorted(may, key=lambda each: (-each.ratio, each.name)), notes, totals(snapshot, found)


def multi(snapshot: Snapshot, settings: Settings, stop: Stop = never) -> Decision:
    """Largest prefix of the candidates, found by bisection, whose pods fit elsewhere or on one cheaper new node."""
    found, notes, sums = eligible(snapshot)
    found, limited = within_budget(found, allowed(snapshot, UNDERUTILIZED))
    best = None
    fewest, most = 1, min(len(found) - 1, MOST_AT_ONCE)
    while fewest <= most and not stop():
        middle = (fewest + most) // 2
        command = together(snapshot, found[: middle + 1], settings)
        if command is not None and approved(command, sums):
            best, fewest = command, middle + 1
        else:
            most = middle - 1
    return Decision(best, tuple(notes), limited)


def single(snapshot: Snapshot, settings: Settings, stop: Stop = never) -> Decision:
    """First candidate whose pods fit on other nodes or on one cheaper new node."""
    found, notes, sums = eligible(snapshot)
    left, limited = allowed(snapshot, UNDERUTILIZED), False
    for each in _interleaved(found):
        if stop():
            break
        if left.get(each.pool.name, 0) < 1:
            limited = True
            continue
        if not can_pass(each, sums):
            continue
        command, why = alone(snapshot, each, settings)
        if command is not None and approved(command, sums):
            return Decision(command, tuple(notes), limited)
        if why:
            notes.append(Note(each.name, UNCONSOLIDATABLE, why))
    return Decision(None, tuple(notes), limited)


def together(snapshot: Snapshot, found: Sequence[Candidate], settings: Settings) -> Command | None:
    return consolidated(snapshot, found, settings, "multi")[0]


def alone(snapshot: Snapshot, candidate: Candidate, settings: Settings) -> tuple[Command | None, str]:
    return consolidated(snapshot, (candidate,), settings, "single")


def consolidated(
    snapshot: Snapshot, found: Sequence[Candidate], settings: Settings, method: str
) -> tuple[Command | None, str]:
    """Returns the command that removes all of them, or None and the reason."""
    moved = move(snapshot, found)
    if moved.problem:
        return None, moved.problem
    command = Command(UNDERUTILIZED, method, tuple(found), plan=moved.plan)
    if not moved.plan.claims:
        return _foreseen(command, moved, settings)
    if len(moved.plan.claims) > 1:
        return None, f"Can't remove without creating {len(moved.plan.claims)} candidates"
    (claim,) = moved.plan.claims
    pool = snapshot.pools()[claim.pool]
    if all(each.capacity_type == SPOT for each in found) and allows(claim, SPOT):
        replacement, why = _spot_to_spot(claim, command, snapshot, settings)
    else:
        replacement, why = below(claim, pool, command.cost), "Can't replace with a cheaper node"
    if replacement is None:
        return None, why
    most = most_for(replacement, found) if len(found) > 1 else math.inf
    replacement = below(pin_to_spot(replacement, pool), pool, most)
    if replacement is None:
        return None, why
    return _foreseen(_command(command, replacement), moved, settings)


def _foreseen(command: Command, moved: Move, settings: Settings) -> tuple[Command | None, str]:
    found = foreseen(command, moved.question, settings)
    return found, "" if found is not None else "Not all pods would find the room that was planned for them"


def _spot_to_spot(
    claim: NewClaim, command: Command, snapshot: Snapshot, settings: Settings
) -> tuple[NewClaim | None, str]:
    """Only the cheapest types are requested, so that the node is not replaced again whenever prices among them
    change.
    """
    if not settings.spot_to_spot:
        return None, "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
    pool = snapshot.pools()[claim.pool]
    narrowed = pinned(claim, pool, SPOT)
    cheaper = below(narrowed, pool, command.cost) if narrowed is not None else None
    if cheaper is None:
        return None, "Can't replace with a cheaper node"
    if len(command.candidates) > 1:
        return cheaper, ""
    kinds = priced(cheaper, pool)
    if len(kinds) < SPOT_TYPES:
        return None, (
            f"SpotToSpotConsolidation requires {SPOT_TYPES} cheaper instance type options than the current candidate "
            f"to consolidate, got {len(kinds)}"
        )
    return with_types(cheaper, kinds[: max(SPOT_TYPES, enough(cheaper.requirements, kinds) or 0)]), ""


def _command(command: Command, claim: NewClaim) -> Command:
    named = renamed(claim, command.candidates)
    return Command(UNDERUTILIZED, command.method, command.candidates, (named,), command.plan)


def _interleaved(found: Sequence[Candidate]) -> list[Candidate]:
    """Round robin over the NodePools, so that a large pool does not delay the others."""
    by_pool: dict[str, list[Candidate]] = {}
    for each in found:
        by_pool.setdefault(each.pool.name, []).append(each)
    rounds = max((len(each) for each in by_pool.values()), default=0)
    return [each[number] for number in range(rounds) for each in by_pool.values() if number < len(each)]
