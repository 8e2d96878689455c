"""PersistentVolumes: defaults, validation and warnings in upstream's words, and helpers shared with claims. Pure."""

from __future__ import annotations

from posixpath import normpath
from typing import Any

from shoal.kinds.checks import immutable, one_of, said, section
from shoal.kinds.differences import difference, same
from shoal.kinds.pod_scheduling import validate_node_selector
from shoal.kinds.pod_volume_warnings import source_warnings
from shoal.kinds.pod_warnings import node_term
from shoal.kinds.resources import amount, default_list
from shoal.kinds.volume_sources import default_sources, sources, validate_sources
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required
from shoal.objects.names import is_dns1123_subdomain
from shoal.objects.quantity import ZERO

Object = dict[str, Any]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
BIND_COMPLETED, BOUND_BY_CONTROLLER = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONERS = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
"""Annotations of a claim: the provisioner that should create its volume."""
MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_MOUNTED = frozenset({
    "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder", "cephfs",
    "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk",
})  # fmt: skip
"""Sources that support mount options."""


def class_of(obj: Object) -> str | None:
    """Returns the storage class of a claim or volume; None: not set."""
    annotations = obj["metadata"].get("annotations") or {}
    if CLASS_ANNOTATION in annotations:
        return str(annotations[CLASS_ANNOTATION])
    name = (obj.get("spec") or {}).get("storageClassName")
    return None if name is None else str(name)


def requested_storage(claim: Object) -> object:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return (resources.get("requests") or {}).get("storage")


