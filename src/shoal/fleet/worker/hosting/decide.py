"""Plans changes to the objects that make up a hosted cluster: create, patch, delete. Pure.

Only fields that the ManagedCluster owns are reconciled. Replicas belong to the provisioner in pools it buys from, and
to a cluster autoscaler where its limits are annotated. Annotations that others have changed, and whatever they add to
an object (owners, endpoints, statuses), are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.fleet.worker.hosting.objects import ANNOUNCED, Wanted, announced, cluster, is_of_pool, members
from shoal.fleet.worker.hosting.upgrade import versions
from shoal.kinds import fleet, nodepools, sizes

Object = dict[str, Any]
Known = Mapping[tuple[str, str], Object]
"""By plural and name: the ManagedCluster's objects in the worker's own root."""

AUTOSCALED = (
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size",
)
"""On a MachineDeployment whose replicas a cluster autoscaler sets."""


@dataclass(frozen=True, slots=True)
class Plan:
    create: list[Wanted] = field(default_factory=list)
    patch: list[tuple[str, str, Object]] = field(default_factory=list)
    """Plural, name, merge patch."""
    delete: list[tuple[str, str, str]] = field(default_factory=list)
    """Plural, name, uid."""
    release: bool = False
    """Nothing is left: the finalizer of the copy may be removed."""


def plan(copy: Object, known: Known, provides: tuple[str, ...]) -> Plan:
    name = copy["metadata"]["name"]
    if fleet.is_deleting(copy):
        return _teardown(name, known)
    if fleet.spec_of(copy).get("infrastructure") not in provides:
        return Plan()  # The reporter reports why.
    owner = known.get(("clusters", name))
    if owner is None:
        return Plan(create=[("clusters", cluster(copy))])
    if fleet.is_deleting(owner):
        return Plan()  # Somebody deleted it; it is created again when it is gone.
    found = Plan()
    wanted = members(copy, owner, versions(_version(copy), known.get(("embeddedclusters", name))))
    for plural, one in wanted:
        existing = known.get((plural, one["metadata"]["name"]))
        if existing is None:
            found.create.append((plural, one))
        elif not fleet.is_deleting(existing):
            patch = difference(existing, _kept(plural, one, existing))
            if patch:
                found.patch.append((plural, one["metadata"]["name"], patch))
    found.delete.extend(_left_over(wanted, known))
    return found


def _version(copy: Object) -> str:
    return str(fleet.spec_of(copy).get("version") or "")


def _left_over(wanted: Iterable[Wanted], known: Known) -> list[tuple[str, str, str]]:
    """Pools that were removed, and templates that no machine is created from any more."""
    names = {(plural, obj["metadata"]["name"]) for plural, obj in wanted}
    found = []
    for (plural, name), obj in known.items():
        if (plural, name) in names or not is_of_pool(obj) or fleet.is_deleting(obj):
            continue
        if plural == "embeddedmachinetemplates" and _is_used(obj, known):
            continue
        found.append((plural, name, str(obj["metadata"]["uid"])))
    return found


def _is_used(template: Object, known: Known) -> bool:
    """While its pool rolls out, machines of the old template may be created again."""
    labels = template["metadata"]["labels"]
    pool = known.get(("machinedeployments", f"{labels.get(fleet.CLUSTER_NAME)}-{labels[nodepools.LABEL]}"))
    if pool is None:
        return False
    reference = pool["spec"]["template"]["spec"]["infrastructureRef"]["name"]
    return reference == template["metadata"]["name"] or not is_rolled_out(pool)


def is_rolled_out(pool: Object) -> bool:
    status, metadata = fleet.status_of(pool), pool["metadata"]
    if int(status.get("observedGeneration") or 0) < int(metadata.get("generation") or 0):
        return False
    return int(status.get("replicas") or 0) == int(status.get("upToDateReplicas") or 0)


def _teardown(name: str, known: Known) -> Plan:
    """Deletes the Cluster first: its objects go in Cluster API's own order. Then whatever is left."""
    owner = known.get(("clusters", name))
    if owner is not None:
        return Plan(delete=[] if fleet.is_deleting(owner) else [("clusters", name, owner["metadata"]["uid"])])
    there = {key: obj for key, obj in known.items() if key == ("embeddedclusters", name) or is_of_pool(obj)}
    going = [(*key, str(obj["metadata"]["uid"])) for key, obj in there.items() if not fleet.is_deleting(obj)]
    return Plan(delete=going, release=not there)


def _kept(plural: str, wanted: Object, existing: Object) -> Object:
    """Returns the fields that are reconciled when somebody changes them."""
    spec, metadata = wanted["spec"], {"labels": wanted["metadata"]["labels"]}
    if plural != "machinedeployments":
        return {"metadata": metadata, "spec": spec}
    annotations: dict[str, str] = existing["metadata"].get("annotations") or {}
    kept = {"template": spec["template"]}
    if sizes.MEMBER not in wanted["metadata"]["labels"] and not all(limit in annotations for limit in AUTOSCALED):
        kept["replicas"] = spec["replicas"]
    return {"metadata": {**metadata, "annotations": _announcement(wanted, annotations)}, "spec": kept}


def _announcement(wanted: Object, existing: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the annotations that nobody else has changed or removed since they were written here. None: to be
    removed.
    """
    ours = {key: value for key, value in wanted["metadata"]["annotations"].items() if key != ANNOUNCED}
    before = _noted(existing.get(ANNOUNCED))
    patch = {key: ours.get(key) for key in {**before, **ours} if existing.get(key) == before.get(key)}
    return {**patch, ANNOUNCED: announced(ours)[ANNOUNCED]}


def _noted(text: str | None) -> dict[str, str]:
    try:
        found = orjson.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def difference(existing: Object, wanted: Object) -> Object:
    """Returns the merge patch to `desired` that leaves everything else; empty if nothing differs."""
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
