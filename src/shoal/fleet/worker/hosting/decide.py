"""What is missing, different or left over of the objects that make a hosted cluster. Pure.

Numbers of machines are the provisioner's, save for the one pool that follows `spec.nodes`; what others add to an
object (owners, endpoints, statuses) is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shoal.fleet.worker.hosting.objects import Wanted, cluster, members, names
from shoal.kinds import fleet, sizes

Object = dict[str, Any]
Known = Callable[[str, str], Object | None]
"""By plural and name: the object, as far as the worker's own root has it."""


@dataclass(frozen=True, slots=True)
class Plan:
    create: list[Wanted] = field(default_factory=list)
    patch: list[tuple[str, str, Object]] = field(default_factory=list)
    """Plural, name, merge patch."""
    delete: list[tuple[str, str, str]] = field(default_factory=list)
    """Plural, name, uid."""
    release: bool = False
    """Nothing is left: the copy may go."""


def plan(copy: Object, known: Known, provides: tuple[str, ...]) -> Plan:
    if fleet.is_deleting(copy):
        return _teardown(copy, known)
    if fleet.spec_of(copy).get("infrastructure") not in provides:
        return Plan()  # the reporter says why
    owner = known("clusters", copy["metadata"]["name"])
    if owner is None:
        return Plan(create=[("clusters", cluster(copy))])
    if fleet.is_deleting(owner):
        return Plan()  # somebody deleted it; when it has gone it is made again
    found = Plan()
    for plural, wanted in members(copy, owner):
        name = wanted["metadata"]["name"]
        existing = known(plural, name)
        if existing is None:
            found.create.append((plural, wanted))
        elif not fleet.is_deleting(existing):
            patch = difference(existing, _kept(plural, wanted))
            if patch:
                found.patch.append((plural, name, patch))
    return found


def _teardown(copy: Object, known: Known) -> Plan:
    """The Cluster first: what belongs to it goes in Cluster API's own order. Then what nobody took along."""
    name = copy["metadata"]["name"]
    owner = known("clusters", name)
    if owner is not None:
        return Plan(delete=[] if fleet.is_deleting(owner) else [("clusters", name, owner["metadata"]["uid"])])
    left = [(plural, one, known(plural, one)) for plural, one in names(name)]
    there = [(plural, one, obj) for plural, one, obj in left if obj is not None]
    going = [(plural, one, obj["metadata"]["uid"]) for plural, one, obj in there if not fleet.is_deleting(obj)]
    return Plan(delete=going, release=not there)


def _kept(plural: str, wanted: Object) -> Object:
    """The part of an object that is put right when somebody changes it."""
    spec = wanted["spec"]
    if plural != "machinedeployments":
        return {"spec": spec}
    kept = {"template": spec["template"]}
    if sizes.MEMBER not in wanted["metadata"]["labels"]:
        kept["replicas"] = spec["replicas"]
    metadata = {"annotations": wanted["metadata"]["annotations"]}
    return {"metadata": metadata, "spec": kept}


def difference(existing: Object, wanted: Object) -> Object:
    """The merge patch that brings `wanted` about, leaving everything else; empty: it is so already."""
    patch: Object = {}
    for key, value in wanted.items():
        before = existing.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = difference(before, value)
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch
