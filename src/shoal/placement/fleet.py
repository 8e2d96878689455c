"""A snapshot of all placement inputs, and the changes that manifests would cause: for plan and explain. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from shoal.kinds.leaves import is_root
from shoal.kinds.workload import assigned_to
from shoal.objects.ownership import controller_of
from shoal.placement.policy import DEFAULT, Rule, rivals
from shoal.placement.shapes import Shape
from shoal.placement.sites import Site, site_of
from shoal.placement.splitter.decide import Outlooks, split_in
from shoal.placement.splitter.outcome import Split

Object = dict[str, Any]
Name = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True)
class Fleet:
    sites: Mapping[str, Site]
    placements: Sequence[Object]
    objects: Mapping[Name, Object]
    """Roots and leaves, of the kinds in `interpreters`."""
    shapes: Mapping[str, Shape]
    _leaves: dict[str, list[Object]] = field(default_factory=dict)

    @cached_property
    def rules(self) -> list[Rule]:
        return [Rule(one) for one in self.placements]

    @cached_property
    def _outlooks(self) -> Outlooks:
        return Outlooks(self.sites)

    def leaves_of(self, root: Object) -> list[Object]:
        if not self._leaves:
            for obj in self.objects.values():
                owner = controller_of(obj)
                if owner is not None:
                    self._leaves.setdefault(str(owner.get("uid")), []).append(obj)
        return self._leaves.get(str(root["metadata"].get("uid")), [])

    def roots(self) -> Iterable[tuple[Name, Object]]:
        return ((name, obj) for name, obj in self.objects.items() if is_root(obj))

    def with_given(self, given: Iterable[Object]) -> Fleet:
        """Returns the snapshot with these manifests applied. Existing objects keep their uid."""
        sites, placements, objects = dict(self.sites), list(self.placements), dict(self.objects)
        for obj in given:
            metadata = {"namespace": "default", **obj["metadata"]}
            if obj["kind"] == "Cluster":
                before = self.sites.get(metadata["name"])
                now = site_of(obj)
                # A manifest does not carry the observed state of the cluster.
                found = (
                    {"ready": before.ready, "since": before.since, "free": before.free} if before else {"ready": True}
                )
                sites[metadata["name"]] = replace(now, **found)
            elif obj["kind"] == "Placement":
                same = [one for one in placements if _named(one) == (metadata["namespace"], metadata["name"])]
                created = same[0]["metadata"].get("creationTimestamp") if same else None
                placements = [one for one in placements if one not in same]
                placements.append({**obj, "metadata": {**metadata, "creationTimestamp": created}})
            else:
                key = (obj["kind"], metadata["namespace"], metadata["name"])
                there = self.objects.get(key)
                uid = there["metadata"]["uid"] if there is not None else f"new {key}"
                objects[key] = {**obj, "metadata": {**metadata, "uid": uid}}
        return Fleet(sites, placements, objects, self.shapes)

    def split(self, root: Object, now: float) -> tuple[list[Rule], Split] | None:
        """Returns the Placements that select the root, and its leaf changes; None if it is not placed."""
        candidates = rivals(self.rules, root)
        if not candidates and root["kind"] != "Deployment":
            return None
        policy = candidates[0].policy if candidates else DEFAULT
        shape = self.shapes[root["kind"]]
        outlook = self._outlooks.of(policy, root, shape, now)
        return candidates, split_in(root, self.leaves_of(root), _Others(self, root), outlook, now, shape)


class _Others:
    """Names that belong to other objects than the root's leaves."""

    def __init__(self, fleet: Fleet, root: Object) -> None:
        self._fleet, self._root = fleet, root

    def __contains__(self, name: object) -> bool:
        there = self._fleet.objects.get((self._root["kind"], self._root["metadata"]["namespace"], str(name)))
        return there is not None and there not in self._fleet.leaves_of(self._root)


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one object: replicas or duplicates by cluster."""

    kind: str
    namespace: str
    name: str
    placement: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    unplaced: int

    @property
    def added(self) -> int:
        return max(sum(self.after.values()) - sum(self.before.values()), 0)

    @property
    def removed(self) -> int:
        return max(sum(self.before.values()) - sum(self.after.values()), 0)

    @property
    def moved(self) -> int:
        gone = sum(max(count - self.after.get(name, 0), 0) for name, count in self.before.items())
        return gone - self.removed


def plan(before: Fleet, given: Sequence[Object], now: float) -> list[Change]:
    """Returns the target of every object, only where it differs from the current state. Raises StatusError if a
    Placement is invalid.
    """
    after = before.with_given(given)
    changes = []
    for (kind, namespace, name), root in after.roots():
        found = after.split(root, now)
        shape = after.shapes[kind]
        there: dict[str, int] = {}
        for leaf in after.leaves_of(root):
            there[assigned_to(leaf)] = there.get(assigned_to(leaf), 0) + shape.part(leaf).replicas
        if found is None:
            candidates, wanted, unplaced = [], {}, 0
        else:
            candidates, wanted, unplaced = found[0], dict(found[1].placed.target), found[1].unplaced
        change = Change(
            kind,
            namespace,
            name,
            candidates[0].name if candidates else "",
            {cluster: count for cluster, count in there.items() if count},
            {cluster: count for cluster, count in wanted.items() if count},
            unplaced,
        )
        if change.before != change.after or change.unplaced:
            changes.append(change)
    return sorted(changes, key=lambda one: (one.kind, one.namespace, one.name))


def _named(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", "default"), metadata["name"]
