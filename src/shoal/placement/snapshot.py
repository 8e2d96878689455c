"""A snapshot of all placement inputs, and the changes that manifests would cause: for plan and explain. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from shoal.kinds.workload.leaf import is_root
from shoal.kinds.workload.workloadcluster import assigned_cluster
from shoal.objects.ownership import controller_of
from shoal.placement.cluster_info import ClusterInfo, cluster_info_of
from shoal.placement.interpreter import ResourceInterpreter
from shoal.placement.policy import DEFAULT_POLICY, PlacementRule, matching_placements
from shoal.placement.splitter.decide import FilteredClustersCache, compute_changes_with
from shoal.placement.splitter.leaf_changes import LeafChanges

Object = dict[str, Any]
ObjectName = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True)
class PlacementSnapshot:
    clusters: Mapping[str, ClusterInfo]
    placements: Sequence[Object]
    objects: Mapping[ObjectName, Object]
    """Roots and leaves, of the kinds in `interpreters`."""
    interpreters: Mapping[str, ResourceInterpreter]
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
            if obj["kind"] == "Cluster":
                previous = self.clusters.get(metadata["name"])
                parsed = cluster_info_of(obj)
                # A manifest does not carry the observed state of the cluster.
                observed = (
                    {"ready": previous.ready, "since": previous.since, "free": previous.free}
                    if previous
                    else {"ready": True}
                )
                clusters[metadata["name"]] = replace(parsed, **observed)
            elif obj["kind"] == "Placement":
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
        return PlacementSnapshot(clusters, placements, objects, self.interpreters)

    def leaf_changes_of(self, root: Object, now: float) -> tuple[list[PlacementRule], LeafChanges] | None:
        """Returns the Placements that select the root, and its leaf changes; None if it is not placed."""
        matching = matching_placements(self.placement_rules, root)
        if not matching and root["kind"] != "Deployment":
            return None
        policy = matching[0].policy if matching else DEFAULT_POLICY
        interpreter = self.interpreters[root["kind"]]
        filtered = self._filtered_clusters.of(policy, root, interpreter, now)
        return matching, compute_changes_with(
            root, self.leaves_of(root), _SnapshotNameConflicts(self, root), filtered, now, interpreter
        )


class _SnapshotNameConflicts:
    """Names that belong to other objects than the root's leaves."""

    def __init__(self, snapshot: PlacementSnapshot, root: Object) -> None:
        self._snapshot, self._root = snapshot, root

    def __contains__(self, name: object) -> bool:
        existing = self._snapshot.objects.get((self._root["kind"], self._root["metadata"]["namespace"], str(name)))
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
    changes = []
    for (kind, namespace, name), root in after.roots():
        matched = after.leaf_changes_of(root, now)
        interpreter = after.interpreters[kind]
        current: dict[str, int] = {}
        for leaf in after.leaves_of(root):
            current[assigned_cluster(leaf)] = (
                current.get(assigned_cluster(leaf), 0) + interpreter.current_share_of(leaf).replicas
            )
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


def _namespaced_name(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", "default"), metadata["name"]
