"""Plans changes to the objects that make up a hosted cluster: create, patch, delete. Pure.

Only fields that the ManagedCluster owns are reconciled. Replicas belong to the provisioner in pools it buys from, and
to a cluster autoscaler where its limits are annotated. Annotations that others have changed, and whatever they add to
an object (owners, endpoints, statuses), are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from shoal.fleet.worker.hosting.objects import (
    APPLIED_ANNOTATION,
    DesiredObject,
    cluster_object,
    is_pool_object,
    kind_objects,
    member_objects,
    with_applied_annotation,
)
from shoal.fleet.worker.hosting.upgrade import target_versions
from shoal.fleet.worker.kind.objects import VERSION_ANNOTATION
from shoal.kinds.clusterapi import machine_sizes
from shoal.kinds.fleet import infrav1, kindhosting, nodepools
from shoal.objects import mergepatch

Object = dict[str, Any]
ObservedObjects = Mapping[tuple[str, str], Object]
"""By plural and name: the ManagedCluster's objects in the worker's own root."""

NO_IMAGES: Mapping[str, str] = MappingProxyType({})

AUTOSCALER_ANNOTATIONS = (
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size",
)
"""On a MachineDeployment whose replicas a cluster autoscaler sets."""


@dataclass(frozen=True, slots=True)
class HostingChanges:
    create: list[DesiredObject] = field(default_factory=list)
    patch: list[tuple[str, str, Object]] = field(default_factory=list)
    """Plural, name, merge patch."""
    delete: list[tuple[str, str, str]] = field(default_factory=list)
    """Plural, name, uid."""
    release_copy: bool = False
    """Nothing is left: the finalizer of the copy may be removed."""


def plan_changes(
    copy: Object, observed: ObservedObjects, infrastructures: tuple[str, ...], images: Mapping[str, str] = NO_IMAGES
) -> HostingChanges:
    """`images` are node images of kind clusters by release."""
    name = copy["metadata"]["name"]
    if infrav1.is_deleting(copy):
        return _plan_teardown(name, observed)
    if infrav1.spec_of(copy).get("infrastructure") not in infrastructures:
        return HostingChanges()  # The reporter reports why.
    owner = observed.get(("clusters", name))
    if owner is None:
        return HostingChanges(create=[("clusters", cluster_object(copy))])
    if infrav1.is_deleting(owner):
        return HostingChanges()  # Somebody deleted it; it is created again when it is gone.
    changes = HostingChanges()
    if kindhosting.is_kind(copy):
        desired = kind_objects(copy, owner, observed.get(("kindclusters", name)), images)
    else:
        versions = target_versions(_requested_version(copy), observed.get(("embeddedclusters", name)))
        desired = member_objects(copy, owner, versions)
    for plural, obj in desired:
        existing = observed.get((plural, obj["metadata"]["name"]))
        if existing is None:
            changes.create.append((plural, obj))
        elif not infrav1.is_deleting(existing):
            patch = merge_patch_to(existing, _reconciled_fields(plural, obj, existing))
            if patch:
                changes.patch.append((plural, obj["metadata"]["name"], patch))
    changes.delete.extend(_obsolete_objects(desired, observed))
    return changes


def _requested_version(copy: Object) -> str:
    return str(infrav1.spec_of(copy).get("version") or "")


def _obsolete_objects(desired: Iterable[DesiredObject], observed: ObservedObjects) -> list[tuple[str, str, str]]:
    """Pools that were removed, and templates that no machine is created from any more."""
    names = {(plural, obj["metadata"]["name"]) for plural, obj in desired}
    obsolete = []
    for (plural, name), obj in observed.items():
        if (plural, name) in names or not is_pool_object(obj) or infrav1.is_deleting(obj):
            continue
        if plural == "embeddedmachinetemplates" and _is_template_used(obj, observed):
            continue
        obsolete.append((plural, name, str(obj["metadata"]["uid"])))
    return obsolete


def _is_template_used(template: Object, observed: ObservedObjects) -> bool:
    """While its pool rolls out, machines of the old template may be created again."""
    labels = template["metadata"]["labels"]
    pool = observed.get(
        ("machinedeployments", f"{labels.get(infrav1.CLUSTER_NAME)}-{labels[nodepools.NODE_POOL_LABEL]}")
    )
    if pool is None:
        return False
    reference = pool["spec"]["template"]["spec"]["infrastructureRef"]["name"]
    return reference == template["metadata"]["name"] or not is_rolled_out(pool)


def is_rolled_out(pool: Object) -> bool:
    status, metadata = infrav1.status_of(pool), pool["metadata"]
    if int(status.get("observedGeneration") or 0) < int(metadata.get("generation") or 0):
        return False
    return int(status.get("replicas") or 0) == int(status.get("upToDateReplicas") or 0)


def _plan_teardown(name: str, observed: ObservedObjects) -> HostingChanges:
    """Deletes the Cluster first: its objects go in Cluster API's own order. Then whatever is left."""
    owner = observed.get(("clusters", name))
    if owner is not None:
        return HostingChanges(
            delete=[] if infrav1.is_deleting(owner) else [("clusters", name, owner["metadata"]["uid"])]
        )
    control_planes = ("embeddedclusters", name), ("kindclusters", name)
    remaining = {key: obj for key, obj in observed.items() if key in control_planes or is_pool_object(obj)}
    deletions = [(*key, str(obj["metadata"]["uid"])) for key, obj in remaining.items() if not infrav1.is_deleting(obj)]
    return HostingChanges(delete=deletions, release_copy=not remaining)


