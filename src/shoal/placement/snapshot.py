"""A snapshot of all placement inputs, and the changes that manifests would cause: for plan and explain. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from shoal.fit.requirements import Requirements
from shoal.fit.room import ClusterRoom, PoolRoom
from shoal.kinds.workload.apiresource import GVR
from shoal.kinds.workload.leaf import is_root
from shoal.kinds.workload.placement import CLUSTER_KIND, KIND
from shoal.objects.ownership import controller_of
from shoal.placement.cluster_info import ClusterInfo, cluster_info_of
from shoal.placement.interpreter import ResourceInterpreter, shares_by_cluster
from shoal.placement.policy import DEFAULT_POLICY, PlacementPolicy, PlacementRule, matching_placements
from shoal.placement.resource_selector import group_of
from shoal.placement.splitter.decide import FilteredClustersCache, compute_changes_with
from shoal.placement.splitter.followers import Leader, LeaderKey, Leaders, leader_of
from shoal.placement.splitter.leaf_changes import LeafChanges

Object = dict[str, Any]
ObjectName = tuple[str, str, str]
"""Kind, namespace and name."""
ANY_ROOM = ClusterRoom(pools=(PoolRoom(Requirements(), (), None),))
"""Assumed of a cluster that does not exist yet."""


@dataclass(frozen=True)
class PlacementSnapshot:
    clusters: Mapping[str, ClusterInfo]
    placements: Sequence[Object]
    objects: Mapping[ObjectName, Object]
    """Roots and leaves, of the kinds in `interpreters`."""
    interpreters: Mapping[str, ResourceInterpreter]
    apis: Mapping[str, GVR] = field(default_factory=dict)
    """By kind, like `interpreters`; a kind without an entry is taken by every cluster."""
    cluster_scoped: frozenset[str] = frozenset()
    """Kinds without a namespace, of those in `interpreters`."""
    _leaves_by_uid: dict[str, list[Object]] = field(default_factory=dict)

    @cached_property
    def placement_rules(self) -> list[PlacementRule]:
        return [PlacementRule(one) for one in self.placements]

    @cached_property
    def _filtered_clusters(self) -> FilteredClustersCache:
        return FilteredClustersCache(self.clusters)

    def leaves_of(self, root: Object) -> list[Object]:
        if not self._leaves_by_uid:
            for obj in self.objects.values():
                owner = controller_of(obj)
                if owner is not None:
                    self._leaves_by_uid.setdefault(str(owner.get("uid")), []).append(obj)
        return self._leaves_by_uid.get(str(root["metadata"].get("uid")), [])

    def roots(self) -> Iterable[tuple[ObjectName, Object]]:
        return ((name, obj) for name, obj in self.objects.items() if is_root(obj))

    def with_manifests(self, manifests: Iterable[Object]) -> PlacementSnapshot:
        """Returns the snapshot with these manifests applied. Existing objects keep their uid."""
        clusters, placements, objects = dict(self.clusters), list(self.placements), dict(self.objects)
        for obj in manifests:
            metadata = {"namespace": "default", **obj["metadata"]}
            if obj["kind"] in {CLUSTER_KIND, *self.cluster_scoped}:
                metadata["namespace"] = ""
            if obj["kind"] == "Cluster":
                previous = self.clusters.get(metadata["name"])
                parsed = cluster_info_of(obj)
                # A manifest does not carry the observed state of the cluster.
                observed = previous or replace(parsed, ready=True, room=ANY_ROOM)
                clusters[metadata["name"]] = replace(
                    parsed,
                    ready=observed.ready,
                    since=observed.since,
                    free=observed.free,
                    apis=observed.apis,
                    room=observed.room,
                )
            elif obj["kind"] in (KIND, CLUSTER_KIND):
                existing = [
                    one for one in placements if _namespaced_name(one) == (metadata["namespace"], metadata["name"])
                ]
                creation_timestamp = existing[0]["metadata"].get("creationTimestamp") if existing else None
                placements = [one for one in placements if one not in existing]
                placements.append({**obj, "metadata": {**metadata, "creationTimestamp": creation_timestamp}})
            else:
                key = (obj["kind"], metadata["namespace"], metadata["name"])
                current = self.objects.get(key)
                uid = current["metadata"]["uid"] if current is not None else f"new {key}"
                objects[key] = {**obj, "metadata": {**metadata, "uid": uid}}
        return replace(self, clusters=clusters, placements=placements, objects=objects, _leaves_by_uid={})

    @cached_property
    def _leaders(self) -> Leaders:
        leaders = Leaders()
        for _, root in self.roots():
            leaders.update(_leader_key(root), _leader_of(root, self.shares_of(root)))
        return leaders

    def shares_of(self, root: Object) -> dict[str, int]:
        """Returns the current replicas by cluster."""
        return shares_by_cluster(self.leaves_of(root), self.interpreters[root["kind"]])

    def lead(self, root: Object, shares: Mapping[str, int]) -> None:
        """Others that have affinity to the root find it where these shares are."""
        self._leaders.update(_leader_key(root), _leader_of(root, shares))

    def has_terms(self, root: Object) -> bool:
        matching = matching_placements(self.placement_rules, root)
        return bool(matching and matching[0].workload_terms)

    def policy_of(self, root: Object) -> tuple[list[PlacementRule], PlacementPolicy] | None:
        """Returns the Placements that select the root, and the policy that applies; None if it is not placed."""
        matching = matching_placements(self.placement_rules, root)
        if not matching and root["kind"] != "Deployment":
            return None
        policy = matching[0].policy if matching else DEFAULT_POLICY
        return matching, self._leaders.locate(policy, _leader_key(root), root) if policy.workload_terms else policy

    def leaf_changes_of(self, root: Object, now: float) -> tuple[list[PlacementRule], LeafChanges] | None:
        """Returns the Placements that select the root, and its leaf changes; None if it is not placed."""
        matched = self.policy_of(root)
        if matched is None:
            return None
        matching, policy = matched
        interpreter = self.interpreters[root["kind"]]
        filtered = self._filtered_clusters.of(policy, root, interpreter, now, self.apis.get(root["kind"]))
        return matching, compute_changes_with(
            root, self.leaves_of(root), _SnapshotNameConflicts(self, root), filtered, now, interpreter
        )


def _leader_of(root: Object, shares: Mapping[str, int]) -> Leader:
    return leader_of(root, (), shares, "", is_followed=False)


def _leader_key(root: Object) -> LeaderKey:
    metadata = root["metadata"]
    title = f"{root['kind']}.{group_of(root.get('apiVersion', ''))}"
    return title, ("", metadata.get("namespace", ""), metadata["name"])


class _SnapshotNameConflicts:
    """Names that belong to other objects than the root's leaves."""

    def __init__(self, snapshot: PlacementSnapshot, root: Object) -> None:
        self._snapshot, self._root = snapshot, root

    def __contains__(self, name: object) -> bool:
        existing = self._snapshot.objects.get(
            (self._root["kind"], self._root["metadata"].get("namespace", ""), str(name))
        )
        return existing is not None and existing not in self._snapshot.leaves_of(self._root)


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """The change of one object: replicas or duplicates by cluster."""

    kind: str
    namespace: str
    name: str
    placement: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    unplaced: int

    @property
    def added_count(self) -> int:
        return max(sum(self.after.values()) - sum(self.before.values()), 0)

    @property
    def removed_count(self) -> int:
        return max(sum(self.before.values()) - sum(self.after.values()), 0)

    @property
    def moved_count(self) -> int:
        decreased = sum(max(count - self.after.get(name, 0), 0) for name, count in self.before.items())
        return decreased - self.removed_count


