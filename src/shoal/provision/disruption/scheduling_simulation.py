"""Simulates scheduling with the candidates removed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoal.kinds.karpenter.karpenter import INITIALIZED, NODE_POOL_LABEL, parse_duration
from shoal.objects.conditions import condition_is
from shoal.provision.disruption.budgets import disruption_spec
from shoal.provision.disruption.candidates import pod_event_time
from shoal.provision.disruption.model import Candidate, DisruptionSnapshot
from shoal.provision.evictability import PDBLimits, is_currently_reschedulable
from shoal.provision.simulation.model import FALLBACK, Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate

Object = dict[str, Any]
MAX_PODS_IN_MESSAGE = 5
"""Maximum pods named in an Event."""


@dataclass(frozen=True, slots=True)
class SchedulingSimulation:
    inputs: SchedulingInput
    results: Results
    error: str = ""
    """Why the pods cannot be rescheduled; empty if all of them can."""


def input_without(
    snapshot: DisruptionSnapshot, candidates: Sequence[Candidate], *, skip_recent_nodes: bool = True
) -> SchedulingInput:
    """`skip_recent_nodes`: nodes with a recent pod event are not filled by moving pods there."""
    names, limits = {each.name for each in candidates}, PDBLimits(snapshot.pdbs)
    displaced = [
        pod for each in candidates for pod in each.pods if is_currently_reschedulable(pod, limits, snapshot.now)
    ]
    recent = _recently_changed_nodes(snapshot) if skip_recent_nodes else frozenset()
    inputs = snapshot.inputs
    remaining = [
        replace(node, pending_pods_only=True) if node.name in recent else node
        for node in inputs.existing_nodes
        if node.name not in names
    ]
    removed = [node for node in inputs.existing_nodes if node.name in names]
    return replace(
        inputs,
        pods=[*inputs.pods, *displaced],
        existing_nodes=remaining,
        draining_nodes=[*inputs.draining_nodes, *removed],
        reserved_offering_mode=FALLBACK,
    )


def simulate_scheduling(
    snapshot: DisruptionSnapshot, candidates: Sequence[Candidate], *, skip_recent_nodes: bool = True
) -> SchedulingSimulation:
    inputs = input_without(snapshot, candidates, skip_recent_nodes=skip_recent_nodes)
    plan = simulate(inputs)
    return SchedulingSimulation(inputs, plan, simulation_error(inputs, plan, candidates))


def simulation_error(inputs: SchedulingInput, plan: Results, candidates: Iterable[Candidate]) -> str:
    """Pods that were pending before may stay pending. Pods of the candidates and of nodes being deleted must be
    placed.
    """
    displaced = {pod["metadata"]["uid"] for each in candidates for pod in each.pods}
    pending = {pod["metadata"]["uid"] for pod in inputs.pods if not (pod.get("spec") or {}).get("nodeName")}
    uninitialized = {node.name for node in inputs.existing_nodes if node.kind != "Node" or not node.initialized}
    failures = [
        (pod, reason)
        for pod, reason in (*plan.failures, *plan.awaiting_reservation)
        if pod["metadata"]["uid"] not in pending
    ]
    failures += [
        (pod, f"would schedule against uninitialized {kind.lower()}/{name}")
        for pod, kind, name in plan.nominations
        if name in uninitialized and pod["metadata"]["uid"] in displaced
    ]
    if not failures:
        return ""
    descriptions = [
        f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']} => {reason}"
        for pod, reason in failures[:MAX_PODS_IN_MESSAGE]
    ]
    more = f" and {len(failures) - MAX_PODS_IN_MESSAGE} other(s)" if len(failures) > MAX_PODS_IN_MESSAGE else ""
    return f"Not all pods would schedule, {'; '.join(descriptions)}{more}"


def _recently_changed_nodes(snapshot: DisruptionSnapshot) -> frozenset[str]:
    pools = snapshot.pools()
    names = set()
    for each in snapshot.nodes:
        pool = pools.get(each.labels.get(NODE_POOL_LABEL, ""))
        after = (
            parse_duration(disruption_spec(pool.node_pool).get("consolidateAfter", "0s")) if pool is not None else None
        )
        if after and condition_is(each.claim, INITIALIZED) and snapshot.now < pod_event_time(each.claim) + after:
            names.add(each.name)
    return frozenset(names)