def _reconciled_fields(plural: str, desired: Object, existing: Object) -> Object:
    """Returns the fields that are reconciled when somebody changes them."""
    spec, metadata = desired["spec"], {"labels": desired["metadata"]["labels"]}
    if plural == "embeddedclusters":
        current: Object = existing.get("spec") or {}
        # A field that is no longer desired is None, at whichever depth.
        optional = {
            field: mergepatch.create(current.get(field) or {}, spec[field]) if field in spec else None
            for field in ("limits", "provisioner")
        }
        return {"metadata": metadata, "spec": {"endpoint": None, **spec, **optional}}
    if plural == "kindclusters":
        version = desired["metadata"]["annotations"][VERSION_ANNOTATION]
        return {"metadata": {**metadata, "annotations": {VERSION_ANNOTATION: version}}, "spec": {"image": None, **spec}}
    if plural != "machinedeployments":
        return {"metadata": metadata, "spec": spec}
    annotations: dict[str, str] = existing["metadata"].get("annotations") or {}
    reconciled_spec = {"template": spec["template"]}
    if machine_sizes.KARPENTER_MEMBER_LABEL not in desired["metadata"]["labels"] and not all(
        limit in annotations for limit in AUTOSCALER_ANNOTATIONS
    ):
        reconciled_spec["replicas"] = spec["replicas"]
    return {
        "metadata": {**metadata, "annotations": _reconciled_annotations(desired, annotations)},
        "spec": reconciled_spec,
    }


def _reconciled_annotations(desired: Object, existing: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the annotations that nobody else has changed or removed since they were written here. None: to be
    removed.
    """
    own_annotations = {
        key: value for key, value in desired["metadata"]["annotations"].items() if key != APPLIED_ANNOTATION
    }
    applied = _parse_applied(existing.get(APPLIED_ANNOTATION))
    patch = {
        key: own_annotations.get(key) for key in {**applied, **own_annotations} if existing.get(key) == applied.get(key)
    }
    return {**patch, APPLIED_ANNOTATION: with_applied_annotation(own_annotations)[APPLIED_ANNOTATION]}


def _parse_applied(text: str | None) -> dict[str, str]:
    try:
        applied = orjson.loads(text or "{}")
    except ValueError:
        return {}
    return applied if isinstance(applied, dict) else {}


def merge_patch_to(existing: Object, desired: Object) -> Object:
    """Returns the merge patch to `desired` that leaves everything else; empty if nothing differs."""
    patch: Object = {}
    for key, value in desired.items():
        before = existing.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch_to(before, value)
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch
