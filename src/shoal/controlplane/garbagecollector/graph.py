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


class ObjectRef(NamedTuple):
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


class OwnerReference(NamedTuple):
    owner: Owner
    blocks_deletion: bool


@dataclass(frozen=True, slots=True)
class GraphNode:
    ref: ObjectRef
    version: str
    uid: str
    references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def deletes_dependents(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers

    @property
    def is_tracked(self) -> bool:
        return bool(self.references) or self.deletes_dependents or self.orphans_dependents


def object_ref_of(obj: Object) -> ObjectRef:
    metadata = obj["metadata"]
    group, _, plural = metadata["annotations"][RESOURCE].split("/")
    return ObjectRef(metadata["annotations"][CLUSTER], group, plural, metadata.get("namespace", ""), metadata["name"])


def graph_node_of(obj: Object) -> GraphNode:
    """Builds a node from an event of the metadata stream."""
    object_ref, metadata = object_ref_of(obj), obj["metadata"]
    return GraphNode(
        ref=object_ref,
        version=metadata["annotations"][RESOURCE].split("/")[1],
        uid=metadata["uid"],
        references=tuple(owner_reference_of(object_ref, ref) for ref in metadata.get("ownerReferences") or ()),
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting="deletionTimestamp" in metadata,
    )


def owner_reference_of(object_ref: ObjectRef, ref: Object) -> OwnerReference:
    owner = Owner(object_ref.cluster, object_ref.namespace, ref["apiVersion"], ref["kind"], ref["name"], ref["uid"])
    return OwnerReference(owner, bool(ref.get("blockOwnerDeletion")))


class DependencyGraph:
    def __init__(self) -> None:
        self.nodes: dict[ObjectRef, GraphNode] = {}
        self._dependents: dict[Owner, dict[ObjectRef, None]] = {}
        self._owners_by_name: dict[tuple[str, str], dict[Owner, None]] = {}
        self._uids: dict[tuple[str, str], ObjectRef] = {}

    def put(self, node: GraphNode) -> GraphNode | None:
        """Returns the previous node."""
        old = self.remove(node.ref)
        if not node.is_tracked:
            return old
        self.nodes[node.ref] = node
        self._uids[node.ref.cluster, node.uid] = node.ref
        for owner, _ in node.references:
            self._dependents.setdefault(owner, {})[node.ref] = None
            self._owners_by_name.setdefault((owner.cluster, owner.name), {})[owner] = None
        return old

    def remove(self, ref: ObjectRef) -> GraphNode | None:
        old = self.nodes.pop(ref, None)
        if old is None:
            return None
        self._uids.pop((ref.cluster, old.uid), None)
        for owner, _ in old.references:
            dependents = self._dependents.get(owner, {})
            dependents.pop(ref, None)
            if not dependents:
                self._dependents.pop(owner, None)
                owners = self._owners_by_name.get((owner.cluster, owner.name), {})
                owners.pop(owner, None)
                if not owners:
                    self._owners_by_name.pop((owner.cluster, owner.name), None)
        return old

    def has_dependents(self, owner: Owner) -> bool:
        return owner in self._dependents

    def owners_by_name(self, cluster: str, name: str) -> list[Owner]:
        """Returns the owners that are referenced by that name, of any kind."""
        return list(self._owners_by_name.get((cluster, name), ()))

    def dependents_of_owner(self, owner: Owner) -> list[GraphNode]:
        return [self.nodes[ref] for ref in self._dependents.get(owner, ())]

    def dependents(self, node: GraphNode) -> list[GraphNode]:
        """Returns the objects that reference the uid of an existing object from a namespace where they may."""
        ref = node.ref
        result: dict[ObjectRef, GraphNode] = {}
        for owner in self.owners_by_name(ref.cluster, ref.name):
            if owner.uid == node.uid and (not ref.namespace or owner.namespace == ref.namespace):
                result.update((dependent.ref, dependent) for dependent in self.dependents_of_owner(owner))
        return list(result.values())

    def node_of_owner(self, owner: Owner) -> GraphNode | None:
        ref = self._uids.get((owner.cluster, owner.uid))
        return self.nodes[ref] if ref is not None else None
