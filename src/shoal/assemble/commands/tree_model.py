"""A tree of objects: identity, location, readiness and children. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.core.pod.printer import summarize_pod
from shoal.objects.conditions import get_condition

Object = dict[str, Any]
_SUMMARIES = ("Ready", "Available", "Complete", "Succeeded", "Established")
"""Conditions that summarize an object; the first it has is used."""


@dataclass(slots=True)
class TreeNode:
    kind: str
    namespace: str
    name: str
    cluster: str = ""
    """The workload Cluster it is in; empty: the hub."""
    ready: str = ""
    reason: str = ""
    created: str = ""
    how: str = ""
    """The relation to its parent; empty: the parent owns it."""
    asked: bool = False
    """True for the object of the request."""
    children: list[TreeNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TypedObject:
    """An object with its kind: items of a list do not name theirs."""

    kind: str
    obj: Object

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"].get("uid", ""))


def tree_node(typed: TypedObject, cluster: str = "", how: str = "") -> TreeNode:
    metadata = typed.obj["metadata"]
    ready, reason = readiness_of(typed.obj)
    if typed.kind == "Pod":
        # The phase of a pod says nothing of containers that do not start.
        ready = summarize_pod(typed.obj).reason
    names = (typed.kind, metadata.get("namespace", ""), metadata["name"])
    return TreeNode(*names, cluster, ready, reason, metadata.get("creationTimestamp", ""), how)


def by_owner(objects: Iterable[TypedObject]) -> dict[str, list[TypedObject]]:
    """Groups objects by the uid of each owner, sorted by kind and name."""
    owned: dict[str, list[TypedObject]] = {}
    for one in objects:
        for reference in one.obj["metadata"].get("ownerReferences") or ():
            owned.setdefault(str(reference.get("uid", "")), []).append(one)
    for children in owned.values():
        children.sort(key=lambda one: (one.kind, one.obj["metadata"]["name"]))
    return owned


def build_tree(
    root: TypedObject, owned: Mapping[str, list[TypedObject]], cluster: str = "", how: str = ""
) -> tuple[TreeNode, list[ObjectNode]]:
    """Returns the tree below an object, and every object in it with its node. An object with two owners appears twice;
    a cycle ends where it closes.
    """
    object_nodes: list[ObjectNode] = []

    def subtree(typed: TypedObject, how: str, above: frozenset[str]) -> TreeNode:
        node = tree_node(typed, cluster, how)
        object_nodes.append(ObjectNode(typed, node))
        if typed.uid not in above:
            above |= {typed.uid}
            node.children = [subtree(child, "", above) for child in owned.get(typed.uid, ())]
        return node

    return subtree(root, how, frozenset()), object_nodes


@dataclass(frozen=True, slots=True)
class ObjectNode:
    typed: TypedObject
    node: TreeNode


def readiness_of(obj: Object) -> tuple[str, str]:
    """Returns a word for the state and the reason, if there is one."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not isinstance(spec, dict) or not isinstance(status, dict):
        return "", ""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating", ""
    replicas = f"{status.get('readyReplicas') or 0}/{spec['replicas']}" if "replicas" in spec else ""
    condition = next((found for name in _SUMMARIES if (found := get_condition(obj, name)) is not None), None)
    reason = str(condition.get("reason") or "") if condition is not None and condition["status"] != "True" else ""
    phase = str(status.get("phase") or "")
    return replicas or phase or (str(condition["status"]) if condition is not None else ""), reason
