"""PersistentVolume and PersistentVolumeClaim of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import immutable, label_selector, one_of, said, section
from shoal.kinds.differences import difference, same
from shoal.kinds.pod_defaults import default_claim_spec
from shoal.kinds.pod_scheduling import validate_node_selector
from shoal.kinds.resources import amount, default_list
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain
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
"""Annotations of a claim: who is to make its volume."""
_NOT_SOURCES = frozenset({
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeMode", "volumeAttributesClassName",
})  # fmt: skip
_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"


def default_claim(obj: Object) -> None:
    default_claim_spec(section(obj, "spec"))
    status = section(obj, "status")
    if not status.get("phase"):
        status["phase"] = "Pending"
    default_list(status, "capacity")
    _same_source(obj["spec"])


_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _same_source(spec: Object) -> None:
    """`dataSource` and `dataSourceRef` say the same, unless the source is in another namespace."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference and (source.get("apiGroup") or "", source.get("kind")) not in _SOURCES:
        # What only `dataSourceRef` may name is dropped here, as it always was.
        del spec["dataSource"]
        return
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def class_of(obj: Object) -> str | None:
    """The storage class of a claim or a volume; None: nobody said anything about it."""
    annotations = obj["metadata"].get("annotations") or {}
    if CLASS_ANNOTATION in annotations:
        return str(annotations[CLASS_ANNOTATION])
    name = (obj.get("spec") or {}).get("storageClassName")
    return None if name is None else str(name)


def requested_storage(claim: Object) -> object:
    return _storage(claim.get("spec") or {})


def create_claim(obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}


def validate_claim(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    if old is not None and spec == old.get("spec"):
        return []
    causes = validate_claim_spec(spec, "spec")
    return causes if old is None else causes + _claim_update(obj, old)


def validate_claim_spec(spec: Object, path: str) -> list[Cause]:
    """Of a claim, and of a template that makes claims."""
    modes = spec.get("accessModes") or []
    causes = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    causes += label_selector(spec.get("selector"), f"{path}.selector")
    causes += _access_modes(modes, path)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        causes.append(required(f"{path}.resources[storage]"))
    elif amount(storage) <= ZERO:
        causes.append(invalid_value(f"{path}.resources[storage]", storage, "must be greater than zero"))
    causes += _class_name(spec, path)
    causes += one_of(spec.get("volumeMode"), f"{path}.volumeMode", "Block", "Filesystem")
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field):
            causes += _data_source(spec[field], f"{path}.{field}")
    return causes


