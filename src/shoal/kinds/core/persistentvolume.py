"""PersistentVolumes: defaults, validation and warnings in upstream's words, and helpers shared with claims. Pure."""

from __future__ import annotations

from posixpath import normpath
from typing import Any

from shoal.kinds.core.pod_warnings import node_selector_term_warnings
from shoal.kinds.core.scheduling import validate_node_selector
from shoal.kinds.core.volume_sources import default_sources, source_names, validate_sources
from shoal.kinds.core.volume_warnings import source_warnings
from shoal.kinds.validation.diff import diff, semantic_equal
from shoal.kinds.validation.field import ensure_map, invalid_causes, validate_enum, validate_immutable
from shoal.kinds.validation.resource_list import normalize_resource_list, quantity_of
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import is_dns1123_subdomain
from shoal.objects.quantity import ZERO

Object = dict[str, Any]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
CLAIM_PROTECTION_FINALIZER, VOLUME_PROTECTION_FINALIZER = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
BIND_COMPLETED, BOUND_BY_CONTROLLER = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER_ANNOTATIONS = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
"""Annotations of a claim: the provisioner that should create its volume."""
MOUNT_OPTIONS_ANNOTATION = "volume.beta.kubernetes.io/mount-options"
_MOUNTABLE_SOURCES = frozenset({
    "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder", "cephfs",
    "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk",
})  # fmt: skip
"""Sources that support mount options."""


def storage_class_of(obj: Object) -> str | None:
    """Returns the storage class of a claim or volume; None: not set."""
    annotations = obj["metadata"].get("annotations") or {}
    if STORAGE_CLASS_ANNOTATION in annotations:
        return str(annotations[STORAGE_CLASS_ANNOTATION])
    name = (obj.get("spec") or {}).get("storageClassName")
    return None if name is None else str(name)


def requested_storage(claim: Object) -> object:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return (resources.get("requests") or {}).get("storage")


