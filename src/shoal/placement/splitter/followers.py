"""Which objects follow placed ones: Services, budgets, network policies and autoscalers go where the workload is that
they select, if its Placement or its namespace asks for it; others have affinity to what is placed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.workload.followers import (
    DEFAULT_RELATION,
    FOLLOW_LABEL,
    RELATIONS,
    SelectionKey,
    is_follower_kind,
    is_selected,
    leader_keys,
    object_key,
    pod_labels_of,
    selection_keys,
)
from shoal.kinds.workload.workloadcluster import assigned_cluster
from shoal.placement.policy import PlacementPolicy
from shoal.placement.resource_selector import ResourceSelector
from shoal.placement.workload_affinity import WorkloadTerm

Object = dict[str, Any]
LeaderKey = tuple[str, Key]
"""A kind such as `Deployment.apps` and an object of it."""
MAX_NAMED = 5
"""The most leaders and clusters that a message names."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A placed object that others may select."""

    kind: str
    name: str
    pod_labels: Mapping[str, str] | None
    clusters: frozenset[str]
    """Clusters that have a leaf, or get one now."""
    placement: str
    """The Placement that applies; empty if none does."""
    is_followed: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    occupied_clusters: frozenset[str] = frozenset()
    """Clusters in which it has a share that is not 0."""


def leader_of(
    root: Object, leaves: Iterable[Object], shares: Mapping[str, int], placement: str, *, is_followed: bool
) -> Leader:
    """`leaves` are the existing ones, `shares` those of the placement decision."""
    return Leader(
        root["kind"],
        root["metadata"]["name"],
        pod_labels_of(root),
        frozenset((*map(assigned_cluster, leaves), *shares)),
        placement,
        is_followed,
        root["metadata"].get("labels") or {},
        frozenset(name for name, share in shares.items() if share),
    )


class Leaders:
    """All leaders, found by what may select them."""

    def __init__(self) -> None:
        self._leaders: dict[LeaderKey, Leader] = {}
        self._by_selection: dict[tuple[str, str, SelectionKey], dict[LeaderKey, Leader]] = {}

    def update(self, leader_key: LeaderKey, leader: Leader | None) -> set[SelectionKey]:
        """Returns the keys of the followers that the change may concern."""
        previous = self._leaders.pop(leader_key, None)
        if leader is not None:
            self._leaders[leader_key] = leader
        if leader == previous:
            return set()
        cluster, namespace, _ = leader_key[1]
        changed: set[SelectionKey] = set()
        for one in (previous, leader):
            for key in leader_keys(one.kind, one.name, one.pod_labels, one.labels) if one is not None else ():
                changed.add(key)
                entry = self._by_selection.setdefault((cluster, namespace, key), {})
                entry.pop(leader_key, None)
                if one is leader and leader is not None:
                    entry[leader_key] = leader
                if not entry:
                    del self._by_selection[cluster, namespace, key]
        return changed

    def of(self, key: Key, obj: Object) -> list[Leader]:
        """Returns the leaders of an object, by kind and name."""
        kind = obj["kind"]
        if not is_follower_kind(kind, obj["apiVersion"].rpartition("/")[0]):
            return []
        if (obj["metadata"].get("labels") or {}).get(FOLLOW_LABEL) == "false":
            return []
        found = {
            leader_key: leader
            for selection in selection_keys(kind, obj)
            for leader_key, leader in self._by_selection.get((key[0], key[1], selection), {}).items()
            if is_selected(kind, obj, (leader.kind, leader.name), leader.pod_labels)
        }
        return sorted(found.values(), key=lambda one: (one.kind, one.name))

    def locate(self, policy: PlacementPolicy, own: LeaderKey, root: Object) -> PlacementPolicy:
        """Returns the policy of the root with the clusters of its workload terms. It is not its own companion; if it
        matches an affinity and no other object does that is placed, it may go anywhere.
        """
        if not policy.workload_terms:
            return policy
        terms = []
        for term in policy.workload_terms:
            clusters = self._occupied_clusters(term, own)
            is_first = not clusters and not term.is_anti and term.matches(root)
            terms.append(replace(term, clusters=None if is_first else clusters))
        return replace(policy, workload_terms=tuple(terms))

    def _occupied_clusters(self, term: WorkloadTerm, own: LeaderKey) -> frozenset[str]:
        cluster, namespace, _ = own[1]
        occupied = (
            leader.occupied_clusters
            for selector in term.selectors
            for leader_key, leader in self._by_selection.get((cluster, namespace, term_key(selector)), {}).items()
            if leader_key != own
            and selector.matches(leader.kind, leader_key[0].partition(".")[2], leader.name, leader.labels)
        )
        return frozenset[str]().union(*occupied)


def term_keys(terms: Iterable[WorkloadTerm]) -> frozenset[SelectionKey]:
    """Returns the keys of all that the terms select."""
    return frozenset(term_key(selector) for term in terms for selector in term.selectors)


def term_key(selector: ResourceSelector) -> SelectionKey:
    pairs = selector.selector.equality_pairs()
    return object_key(selector.kind, name=selector.name, label=pairs[0] if pairs else None)


def following_policy(leaders: Iterable[Leader]) -> PlacementPolicy | None:
    """Returns the policy of an object with these leaders; None: it does not follow any, or they are nowhere."""
    clusters = [one.clusters for one in leaders if one.is_followed]
    names = frozenset[str]().union(*clusters)
    return _policy_for(names) if names else None


@lru_cache(maxsize=1024)
def _policy_for(clusters: frozenset[str]) -> PlacementPolicy:
    """One object for equal sets, by which the results of filters are cached."""
    return PlacementPolicy(cluster_names=clusters, is_duplicate=True, is_following=True)


def left_behind_reason(kind: str, leaders: Sequence[Leader]) -> str:
    """Returns what an object of that kind has to do with placed ones that it does not follow; empty: nothing."""
    if any(one.is_followed for one in leaders):
        return ""
    placed = [f"{one.kind} {one.name}" for one in leaders if one.clusters]
    if not placed:
        return ""
    more = f" and {len(placed) - MAX_NAMED} more" if len(placed) > MAX_NAMED else ""
    return f"{RELATIONS.get(kind, DEFAULT_RELATION)} {', '.join(placed[:MAX_NAMED])}{more}"


def left_behind_message(reason: str, leaders: Sequence[Leader]) -> str:
    """Returns the message of an Event about an object that is left behind for that reason."""
    names = sorted(frozenset[str]().union(*(one.clusters for one in leaders)))
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    placements = sorted({one.placement for one in leaders if one.placement})
    switch = f"set spec.follow of Placement {placements[0]}, or " if placements else ""
    return (
        f"It {reason}, placed in {', '.join(names[:MAX_NAMED])}{more}, but stays on the hub. "
        f"To place it there too, {switch}label the namespace {FOLLOW_LABEL}=true"
    )
