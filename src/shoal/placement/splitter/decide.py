"""Computes the changes to the leaves of a root. Pure.

The policy decides where replicas go (placement/decide.py); this finds name conflicts and creates, updates and deletes
leaves. A cluster that is not ready keeps its replicas for the policy's grace period, and its leaf for longer: when it
comes back it has to see that it has none any more.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.fit.room import PodDemand
from shoal.kinds.workload.apiresource import GVR
from shoal.kinds.workload.leaf import CAPACITY_BACKOFF_ANNOTATION, desired_leaf, leaf_name, new_leaf
from shoal.kinds.workload.workloadcluster import assigned_cluster
from shoal.placement.assignment import free_capacity
from shoal.placement.capacity_backoff import (
    NO_BACKOFF,
    CapacityBackoff,
    backoff_of,
    observe,
    seconds_until_change,
    unschedulable_count,
)
from shoal.placement.cluster_info import ClusterInfo, CurrentShare
from shoal.placement.decide import PlacementDecision, decide_with_filtered
from shoal.placement.filter import FilteredClusters
from shoal.placement.interpreter import DIVIDED, JobInterpreter, ResourceInterpreter
from shoal.placement.overrides import apply_overrides, has_overrides
from shoal.placement.policy import DEFAULT_POLICY, NEVER, PlacementPolicy
from shoal.placement.rollout import strategy_of
from shoal.placement.splitter.jobs import compute_job_changes
from shoal.placement.splitter.leaf_changes import LeafChanges

Object = dict[str, Any]


@dataclass(slots=True)
class _ExistingLeaves:
    """Existing leaves, by cluster."""

    by_cluster: dict[str, Object] = field(default_factory=dict)
    orphans: list[Object] = field(default_factory=list)


def compute_changes(
    root: Object,
    existing: Iterable[Object],
    foreign_names: Iterable[str],
    clusters: Iterable[ClusterInfo],
    now: float,
    policy: PlacementPolicy = DEFAULT_POLICY,
    interpreter: ResourceInterpreter = DIVIDED,
) -> LeafChanges:
    """`existing` are the objects that the root controls, `foreign_names` the names of all that it does not."""
    filtered = FilteredClusters(clusters, effective_policy(policy, root, interpreter), now)
    return compute_changes_with(root, existing, frozenset(foreign_names), filtered, now, interpreter)


def compute_changes_with(
    root: Object,
    existing: Iterable[Object],
    foreign_names: Container[str],
    filtered: FilteredClusters,
    now: float,
    interpreter: ResourceInterpreter,
) -> LeafChanges:
    """Like `compute_changes`, with clusters that were filtered for `effective_policy` before."""
    if isinstance(interpreter, JobInterpreter):
        return compute_job_changes(root, existing, foreign_names, filtered, now, interpreter)
    policy, clusters = filtered.policy, filtered.clusters
    survey = _existing_leaves(root, existing, clusters)
    demand, first_ordinal = interpreter.demand_of(root), interpreter.first_ordinal_of(root)
    current_shares = {name: _current_share(leaf, interpreter) for name, leaf in survey.by_cluster.items()}
    backoffs: dict[str, CapacityBackoff] = {}
    if first_ordinal is None and not policy.is_duplicate:
        backoffs = _backoffs(survey.by_cluster, current_shares, clusters, demand, now, policy.unschedulable_seconds)
        current_shares |= {
            name: replace(current_shares[name], capacity_limit=backoff.max_replicas, has_backoff=backoff != NO_BACKOFF)
            for name, backoff in backoffs.items()
        }
    conflicting: set[str] = set()
    while True:
        decision = decide_with_filtered(
            interpreter.replicas_of(root), filtered, current_shares, demand, now, first_ordinal, strategy_of(root)
        )
        new_names = {
            name for name in decision.target_shares.keys() | decision.shares.keys() if name not in current_shares
        }
        blocked_names = {name for name in new_names if leaf_name(root["metadata"]["name"], name) in foreign_names}
        if not blocked_names:
            break
        conflicting |= blocked_names
        filtered = FilteredClusters(
            (cluster for name, cluster in clusters.items() if name not in conflicting), policy, now, filtered.api
        )
    backoff_annotations = {name: backoff.to_annotation() for name, backoff in backoffs.items()}
    desired = {
        name: _leaf(root, name, decision, policy, clusters[name].labels, interpreter, backoff_annotations.get(name, ""))
        for name in decision.shares
    }
    delays = [seconds_until_change(backoff, now, policy.unschedulable_seconds) for backoff in backoffs.values()]
    return LeafChanges(
        decision,
        create=tuple(leaf for name, leaf in desired.items() if name not in survey.by_cluster),
        update=tuple(_updates(survey.by_cluster, desired, policy, clusters)),
        delete=tuple(leaf for name, leaf in survey.by_cluster.items() if name not in desired and not _is_deleting(leaf))
        + tuple(leaf for leaf in survey.orphans if assigned_cluster(leaf) in clusters),
        orphaned=tuple(leaf for leaf in survey.orphans if assigned_cluster(leaf) not in clusters),
        existing=tuple(leaf for name, leaf in survey.by_cluster.items() if name in desired),
        conflicting_names=tuple(leaf_name(root["metadata"]["name"], name) for name in sorted(conflicting)),
        requeue_after=min((delay for delay in (decision.requeue_after, *delays) if delay is not None), default=None),
    )


class FilteredClustersCache:
    """Caches one FilteredClusters per policy, API and way to divide, until the clusters change."""

    def __init__(self, clusters: Mapping[str, ClusterInfo]) -> None:
        self._clusters = clusters
        self._cached: dict[tuple[int, GVR | None, bool, bool], tuple[PlacementPolicy, FilteredClusters]] = {}
        """The policy is kept, so that its id is not reused."""

    def clear(self) -> None:
        self._cached.clear()

    def of(
        self,
        policy: PlacementPolicy,
        root: Object,
        interpreter: ResourceInterpreter,
        now: float,
        api: GVR | None = None,
    ) -> FilteredClusters:
        if policy.workload_terms:  # The clusters of the terms are those of one object at one time.
            return FilteredClusters(self._clusters.values(), effective_policy(policy, root, interpreter), now, api)
        key = id(policy), api, interpreter.is_divided, interpreter.first_ordinal_of(root) is None
        _, cached = self._cached.get(key, (policy, None))
        if cached is None or now >= cached.valid_until:
            cached = FilteredClusters(self._clusters.values(), effective_policy(policy, root, interpreter), now, api)
            self._cached[key] = policy, cached
        return cached


def depends_on_capacity(leaf_changes: LeafChanges, policy: PlacementPolicy) -> bool:
    """Returns whether added capacity in some cluster may change something: for unassigned or unschedulable replicas,
    and where the cheapest clusters, or the first overflow groups, are to be filled.
    """
    has_backoff = any(
        CAPACITY_BACKOFF_ANNOTATION in (leaf["metadata"].get("annotations") or {}) for leaf in leaf_changes.existing
    )
    limited = leaf_changes.unassigned or leaf_changes.decision.is_limited_by_room or has_backoff
    return bool(limited or policy.divide_by == "Price" or policy.overflow)


def effective_policy(policy: PlacementPolicy, root: Object, interpreter: ResourceInterpreter) -> PlacementPolicy:
    """Duplicated kinds are in every cluster. Kinds with ordinals do not leave a silent cluster: the same pod would run
    twice.
    """
    if not interpreter.is_divided:
        return replace(policy, is_duplicate=True)
    return policy if interpreter.first_ordinal_of(root) is None else replace(policy, grace_seconds=NEVER)


def _existing_leaves(root: Object, existing: Iterable[Object], clusters: Mapping[str, ClusterInfo]) -> _ExistingLeaves:
    survey = _ExistingLeaves()
    for leaf in sorted(existing, key=lambda one: str(one["metadata"]["name"])):
        cluster = assigned_cluster(leaf)
        if leaf["metadata"]["name"] != leaf_name(root["metadata"]["name"], cluster):
            cluster = _cluster_of(leaf, root, clusters)
        if cluster in clusters:
            survey.by_cluster[cluster] = leaf
        elif not _is_deleting(leaf):
            survey.orphans.append(leaf)
    return survey


def _cluster_of(leaf: Object, root: Object, clusters: Iterable[str]) -> str:
    """Returns its cluster by its name, where somebody changed its label."""
    name = leaf["metadata"]["name"]
    return next((cluster for cluster in clusters if leaf_name(root["metadata"]["name"], cluster) == name), "")


def _current_share(leaf: Object, interpreter: ResourceInterpreter) -> CurrentShare:
    """A leaf that is being deleted soon runs nothing; it is created again when it is gone."""
    share = interpreter.current_share_of(leaf)
    return replace(share, available=0) if _is_deleting(leaf) else share


def _backoffs(
    leaves: Mapping[str, Object],
    current_shares: Mapping[str, CurrentShare],
    clusters: Mapping[str, ClusterInfo],
    demand: PodDemand,
    now: float,
    timeout: float,
) -> dict[str, CapacityBackoff]:
    """Returns the backoff of clusters with unschedulable replicas, now or recently."""
    backoffs = {}
    for name, leaf in leaves.items():
        previous, unschedulable = backoff_of(leaf), unschedulable_count(leaf)
        if unschedulable or previous != NO_BACKOFF:
            replicas = current_shares[name].replicas
            backoffs[name] = observe(
                previous, replicas, min(unschedulable, replicas), free_capacity(clusters[name], demand), now, timeout
            )
    return backoffs


def _leaf(
    root: Object,
    name: str,
    decision: PlacementDecision,
    policy: PlacementPolicy,
    labels: Mapping[str, str],
    interpreter: ResourceInterpreter,
    backoff_annotation: str,
) -> Object:
    share = decision.shares[name]
    content = interpreter.leaf_content(root, share, decision.first_ordinals.get(name, 0))
    leaf_share = share if interpreter.is_divided else None
    leaf = new_leaf(
        root,
        name,
        content,
        replicas=leaf_share,
        evacuated=name in decision.evicted,
        capacity_backoff=backoff_annotation,
    )
    return apply_overrides(leaf, policy, name, labels)


def _updates(
    leaves: Mapping[str, Object],
    desired: Mapping[str, Object],
    policy: PlacementPolicy,
    clusters: Mapping[str, ClusterInfo],
) -> Iterable[Object]:
    for name, leaf in leaves.items():
        if name in desired and not _is_deleting(leaf):
            updated = desired_leaf(
                leaf, desired[name], defaulted=not has_overrides(policy, name, clusters[name].labels)
            )
            if updated is not None:
                yield updated


def _is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]