def validate_access_modes(modes: list[str], path: str) -> list[Cause]:
    causes = [not_supported(f"{path}.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:3] for mode in modes):
        causes.append(forbidden_field(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return causes


def validate_storage_class_name(spec: Object, path: str) -> list[Cause]:
    name = spec.get("storageClassName")
    return invalid_causes(f"{path}.storageClassName", name, is_dns1123_subdomain(name)) if name else []


def default_volume(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    default_volume_spec(spec)
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    status = ensure_map(obj, "status")
    if not status.get("phase"):
        status["phase"] = "Pending"


def default_volume_spec(spec: Object) -> None:
    normalize_resource_list(spec, "capacity")
    default_sources(spec)


def prepare_volume_create(obj: Object) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"].get("creationTimestamp")}


def validate_volume(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    if old is not None and spec == old.get("spec"):
        return []
    modes, policy = spec.get("accessModes") or [], spec.get("persistentVolumeReclaimPolicy")
    causes = [] if modes else [required_value("spec.accessModes")]
    causes += validate_access_modes(modes, "spec") + _validate_capacity(spec.get("capacity") or {})
    causes += validate_enum(policy, "spec.persistentVolumeReclaimPolicy", *RECLAIM_POLICIES)
    affinity = (spec.get("nodeAffinity") or {}).get("required")
    if affinity is not None:
        causes += validate_node_selector(affinity, "spec.nodeAffinity.required")
    elif spec.get("nodeAffinity") is not None:
        causes.append(required_value("spec.nodeAffinity.required", "must specify required node constraints"))
    causes += validate_sources(spec, "spec", obj["metadata"].get("name") or "") + _validate_recycled_root(spec, "spec")
    causes += validate_storage_class_name(spec, "spec")
    causes += validate_enum(spec.get("volumeMode"), "spec.volumeMode", "Block", "Filesystem")
    if spec.get("volumeAttributesClassName") is not None:
        causes += _validate_attributes_class(spec)
    if MOUNT_OPTIONS_ANNOTATION in (obj["metadata"].get("annotations") or {}) and not spec.keys() & _MOUNTABLE_SOURCES:
        detail = "may not specify mount options for this volume type"
        causes.append(forbidden_field(f"metadata.annotations.{MOUNT_OPTIONS_ANNOTATION}", detail))
    return causes if old is None else causes + _validate_volume_update(spec, old.get("spec") or {})


def validate_inline_volume(spec: Object, path: str) -> list[Cause]:
    """Validates the inline volume of a VolumeAttachment."""
    inline_detail = "may not be specified in the context of inline volumes"
    causes = [
        forbidden_field(f"{path}.{field}", inline_detail) for field in ("claimRef", "capacity") if spec.get(field)
    ]
    if spec.get("csi") is None:
        causes.append(required_value(f"{path}.csi", "has to be specified in the context of inline volumes"))
    modes = spec.get("accessModes") or []
    causes += ([] if modes else [required_value(f"{path}.accessModes")]) + validate_access_modes(modes, path)
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        detail = "may only be Retain in the context of inline volumes"
        causes.append(forbidden_field(f"{path}.persistentVolumeReclaimPolicy", detail))
    if spec.get("nodeAffinity") is not None:
        causes.append(forbidden_field(f"{path}.nodeAffinity", inline_detail))
    causes += validate_sources(spec, path, "") + _validate_recycled_root(spec, path)
    if spec.get("storageClassName"):
        causes.append(forbidden_field(f"{path}.storageClassName", inline_detail))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        causes.append(forbidden_field(f"{path}.volumeMode", detail))
    return causes


def _validate_capacity(capacity: Object) -> list[Cause]:
    causes = [] if capacity else [required_value("spec.capacity")]
    if capacity.keys() != {"storage"}:
        causes.append(not_supported("spec.capacity", capacity or None, ["storage"]))
    for name, value in capacity.items():
        if quantity_of(value) < ZERO:
            whole = quantity_of(value).value()
            causes.append(invalid_value(f"spec.capacity[{name}]", whole, "must be a valid resource quantity"))
        if quantity_of(value) <= ZERO:
            causes.append(invalid_value(f"spec.capacity[{name}]", value, "must be greater than zero"))
    return causes


def _validate_recycled_root(spec: Object, path: str) -> list[Cause]:
    host_path = (spec.get("hostPath") or {}).get("path") or ""
    if spec.get("persistentVolumeReclaimPolicy") != "Recycle" or not host_path or normpath(host_path).strip("/"):
        return []
    detail = "may not be 'recycle' for a hostPath mount of '/'"
    return [forbidden_field(f"{path}.persistentVolumeReclaimPolicy", detail)]


def _validate_attributes_class(spec: Object) -> list[Cause]:
    """Applies to volumes; a claim may reset its own with an empty name."""
    name, path = spec["volumeAttributesClassName"], "spec.volumeAttributesClassName"
    causes = (
        invalid_causes(path, name, is_dns1123_subdomain(name))
        if name
        else [required_value(path, "an empty string is disallowed")]
    )
    if spec.get("csi") is None:
        causes.append(required_value("spec.csi", "has to be specified when using volumeAttributesClassName"))
    return causes


def _volume_source(spec: Object) -> Object:
    return {field: spec[field] for field in source_names(spec)}


def _validate_volume_update(spec: Object, old: Object) -> list[Cause]:
    causes = []
    new_source, old_source = _volume_source(spec), _volume_source(old)
    expand = "controllerExpandSecretRef"
    if (old.get("csi") or {expand: True}).get(expand) is None and "csi" in new_source:
        # It may be set once.
        new_source["csi"] = {field: value for field, value in new_source["csi"].items() if field != expand}
    if not semantic_equal(new_source, old_source):
        detail = "spec.persistentvolumesource is immutable after creation\n" + diff(new_source, old_source, "spec")
        causes.append(forbidden_field("spec.persistentvolumesource", detail))
    causes += validate_immutable(spec, old, "", "volumeMode")
    return causes + _validate_affinity_unchanged(spec, old) + _validate_attributes_class_removal(spec, old)


_GA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
"""Beta node labels and their GA names."""


def _validate_affinity_unchanged(spec: Object, old: Object) -> list[Cause]:
    new, before = spec.get("nodeAffinity"), old.get("nodeAffinity")
    if before is None or semantic_equal(new, before) or (new and semantic_equal(new, _with_ga_labels(before, new))):
        return []
    return [invalid_value("nodeAffinity", new, "field is immutable, except for updating from beta label to GA")]


def _with_ga_labels(before: Any, new: Any) -> Any:
    """Returns `before` with the GA labels that `new` uses."""
    if isinstance(before, dict) and isinstance(new, dict):
        key = before.get("key")
        renamed = {"key": new["key"]} if key in _GA_LABELS and new.get("key") == _GA_LABELS[key] else {}
        return {field: _with_ga_labels(value, new.get(field)) for field, value in before.items()} | renamed
    if isinstance(before, list) and isinstance(new, list) and len(before) == len(new):
        return [_with_ga_labels(one, other) for one, other in zip(before, new, strict=True)]
    return before


def _validate_attributes_class_removal(spec: Object, old: Object) -> list[Cause]:
    if old.get("volumeAttributesClassName") is None or spec.get("volumeAttributesClassName") is not None:
        return []
    return [forbidden_field("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")]


def warn_volume(obj: Object, old: Object | None) -> list[str]:
    warnings = deprecated_annotation_warnings(obj, STORAGE_CLASS_ANNOTATION, MOUNT_OPTIONS_ANNOTATION)
    if obj["spec"].get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
            "approach is to use dynamic provisioning."
        )
    terms = ((obj["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for i, term in enumerate(terms):
        warnings += node_selector_term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{i}]")
    return warnings + source_warnings(obj["spec"], "spec", "flocker", "quobyte")


_DEPRECATED_ANNOTATIONS = {
    STORAGE_CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    MOUNT_OPTIONS_ANNOTATION: 'deprecated since v1.31; use "mountOptions" attribute instead',
}


def deprecated_annotation_warnings(obj: Object, *keys: str) -> list[str]:
    annotations = obj["metadata"].get("annotations") or {}
    return [f"metadata.annotations[{key}]: {_DEPRECATED_ANNOTATIONS[key]}" for key in keys if key in annotations]