def plan_changes(before: PlacementSnapshot, manifests: Sequence[Object], now: float) -> list[PlacementChange]:
    """Returns the target of every object, only where it differs from the current state. Raises StatusError if a
    Placement is invalid.
    """
    after = before.with_manifests(manifests)
    decided = _decide_all(after, now)
    changes = []
    for (kind, namespace, name), root in after.roots():
        matched = decided[kind, namespace, name]
        current = after.shares_of(root)
        if matched is None:
            matching, target, unassigned = [], {}, 0
        else:
            matching, target, unassigned = matched[0], dict(matched[1].decision.target_shares), matched[1].unassigned
        change = PlacementChange(
            kind,
            namespace,
            name,
            matching[0].name if matching else "",
            {cluster: count for cluster, count in current.items() if count},
            {cluster: count for cluster, count in target.items() if count},
            unassigned,
        )
        if change.before != change.after or change.unplaced:
            changes.append(change)
    return sorted(changes, key=lambda one: (one.kind, one.namespace, one.name))


def _decide_all(
    snapshot: PlacementSnapshot, now: float
) -> dict[ObjectName, tuple[list[PlacementRule], LeafChanges] | None]:
    """What has affinity to others is decided after them, and again as long as more of it can be placed."""
    decided = {}
    has_terms = any(rule.workload_terms for rule in snapshot.placement_rules)
    pending = sorted(snapshot.roots(), key=lambda one: has_terms and snapshot.has_terms(one[1]))
    while True:
        waiting = []
        for name, root in pending:
            matched = decided[name] = snapshot.leaf_changes_of(root, now)
            if matched is None or not has_terms:
                continue
            snapshot.lead(root, matched[1].decision.target_shares)
            if matched[1].unassigned and snapshot.has_terms(root):
                waiting.append((name, root))
        if len(waiting) in (0, len(pending)):
            return decided
        pending = waiting


def _namespaced_name(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
