"""Chooses the next disruption command (empty, drifted, underutilized) and validates a pending one. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shoal.objects.conditions import get_condition
from shoal.provision.disruption.budgets import allowed_disruptions
from shoal.provision.disruption.candidates import (
    BLOCKED,
    candidates,
    consolidation_eligibility,
    is_drifted,
    is_removable_empty,
    within_budget,
)
from shoal.provision.disruption.consolidation import (
    StopFunction,
    multi_node_consolidation,
    never_stop,
    single_node_consolidation,
)
from shoal.provision.disruption.emptiness import decide_emptiness
from shoal.provision.disruption.kube_scheduler_model import predict
from shoal.provision.disruption.model import (
    DRIFTED,
    EMPTY,
    Candidate,
    Command,
    DisruptionDecision,
    DisruptionSettings,
    DisruptionSnapshot,
    NodeNote,
)
from shoal.provision.disruption.prices import with_replacement_name
from shoal.provision.disruption.repack import repack_candidates, repack_consolidation
from shoal.provision.disruption.scheduling_simulation import simulate_scheduling
from shoal.provision.settings import KARPENTER

CandidateFilter = Callable[[Candidate], bool]


def decide(
    snapshot: DisruptionSnapshot, settings: DisruptionSettings, stop: StopFunction = never_stop
) -> DisruptionDecision:
    """Only the first method that finds a command acts."""
    decision = decide_emptiness(snapshot)
    return decision if decision.command is not None else decide_with_simulation(snapshot, settings, stop)


def decide_with_simulation(
    snapshot: DisruptionSnapshot, settings: DisruptionSettings, stop: StopFunction = never_stop
) -> DisruptionDecision:
    """Methods that need a simulation; emptiness is left out."""
    budget_limited, notes = False, dict[tuple[str, str], NodeNote]()
    for method in (decide_drift, decide_consolidation):
        decision = method(snapshot, settings, stop)
        budget_limited |= decision.budget_limited
        notes |= {(note.node, note.reason): note for note in decision.notes}
        if decision.command is not None:
            return replace(decision, notes=tuple(notes.values()))
    return DisruptionDecision(None, tuple(notes.values()), budget_limited)


def decide_drift(
    snapshot: DisruptionSnapshot, settings: DisruptionSettings | None = None, stop: StopFunction = never_stop
) -> DisruptionDecision:
    """One node at a time, nodes without pods first, then by time of drift. It may have several replacements."""
    eligible, notes = candidates(snapshot, eventual=True)
    notes = [note for note in notes if note.node in {each.name for each in snapshot.nodes if _has_drifted(each.claim)}]
    drifted_candidates = sorted(
        filter(is_drifted, eligible), key=lambda each: (bool(each.pods), _drifted_since(each), each.name)
    )
    remaining, limited = allowed_disruptions(snapshot, DRIFTED), False
    for each in drifted_candidates:
        if stop():
            break
        if remaining.get(each.pool.name, 0) < 1:
            limited = True
            continue
        simulation = simulate_scheduling(snapshot, (each,), skip_recent_nodes=False)
        if simulation.error:
            notes.append(NodeNote(each.name, BLOCKED, simulation.error))
            continue
        claims = tuple(with_replacement_name(claim, (each,)) for claim in simulation.results.new_node_claims)
        return DisruptionDecision(Command(DRIFTED, "drift", (each,), claims, simulation.results), tuple(notes), limited)
    return DisruptionDecision(None, tuple(notes), limited)


def decide_consolidation(
    snapshot: DisruptionSnapshot, settings: DisruptionSettings, stop: StopFunction = never_stop
) -> DisruptionDecision:
    """Karpenter's consolidation, or the solver's if it is better."""
    decision = multi_node_consolidation(snapshot, settings, stop)
    if settings.planner != KARPENTER:
        decision = repack_consolidation(snapshot, settings, decision, stop)
    return (
        decision
        if decision.command is not None
        else _merge_limited(decision, single_node_consolidation(snapshot, settings, stop))
    )


def validate_command(
    snapshot: DisruptionSnapshot, command: Command, settings: DisruptionSettings
) -> tuple[Command | None, str]:
    """Returns the revised command, or None and the reason: churn, budget or scheduling."""
    is_eligible: CandidateFilter = (
        is_removable_empty if command.reason == EMPTY else lambda each: consolidation_eligibility(each)[0]
    )
    names = {each.name for each in command.candidates}
    current = [each for each in candidates(snapshot)[0] if each.name in names and is_eligible(each)]
    within, limited = within_budget(current, allowed_disruptions(snapshot, command.reason))
    if command.reason == EMPTY:
        return (replace(command, candidates=tuple(within)), "") if within else (None, "budget" if limited else "churn")
    if len(current) < len(names):
        return None, "churn"
    if limited:
        return None, "budget"
    if command.method == "repack":
        repacking = repack_candidates(snapshot, current, settings)
        return (repacking, "") if repacking is not None else (None, "scheduling")
    simulation = simulate_scheduling(snapshot, current)
    if simulation.error or len(simulation.results.new_node_claims) != len(command.replacements):
        return None, "scheduling"
    index = list(zip(command.replacements, simulation.results.new_node_claims, strict=True))
    if any(planned.pool != claim.pool or not set(planned.types) <= set(claim.types) for planned, claim in index):
        return None, "scheduling"
    claims = tuple(replace(planned, pods=claim.pods, requests=claim.requests) for planned, claim in index)
    revised = Command(command.reason, command.method, tuple(current), claims, simulation.results)
    predicted = predict(revised, simulation.inputs, settings)
    return (predicted, "") if predicted is not None else (None, "scheduling")


def _merge_limited(one: DisruptionDecision, other: DisruptionDecision) -> DisruptionDecision:
    return replace(other, budget_limited=one.budget_limited or other.budget_limited)


def _has_drifted(claim: dict[str, object]) -> bool:
    return (get_condition(claim, DRIFTED) or {}).get("status") == "True"


def _drifted_since(candidate: Candidate) -> str:
    return str((get_condition(candidate.state_node.claim, DRIFTED) or {}).get("lastTransitionTime", ""))
