"""Explains why an object is in its clusters, and which single change would place it in another one. Pure.

Every suggested change was tried with the rules of placement itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from shoal.fit.room import NO_DEMAND, PodDemand
from shoal.fit.taints import HARD_EFFECTS, first_untolerated
from shoal.kinds.workload.apiresource import GVR
from shoal.kinds.workload.served_apis import INCOMPATIBLE, NEGOTIATING, NOT_PUBLISHED, NOT_SERVED, UNKNOWN_APIS
from shoal.kinds.workload.workloadcluster import assigned_cluster
from shoal.objects.errors import NotFound
from shoal.objects.selectors import SELECT_NOTHING
from shoal.placement.assignment import replica_capacity
from shoal.placement.capacity_backoff import unschedulable_count
from shoal.placement.cluster_info import ClusterInfo, CurrentShare
from shoal.placement.decide import decide_with_filtered
from shoal.placement.filter import FilteredClusters
from shoal.placement.interpreter import JobInterpreter
from shoal.placement.policy import EVERYTHING, NEVER, PlacementPolicy
from shoal.placement.rollout import RolloutStrategy, strategy_of
from shoal.placement.snapshot import PlacementSnapshot
from shoal.placement.splitter.decide import effective_policy
from shoal.placement.splitter.leaf_changes import LeafChanges

Object = dict[str, Any]

REFUSAL_REMEDIES = {
    NOT_SERVED: "install its CRD in the cluster, and name it in --resources-to-sync",
    INCOMPATIBLE: "make its schema in the cluster compatible with the hub's",
    NOT_PUBLISHED: "publish the NegotiatedAPIResource",
    NEGOTIATING: "wait for the negotiation of its schema",
}


@dataclass(frozen=True, slots=True)
class ClusterPlacement:
    cluster: str
    now: int
    """Current replicas; 1 for a duplicated kind."""
    then: int
    """Target replicas."""
    why: str
    change: str
    """The single change that would place replicas there; empty if there is none, or if it has some."""


@dataclass(frozen=True, slots=True)
class PlacementExplanation:
    kind: str
    namespace: str
    """Empty for a cluster-scoped object."""
    total: int
    placement: str
    """The Placement that applies; empty if none selects it."""
    superseded: list[str]
    unplaced: int
    verdicts: list[ClusterPlacement]


def explain(snapshot: PlacementSnapshot, kind: str, namespace: str, name: str, now: float) -> PlacementExplanation:
    """Raises NotFound if there is no such root, StatusError if its Placement is invalid."""
    namespace = "" if kind in snapshot.cluster_scoped else namespace
    root = snapshot.objects.get((kind, namespace, name))
    matched = snapshot.leaf_changes_of(root, now) if root is not None else None
    policy_match = snapshot.policy_of(root) if root is not None else None
    if root is None or matched is None or policy_match is None:
        raise NotFound(f"{kind} {f'{namespace}/' if namespace else ''}{name} not found or not placed")
    matching, leaf_changes = matched
    interpreter = snapshot.interpreters[kind]
    policy = effective_policy(policy_match[1], root, interpreter)
    leaves = {assigned_cluster(leaf): leaf for leaf in snapshot.leaves_of(root)}
    current_shares = {name: interpreter.current_share_of(leaf) for name, leaf in leaves.items()}
    clusters, first_ordinal = list(snapshot.clusters.values()), interpreter.first_ordinal_of(root)
    is_started_job = isinstance(interpreter, JobInterpreter) and bool(current_shares)
    placement_input = _PlacementInput(
        interpreter.replicas_of(root),
        clusters,
        policy,
        current_shares,
        interpreter.demand_of(root),
        now,
        first_ordinal,
        snapshot.apis.get(kind),
        strategy_of(root),
        is_started_job,
        {name: unschedulable_count(leaf) for name, leaf in leaves.items()},
    )
    cluster_placements = [
        _explain_cluster(placement_input, site, leaf_changes)
        for site in sorted(snapshot.clusters.values(), key=lambda site: site.name)
    ]
    names = [one.name for one in matching]
    return PlacementExplanation(
        kind,
        namespace,
        placement_input.total,
        names[0] if names else "",
        names[1:],
        leaf_changes.unassigned,
        cluster_placements,
    )


@dataclass(frozen=True, slots=True)
class _PlacementInput:
    total: int
    clusters: list[ClusterInfo]
    policy: PlacementPolicy
    current_shares: dict[str, CurrentShare]
    demand: PodDemand
    now: float
    first_ordinal: int | None
    api: GVR | None
    strategy: RolloutStrategy
    is_started_job: bool
    """A Job that was divided already, which is not done twice."""
    unschedulable: dict[str, int]
    """Replicas that found no node, by cluster."""

    def places_on(self, cluster: ClusterInfo, policy: PlacementPolicy) -> bool:
        """Returns whether the given state of the cluster would get replicas by that policy."""
        clusters = [cluster if one.name == cluster.name else one for one in self.clusters]
        decision = decide_with_filtered(
            self.total,
            FilteredClusters(clusters, policy, self.now, self.api),
            self.current_shares,
            self.demand,
            self.now,
            self.first_ordinal,
            self.strategy,
        )
        return decision.target_shares.get(cluster.name, 0) > 0 and cluster.name not in decision.filter_failures


def _explain_cluster(
    placement_input: _PlacementInput, cluster: ClusterInfo, leaf_changes: LeafChanges
) -> ClusterPlacement:
    now, target_replicas = (
        placement_input.current_shares.get(cluster.name, CurrentShare()).replicas,
        leaf_changes.decision.target_shares.get(cluster.name, 0),
    )
    failure = leaf_changes.decision.filter_failures.get(cluster.name)
    if failure is not None:
        reason = failure.message
    elif target_replicas:
        count = placement_input.unschedulable.get(cluster.name, 0)
        waiting = f"; {count} {'replica is' if count == 1 else 'replicas are'} unschedulable" if count else ""
        reason = f"is selected{waiting}"
    elif placement_input.is_started_job:
        reason = "had no share when the Job was divided"
    elif placement_input.policy.divide_by != "Weight" and not replica_capacity(
        cluster, placement_input.current_shares.get(cluster.name, CurrentShare()), placement_input.demand
    ):
        reason = "has no capacity"
    elif placement_input.policy.max_clusters is not None:
        reason = "fits, but other clusters rank higher"
    else:
        reason = "gets no replicas: there are fewer replicas than clusters"
    no_suggestion = placement_input.is_started_job or (target_replicas and failure is None)
    suggestion = (
        "" if no_suggestion else next((text for text, helps in _suggestions(placement_input, cluster) if helps), "")
    )
    return ClusterPlacement(cluster.name, now, target_replicas, reason, suggestion)


def _suggestions(placement_input: _PlacementInput, cluster: ClusterInfo) -> Iterator[tuple[str, bool]]:
    policy = placement_input.policy
    if policy.cluster_names and cluster.name not in policy.cluster_names:
        yield (
            f"add {cluster.name} to clusters.names",
            placement_input.places_on(cluster, replace(policy, cluster_names=policy.cluster_names | {cluster.name})),
        )
    if not policy.affinity.matches(cluster.labels):
        yield (
            f"label it so that it matches {policy.affinity}",
            placement_input.places_on(cluster, replace(policy, affinity=EVERYTHING)),
        )
    if policy.anti_affinity.matches(cluster.labels):
        text = f"label it so that it does not match {policy.anti_affinity}"
        yield text, placement_input.places_on(cluster, replace(policy, anti_affinity=SELECT_NOTHING))
    for index, term in enumerate(policy.workload_terms):
        if term.is_required and term.clusters is not None and not term.is_met_by(cluster.name):
            met = replace(term, clusters=term.clusters ^ {cluster.name})
            terms = (*policy.workload_terms[:index], met, *policy.workload_terms[index + 1 :])
            text = f"move {term} away from it" if term.is_anti else f"place {term} there"
            yield text, placement_input.places_on(cluster, replace(policy, workload_terms=terms))
    taint = first_untolerated(cluster.taints, policy.tolerations, HARD_EFFECTS)
    if taint is not None:
        tolerations = (*policy.tolerations, {"key": taint["key"], "operator": "Exists"})
        yield (
            f"tolerate its taint {taint['key']}",
            placement_input.places_on(cluster, replace(policy, tolerations=tolerations)),
        )
    if not cluster.ready:
        ready = replace(cluster, ready=True, since=-NEVER)
        yield "make it ready", placement_input.places_on(ready, policy)
    refusal = cluster.apis.refusal_of(placement_input.api) if placement_input.api is not None else None
    if refusal is not None:
        serving = replace(cluster, apis=UNKNOWN_APIS)
        yield REFUSAL_REMEDIES[refusal.reason], placement_input.places_on(serving, policy)
    if placement_input.demand.spec is not None and cluster.room is not None:
        anywhere = replace(placement_input, demand=NO_DEMAND)
        yield "add nodes, or a NodePool, that fit its pods", anywhere.places_on(cluster, policy)
    if not cluster.schedulable:
        yield (
            "make it schedulable (spec.unschedulable: false)",
            placement_input.places_on(replace(cluster, schedulable=True), policy),
        )
    if policy.max_clusters is not None:
        maximum = policy.max_clusters + 1
        yield (
            f"raise clusters.maxClusters to {maximum}",
            placement_input.places_on(cluster, replace(policy, max_clusters=maximum)),
        )
    if policy.weight_of(cluster.name, cluster.labels) == 0:
        yield "set its weight above 0", placement_input.places_on(cluster, replace(policy, weights=()))
    if cluster.free is not None and policy.divide_by != "Weight":
        free = {name: amount + placement_input.demand.requests.get(name, 0) for name, amount in cluster.free.items()}
        yield "free capacity for one replica on it", placement_input.places_on(replace(cluster, free=free), policy)
    if placement_input.total < len(placement_input.clusters):
        more_replicas = replace(placement_input, total=len(placement_input.clusters))
        yield f"request {len(placement_input.clusters)} replicas", more_replicas.places_on(cluster, policy)
