"""Dependency graph over all logical clusters, from the metadata stream. Pure.

Nodes are only objects that have owners or wait for their dependents. Other owners are known by the references to them.
Every key begins with the logical cluster, so two clusters are never joined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
CLUSTER, RESOURCE = "shoal.dev/cluster", "shoal.dev/resource"


class Place(NamedTuple):
    """Coordinates of an object; at most one object exists there at a time."""

    cluster: str
    group: str
    plural: str
    namespace: str
    name: str


class Owner(NamedTuple):
    """The target of an owner reference, seen from the namespace of the dependent."""

    cluster: str
    namespace: str
    api_version: str
    kind: str
    name: str
    uid: str


class Reference(NamedTuple):
    owner: Owner
    blocks: bool


@dataclass(frozen=True, slots=True)
class Node:
    place: Place
    version: str
    uid: str
    references: tuple[Reference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def deletes_dependents(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers

    @property
    def matters(self) -> bool:
        return bool(self.references) or self.deletes_dependents or self.orphans_dependents


def place_of(obj: Object) -> Place:
    metadata = obj["metadata"]
    group, _, plural = metadata["annotations"][RESOURCE].split("/")
    return Place(metadata["annotations"][CLUSTER], group, plural, metadata.get("namespace", ""), metadata["name"])


def node_of(obj: Object) -> Node:
    """Builds a node from an event of the metadata stream."""
    place, metadata = place_of(obj), obj["metadata"]
    return Node(
        place=place,
        version=metadata["annotations"][RESOURCE].split("/")[1],
        uid=metadata["uid"],
        references=tuple(reference_of(place, ref) for ref in metadata.get("ownerReferences") or ()),
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting="deletionTimestamp" in metadata,
    )


def reference_of(place: Place, ref: Object) -> Reference:
    owner = Owner(place.cluster, place.namespace, ref["apiVersion"], ref["kind"], ref["name"], ref["uid"])
    return Reference(owner, bool(ref.get("blockOwnerDeletion")))


class Graph:
    def __init__(self) -> None:
        self.nodes: dict[Place, Node] = {}
        self._dependents: dict[Owner, dict[Place, None]] = {}
        self._named: dict[tuple[str, str], dict[Owner, None]] = {}
        self._uids: dict[tuple[str, str], Place] = {}

    def put(self, node: Node) -> Node | None:
        """Returns the previous node."""
        old = self.remove(node.place)
        if not node.matters:
            return old
        self.nodes[node.place] = node
        self._uids[node.place.cluster, node.uid] = node.place
        for owner, _ in node.references:
            self._dependents.setdefault(owner, {})[node.place] = None
            self._named.setdefault((owner.cluster, owner.name), {})[owner] = None
        return old

    def remove(self, place: Place) -> Node | None:
        old = self.nodes.pop(place, None)
        if old is None:
            return None
        self._uids.pop((place.cluster, old.uid), None)
        for owner, _ in old.references:
            held = self._dependents.get(owner, {})
            held.pop(place, None)
            if not held:
                self._dependents.pop(owner, None)
                named = self._named.get((owner.cluster, owner.name), {})
                named.pop(owner, None)
                if not named:
                    self._named.pop((owner.cluster, owner.name), None)
        return old

    def has(self, owner: Owner) -> bool:
        return owner in self._dependents

    def named(self, cluster: str, name: str) -> list[Owner]:
        """Returns the owners that are referenced by that name, of any kind."""
        return list(self._named.get((cluster, name), ()))

    def held_by(self, owner: Owner) -> list[Node]:
        return [self.nodes[place] for place in self._dependents.get(owner, ())]

    def dependents(self, node: Node) -> list[Node]:
        """Returns the objects that reference the uid of an existing object from a namespace where they may."""
        place = node.place
        found: dict[Place, Node] = {}
        for owner in self.named(place.cluster, place.name):
            if owner.uid == node.uid and (not place.namespace or owner.namespace == place.namespace):
                found.update((held.place, held) for held in self.held_by(owner))
        return list(found.values())

    def node(self, owner: Owner) -> Node | None:
        place = self._uids.get((owner.cluster, owner.uid))
        return self.nodes[place] if place is not None else None
