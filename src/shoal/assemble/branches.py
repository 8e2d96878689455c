"""A tree of objects: identity, location, readiness and children. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.objects.conditions import get_condition

Object = dict[str, Any]
_SUMMARIES = ("Ready", "Available", "Complete", "Succeeded", "Established")
"""Conditions that summarize an object; the first it has is used."""


@dataclass(slots=True)
class Branch:
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
    children: list[Branch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """An object with its kind: items of a list do not name theirs."""

    kind: str
    obj: Object

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"].get("uid", ""))


def branch(found: Found, cluster: str = "", how: str = "") -> Branch:
    metadata = found.obj["metadata"]
    ready, reason = how_it_is(found.obj)
    names = (found.kind, metadata.get("namespace", ""), metadata["name"])
    return Branch(*names, cluster, ready, reason, metadata.get("creationTimestamp", ""), how)


def by_owner(objects: Iterable[Found]) -> dict[str, list[Found]]:
    """Groups objects by the uid of each owner, sorted by kind and name."""
    found: dict[str, list[Found]] = {}
    for one in objects:
        for reference in one.obj["metadata"].get("ownerReferences") or ():
            found.setdefault(str(reference.get("uid", "")), []).append(one)
    for children in found.values():
        children.sort(key=lambda one: (one.kind, one.obj["metadata"]["name"]))
    return found


def grow(root: Found, owned: Mapping[str, list[Found]], cluster: str = "", how: str = "") -> tuple[Branch, list[Grown]]:
    """Returns the tree below an object, and every object in it with its node. An object with two owners appears twice;
    a cycle ends where it closes.
    """
    grown: list[Grown] = []

    def below(found: Found, how: str, above: frozenset[str]) -> Branch:
        made = branch(found, cluster, how)
        grown.append(Grown(found, made))
        if found.uid not in above:
            above |= {found.uid}
            made.children = [below(child, "", above) for child in owned.get(found.uid, ())]
        return made

    return below(root, how, frozenset()), grown


@dataclass(frozen=True, slots=True)
class Grown:
    found: Found
    branch: Branch


def how_it_is(obj: Object) -> tuple[str, str]:
    """Returns a word for the state and the reason, if there is one."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not isinstance(spec, dict) or not isinstance(status, dict):
        return "", ""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating", ""
    replicas = f"{status.get('readyReplicas') or 0}/{spec['replicas']}" if "replicas" in spec else ""
    said = next((found for name in _SUMMARIES if (found := get_condition(obj, name)) is not None), None)
    reason = str(said.get("reason") or "") if said is not None and said["status"] != "True" else ""
    phase = str(status.get("phase") or "")
    return replicas or phase or (str(said["status"]) if said is not None else ""), reason