def access_modes(modes: list[str], path: str) -> list[Cause]:
    causes = [not_supported(f"{path}.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:3] for mode in modes):
        causes.append(forbidden_field(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return causes


def class_name(spec: Object, path: str) -> list[Cause]:
    name = spec.get("storageClassName")
    return said(f"{path}.storageClassName", name, is_dns1123_subdomain(name)) if name else []


def default_volume(obj: Object) -> None:
    spec = section(obj, "spec")
    default_inline(spec)
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    status = section(obj, "status")
    if not status.get("phase"):
        status["phase"] = "Pending"


def default_inline(spec: Object) -> None:
    default_list(spec, "capacity")
    default_sources(spec)


def create_volume(obj: Object) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"].get("creationTimestamp")}


def validate_volume(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    if old is not None and spec == old.get("spec"):
        return []
    modes, policy = spec.get("accessModes") or [], spec.get("persistentVolumeReclaimPolicy")
    causes = [] if modes else [required("spec.accessModes")]
    causes += access_modes(modes, "spec") + _capacity(spec.get("capacity") or {})
    causes += one_of(policy, "spec.persistentVolumeReclaimPolicy", *RECLAIM_POLICIES)
    affinity = (spec.get("nodeAffinity") or {}).get("required")
    if affinity is not None:
        causes += validate_node_selector(affinity, "spec.nodeAffinity.required")
    elif spec.get("nodeAffinity") is not None:
        causes.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
    causes += validate_sources(spec, "spec", obj["metadata"].get("name") or "") + _recycled_root(spec, "spec")
    causes += class_name(spec, "spec")
    causes += one_of(spec.get("volumeMode"), "spec.volumeMode", "Block", "Filesystem")
    if spec.get("volumeAttributesClassName") is not None:
        causes += _attributes_class(spec)
    if MOUNT_OPTIONS in (obj["metadata"].get("annotations") or {}) and not spec.keys() & _MOUNTED:
        why = "may not specify mount options for this volume type"
        causes.append(forbidden_field(f"metadata.annotations.{MOUNT_OPTIONS}", why))
    return causes if old is None else causes + _volume_update(spec, old.get("spec") or {})


def validate_inline(spec: Object, path: str) -> list[Cause]:
    """Validates the inline volume of a VolumeAttachment."""
    alone = "may not be specified in the context of inline volumes"
    causes = [forbidden_field(f"{path}.{field}", alone) for field in ("claimRef", "capacity") if spec.get(field)]
    if spec.get("csi") is None:
        causes.append(required(f"{path}.csi", "has to be specified in the context of inline volumes"))
    modes = spec.get("accessModes") or []
    causes += ([] if modes else [required(f"{path}.accessModes")]) + access_modes(modes, path)
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        why = "may only be Retain in the context of inline volumes"
        causes.append(forbidden_field(f"{path}.persistentVolumeReclaimPolicy", why))
    if spec.get("nodeAffinity") is not None:
        causes.append(forbidden_field(f"{path}.nodeAffinity", alone))
    causes += validate_sources(spec, path, "") + _recycled_root(spec, path)
    if spec.get("storageClassName"):
        causes.append(forbidden_field(f"{path}.storageClassName", alone))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        why = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        causes.append(forbidden_field(f"{path}.volumeMode", why))
    return causes


def _capacity(capacity: Object) -> list[Cause]:
    causes = [] if capacity else [required("spec.capacity")]
    if capacity.keys() != {"storage"}:
        causes.append(not_supported("spec.capacity", capacity or None, ["storage"]))
    for name, value in capacity.items():
        if amount(value) < ZERO:
            whole = amount(value).value()
            causes.append(invalid_value(f"spec.capacity[{name}]", whole, "must be a valid resource quantity"))
        if amount(value) <= ZERO:
            causes.append(invalid_value(f"spec.capacity[{name}]", value, "must be greater than zero"))
    return causes


def _recycled_root(spec: Object, path: str) -> list[Cause]:
    where = (spec.get("hostPath") or {}).get("path") or ""
    if spec.get("persistentVolumeReclaimPolicy") != "Recycle" or not where or normpath(where).strip("/"):
        return []
    why = "may not be 'recycle' for a hostPath mount of '/'"
    return [forbidden_field(f"{path}.persistentVolumeReclaimPolicy", why)]


def _attributes_class(spec: Object) -> list[Cause]:
    """Applies to volumes; a claim may reset its own with an empty name."""
    name, path = spec["volumeAttributesClassName"], "spec.volumeAttributesClassName"
    causes = said(path, name, is_dns1123_subdomain(name)) if name else [required(path, "an empty string is disallowed")]
    if spec.get("csi") is None:
        causes.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
    return causes


def _source_of(spec: Object) -> Object:
    return {field: spec[field] for field in sources(spec)}


def _volume_update(spec: Object, old: Object) -> list[Cause]:
    causes = []
    new_source, old_source = _source_of(spec), _source_of(old)
    expand = "controllerExpandSecretRef"
    if (old.get("csi") or {expand: True}).get(expand) is None and "csi" in new_source:
        # It may be set once.
        new_source["csi"] = {field: value for field, value in new_source["csi"].items() if field != expand}
    if not same(new_source, old_source):
        why = "spec.persistentvolumesource is immutable after creation\n" + difference(new_source, old_source, "spec")
        causes.append(forbidden_field("spec.persistentvolumesource", why))
    causes += immutable(spec, old, "", "volumeMode")
    return causes + _kept_affinity(spec, old) + _taken_back(spec, old)


_GENERAL = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
"""Beta node labels and their GA names."""


def _kept_affinity(spec: Object, old: Object) -> list[Cause]:
    new, before = spec.get("nodeAffinity"), old.get("nodeAffinity")
    if before is None or same(new, before) or (new and same(new, _renamed(before, new))):
        return []
    return [invalid_value("nodeAffinity", new, "field is immutable, except for updating from beta label to GA")]


def _renamed(before: Any, new: Any) -> Any:
    """Returns `before` with the GA labels that `new` uses."""
    if isinstance(before, dict) and isinstance(new, dict):
        key = before.get("key")
        renamed = {"key": new["key"]} if key in _GENERAL and new.get("key") == _GENERAL[key] else {}
        return {field: _renamed(value, new.get(field)) for field, value in before.items()} | renamed
    if isinstance(before, list) and isinstance(new, list) and len(before) == len(new):
        return [_renamed(one, other) for one, other in zip(before, new, strict=True)]
    return before


def _taken_back(spec: Object, old: Object) -> list[Cause]:
    if old.get("volumeAttributesClassName") is None or spec.get("volumeAttributesClassName") is not None:
        return []
    return [forbidden_field("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")]


def warn_volume(obj: Object, old: Object | None) -> list[str]:
    told = old_annotations(obj, CLASS_ANNOTATION, MOUNT_OPTIONS)
    if obj["spec"].get("persistentVolumeReclaimPolicy") == "Recycle":
        told.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
            "approach is to use dynamic provisioning."
        )
    terms = ((obj["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for i, term in enumerate(terms):
        told += node_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{i}]")
    return told + source_warnings(obj["spec"], "spec", "flocker", "quobyte")


_OLD_ANNOTATIONS = {
    CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
}


def old_annotations(obj: Object, *keys: str) -> list[str]:
    annotations = obj["metadata"].get("annotations") or {}
    return [f"metadata.annotations[{key}]: {_OLD_ANNOTATIONS[key]}" for key in keys if key in annotations]