def _access_modes(modes: list[str], path: str) -> list[Cause]:
    causes = [not_supported(f"{path}.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:3] for mode in modes):
        causes.append(forbidden_field(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return causes


def _class_name(spec: Object, path: str) -> list[Cause]:
    name = spec.get("storageClassName")
    return said(f"{path}.storageClassName", name, is_dns1123_subdomain(name)) if name else []


def _data_source(source: Object, path: str) -> list[Cause]:
    causes = [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup"), source.get("kind") or ""
    if group:
        causes += said(f"{path}.apiGroup", group, is_dns1123_subdomain(group))
    elif kind != "PersistentVolumeClaim":
        why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        causes.append(invalid_value(path, kind, why))
    if source.get("namespace"):
        causes += said(f"{path}.namespace", source["namespace"], is_dns1123_label(source["namespace"]))
    return causes


def _claim_update(obj: Object, old: Object) -> list[Cause]:
    new_spec, old_spec = dict(obj["spec"]), dict(old.get("spec") or {})
    if not old_spec.get("volumeName"):
        old_spec["volumeName"] = new_spec.get("volumeName")
    if old_spec.get("storageClassName") is None and new_spec.get("storageClassName") is not None:
        annotations = old["metadata"].get("annotations") or {}
        if annotations.get(CLASS_ANNOTATION, new_spec["storageClassName"]) == new_spec["storageClassName"]:
            old_spec["storageClassName"] = new_spec["storageClassName"]
    new_size, old_size = _storage(new_spec), _storage(old_spec)
    if (obj.get("status") or {}).get("phase") == "Bound":
        new_spec["resources"] = _with_storage(new_spec, old_size)
        new_spec["volumeAttributesClassName"] = old_spec.get("volumeAttributesClassName")
    causes = []
    if not same(new_spec, old_spec):
        causes.append(forbidden_field("spec", _FIXED + difference(new_spec, old_spec, "spec")))
    if amount(new_size) < amount(old_size):
        reached = ((old.get("status") or {}).get("capacity") or {}).get("storage")
        if amount(new_size) <= amount(reached):
            why = "field can not be less than status.capacity"
            causes.append(forbidden_field("spec.resources.requests.storage", why))
    # Upstream's path leaves the spec out.
    return causes + immutable(new_spec, old_spec, "", "volumeMode")


def _storage(spec: Object) -> object:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _with_storage(spec: Object, size: object) -> Object:
    resources = spec.get("resources") or {}
    return {**resources, "requests": {**(resources.get("requests") or {}), "storage": size}}


def default_volume(obj: Object) -> None:
    spec = section(obj, "spec")
    default_list(spec, "capacity")
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    if spec.get("hostPath") is not None and spec["hostPath"].get("type") is None:
        spec["hostPath"]["type"] = ""
    status = section(obj, "status")
    if not status.get("phase"):
        status["phase"] = "Pending"


def create_volume(obj: Object) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"].get("creationTimestamp")}


def validate_volume(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    if old is not None and spec == old.get("spec"):
        return []
    modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
    causes = [] if modes else [required("spec.accessModes")]
    causes += _access_modes(modes, "spec")
    if not capacity:
        causes.append(required("spec.capacity"))
    if capacity.keys() != {"storage"}:
        causes.append(not_supported("spec.capacity", capacity or None, ["storage"]))
    for name, value in capacity.items():
        if amount(value) < ZERO:
            whole = amount(value).value()
            causes.append(invalid_value(f"spec.capacity[{name}]", whole, "must be a valid resource quantity"))
        if amount(value) <= ZERO:
            causes.append(invalid_value(f"spec.capacity[{name}]", value, "must be greater than zero"))
    causes += one_of(spec.get("persistentVolumeReclaimPolicy"), "spec.persistentVolumeReclaimPolicy", *RECLAIM_POLICIES)
    causes += _volume_source(spec)
    causes += _class_name(spec, "spec")
    causes += one_of(spec.get("volumeMode"), "spec.volumeMode", "Block", "Filesystem")
    affinity = (spec.get("nodeAffinity") or {}).get("required")
    if affinity is not None:
        causes += validate_node_selector(affinity, "spec.nodeAffinity.required")
    elif spec.get("nodeAffinity") is not None:
        causes.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
    return causes if old is None else causes + _volume_update(spec, old.get("spec") or {})


def _source_of(spec: Object) -> Object:
    return {field: value for field, value in spec.items() if field not in _NOT_SOURCES and value is not None}


def _volume_source(spec: Object) -> list[Cause]:
    kinds = list(_source_of(spec))
    causes = [] if kinds else [required("spec", "must specify a volume type")]
    causes += [forbidden_field(f"spec.{kind}", "may not specify more than 1 volume type") for kind in kinds[1:]]
    for kind in kinds[:1]:
        needed = {"hostPath": "path", "local": "path", "nfs": "server", "csi": "driver"}.get(kind)
        if needed and not spec[kind].get(needed):
            causes.append(required(f"spec.{kind}.{needed}"))
    if "csi" in kinds and not spec["csi"].get("volumeHandle"):
        causes.append(required("spec.csi.volumeHandle"))
    if "local" in kinds and not spec.get("nodeAffinity"):
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return causes


def _volume_update(spec: Object, old: Object) -> list[Cause]:
    causes = []
    new_source, old_source = _source_of(spec), _source_of(old)
    if not same(new_source, old_source):
        why = "spec.persistentvolumesource is immutable after creation\n" + difference(new_source, old_source, "spec")
        causes.append(forbidden_field("spec.persistentvolumesource", why))
    return causes + immutable(spec, old, "", "volumeMode")
