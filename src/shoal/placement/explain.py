"""Explains why an object is in its clusters, and which single change would place it in another one. Pure.

Every suggested change was tried with the rules of placement itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from shoal.fit.taints import HARD_EFFECTS, first_untolerated
from shoal.kinds.workload.workloadcluster import assigned_cluster
from shoal.objects.errors import NotFound
from shoal.objects.selectors import SELECT_NOTHING
from shoal.placement.assignment import replica_capacity
from shoal.placement.cluster_info import ClusterInfo, CurrentShare
from shoal.placement.decide import decide_placement
from shoal.placement.interpreter import JobInterpreter
from shoal.placement.policy import DEFAULT_POLICY, EVERYTHING, NEVER, PlacementPolicy
from shoal.placement.snapshot import PlacementSnapshot
from shoal.placement.splitter.decide import effective_policy
from shoal.placement.splitter.leaf_changes import LeafChanges

Object = dict[str, Any]


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
    total: int
    placement: str
    """The Placement that applies; empty if none selects it."""
    superseded: list[str]
    unplaced: int
    verdicts: list[ClusterPlacement]


def explain(snapshot: PlacementSnapshot, kind: str, namespace: str, name: str, now: float) -> PlacementExplanation:
    """Raises NotFound if there is no such root, StatusError if its Placement is invalid."""
    root = snapshot.objects.get((kind, namespace, name))
    matched = snapshot.leaf_changes_of(root, now) if root is not None else None
    if root is None or matched is None:
        raise NotFound(f"{kind} {namespace}/{name} not found or not placed")
    matching, leaf_changes = matched
    interpreter = snapshot.interpreters[kind]
    policy = matching[0].policy if matching else DEFAULT_POLICY
    policy = effective_policy(policy, root, interpreter)
    current_shares = {assigned_cluster(leaf): interpreter.current_share_of(leaf) for leaf in snapshot.leaves_of(root)}
    clusters, first_ordinal = list(snapshot.clusters.values()), interpreter.first_ordinal_of(root)
    is_started_job = isinstance(interpreter, JobInterpreter) and bool(current_shares)
    placement_input = _PlacementInput(
        interpreter.replicas_of(root),
        clusters,
        policy,
        current_shares,
        interpreter.requests_of(root),
        now,
        first_ordinal,
        is_started_job,
    )
    cluster_placements = [
        _explain_cluster(placement_input, site, leaf_changes)
        for site in sorted(snapshot.clusters.values(), key=lambda site: site.name)
    ]
    names = [one.name for one in matching]
    return PlacementExplanation(
        placement_input.total, names[0] if names else "", names[1:], leaf_changes.unassigned, cluster_placements
    )


@dataclass(frozen=True, slots=True)
class _PlacementInput:
    total: int
    clusters: list[ClusterInfo]
    policy: PlacementPolicy
    current_shares: dict[str, CurrentShare]
    requests: dict[str, int]
    now: float
    first_ordinal: int | None
    is_started_job: bool
    """A Job that was divided already, which is not done twice."""

    def places_on(self, cluster: ClusterInfo, policy: PlacementPolicy) -> bool:
        """Returns whether the given state of the cluster would get replicas by that policy."""
        clusters = [cluster if one.name == cluster.name else one for one in self.clusters]
        decision = decide_placement(
            self.total, clusters, policy, self.current_shares, self.requests, self.now, self.first_ordinal
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
        reason = "is selected"
    elif placement_input.is_started_job:
        reason = "had no share when the Job was divided"
    elif placement_input.policy.divide_by != "Weight" and not replica_capacity(
        cluster, placement_input.current_shares.get(cluster.name, CurrentShare()), placement_input.requests
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
        free = {name: amount + placement_input.requests.get(name, 0) for name, amount in cluster.free.items()}
        yield "free capacity for one replica on it", placement_input.places_on(replace(cluster, free=free), policy)
    if placement_input.total < len(placement_input.clusters):
        more_replicas = replace(placement_input, total=len(placement_input.clusters))
        yield f"request {len(placement_input.clusters)} replicas", more_replicas.places_on(cluster, policy)
