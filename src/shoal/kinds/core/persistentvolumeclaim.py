"""PersistentVolumeClaims and their templates: defaults, validation and warnings in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.persistentvolume import (
    STORAGE_CLASS_ANNOTATION,
    deprecated_annotation_warnings,
    requested_storage,
    storage_class_of,
    validate_access_modes,
    validate_storage_class_name,
)
from shoal.kinds.core.pod_defaults import default_claim_spec
from shoal.kinds.core.volume_warnings import claim_warnings
from shoal.kinds.validation.diff import diff, semantic_equal
from shoal.kinds.validation.field import (
    IMMUTABLE,
    ensure_map,
    invalid_causes,
    validate_enum,
    validate_immutable,
    validate_label_selector,
)
from shoal.kinds.validation.resource_list import normalize_resource_list, quantity_of
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name
from shoal.objects.quantity import ZERO

Object = dict[str, Any]

_IMMUTABLE_SPEC = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
)
_DATA_SOURCE_KINDS = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def default_claim(obj: Object) -> None:
    default_claim_spec(ensure_map(obj, "spec"))
    status = ensure_map(obj, "status")
    if not status.get("phase"):
        status["phase"] = "Pending"
    normalize_resource_list(status, "capacity")
    normalize_resource_list(status, "allocatedResources")


def _sync_data_sources(spec: Object, old: Object) -> None:
    """Keeps `dataSource` and `dataSourceRef` equal. A dataSource of a kind that only dataSourceRef may name is
    dropped.
    """
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference and reference.get("namespace") and not old.get("dataSourceRef"):
        del spec["dataSourceRef"]
        reference = None
    in_use = old.get("dataSource") or old.get("dataSourceRef")
    if (
        source
        and not reference
        and not in_use
        and (source.get("apiGroup") or "", source.get("kind")) not in _DATA_SOURCE_KINDS
    ):
        del spec["dataSource"]
    elif source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {field: value for field, value in reference.items() if field != "namespace"}


def is_expanded(new: Object, old: Object) -> bool:
    """Reports whether a bound claim requests more storage. The size of an unbound claim cannot change."""
    if (old.get("status") or {}).get("phase") != "Bound":
        return False
    return quantity_of(requested_storage(new)) > quantity_of(requested_storage(old))


def prepare_claim_create(obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}
    _sync_data_sources(obj["spec"], {})


def prepare_claim_update(new: Object, old: Object) -> None:
    _sync_data_sources(new["spec"], old.get("spec") or {})


def validate_claim(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    if old is None:
        return validate_claim_spec(spec, "spec")
    causes: list[Cause] = []
    if obj.get("status") != old.get("status"):
        causes += _validate_status(obj["status"])
    if storage_class_of(obj) != storage_class_of(old):
        causes += _validate_class_annotation(obj, old)
    return (
        causes
        if spec == old.get("spec")
        else validate_claim_spec(spec, "spec") + causes + _validate_claim_update(obj, old)
    )


def validate_claim_spec(spec: Object, path: str) -> list[Cause]:
    """Validates the spec of a claim or of a claim template."""
    modes = spec.get("accessModes") or []
    causes = [] if modes else [required_value(f"{path}.accessModes", "at least 1 access mode is required")]
    causes += validate_label_selector(spec.get("selector"), f"{path}.selector")
    causes += validate_access_modes(modes, path)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        causes.append(required_value(f"{path}.resources[storage]"))
    elif quantity_of(storage) <= ZERO:
        causes.append(invalid_value(f"{path}.resources[storage]", storage, "must be greater than zero"))
    causes += validate_storage_class_name(spec, path)
    causes += validate_enum(spec.get("volumeMode"), f"{path}.volumeMode", "Block", "Filesystem")
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field):
            causes += _validate_data_source(spec[field], f"{path}.{field}")
    causes += _validate_sources_match(spec, path)
    name = spec.get("volumeAttributesClassName")
    return (
        causes + invalid_causes(f"{path}.volumeAttributesClassName", name, is_dns1123_subdomain(name))
        if name
        else causes
    )


def _validate_data_source(source: Object, path: str) -> list[Cause]:
    causes = [required_value(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup"), source.get("kind") or ""
    if group:
        causes += invalid_causes(f"{path}.apiGroup", group, is_dns1123_subdomain(group))
    elif kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        causes.append(invalid_value(path, kind, detail))
    if source.get("namespace"):
        causes += invalid_causes(f"{path}.namespace", source["namespace"], is_dns1123_label(source["namespace"]))
    return causes


def _validate_sources_match(spec: Object, path: str) -> list[Cause]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if not source or not reference:
        return []
    if reference.get("namespace"):
        detail = "may not be specified when dataSourceRef.namespace is specified"
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        detail = "must match dataSourceRef"
    else:
        return []
    # Upstream prints its field path as the value, which has no visible fields.
    return [invalid_value(path, {}, detail)]


def _validate_class_annotation(obj: Object, old: Object) -> list[Cause]:
    """Checks that the storage class annotation is unchanged, unless the field replaces it."""
    new, before = ((each["metadata"].get("annotations") or {}).get(STORAGE_CLASS_ANNOTATION) for each in (obj, old))
    if before is not None and new is None and before == obj["spec"].get("storageClassName"):
        return []
    same_one = (new or "") == (before or "")
    return [] if same_one else [invalid_value(f"metadata.annotations.{STORAGE_CLASS_ANNOTATION}", new or "", IMMUTABLE)]


_RESIZE_STATUSES = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible",
    "NodeResizePending",
)  # fmt: skip


def _validate_status(status: Object) -> list[Cause]:
    causes = _validate_quantities(status.get("capacity") or {}, "status.capacity")
    path = "status.allocatedResourceStatuses"
    for name, value in (status.get("allocatedResourceStatuses") or {}).items():
        causes += _validate_resource_key(name, path)
        if value not in _RESIZE_STATUSES:
            causes.append(not_supported(path, name, sorted(_RESIZE_STATUSES)))
    path, allocated = "status.allocatedResources", status.get("allocatedResources") or {}
    for name, value in allocated.items():
        causes += _validate_resource_key(name, path) or _validate_quantities({name: value}, path)
    return causes


def _validate_quantities(resources: Object, path: str) -> list[Cause]:
    return [
        invalid_value(f"{path}[{name}]", quantity_of(value).value(), "must be a valid resource quantity")
        for name, value in resources.items()
        if quantity_of(value) < ZERO
    ]


def _validate_resource_key(name: str, path: str) -> list[Cause]:
    causes = invalid_causes(path, name, is_qualified_name(name))
    native = "/" not in name or "kubernetes.io/" in name
    return causes or ([not_supported(path, name, ["storage"])] if native and name != "storage" else [])


def _validate_claim_update(obj: Object, old: Object) -> list[Cause]:
    new_spec, old_spec = dict(obj["spec"]), dict(old.get("spec") or {})
    if not old_spec.get("volumeName"):
        old_spec["volumeName"] = new_spec.get("volumeName")
    if old_spec.get("storageClassName") is None and new_spec.get("storageClassName") is not None:
        annotations = old["metadata"].get("annotations") or {}
        if annotations.get(STORAGE_CLASS_ANNOTATION, new_spec["storageClassName"]) == new_spec["storageClassName"]:
            old_spec["storageClassName"] = new_spec["storageClassName"]
    new_size, old_size = _requested_storage(new_spec), _requested_storage(old_spec)
    if (obj.get("status") or {}).get("phase") == "Bound":
        new_spec["resources"] = _with_storage(new_spec, old_size)
        new_spec["volumeAttributesClassName"] = old_spec.get("volumeAttributesClassName")
    causes = []
    if not semantic_equal(new_spec, old_spec):
        causes.append(forbidden_field("spec", _IMMUTABLE_SPEC + diff(new_spec, old_spec, "spec")))
    if quantity_of(new_size) < quantity_of(old_size):
        capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage")
        if quantity_of(new_size) <= quantity_of(capacity):
            detail = "field can not be less than status.capacity"
            causes.append(forbidden_field("spec.resources.requests.storage", detail))
    # Upstream's path omits `spec`.
    causes += validate_immutable(new_spec, old_spec, "", "volumeMode")
    name = (obj.get("spec") or {}).get("volumeAttributesClassName")
    if not name and (old.get("status") or {}).get("currentVolumeAttributesClassName") is not None:
        new_value = "nil" if name is None else "empty string"
        if name != (old.get("spec") or {}).get("volumeAttributesClassName"):
            detail = f"update to {new_value} is forbidden when status.currentVolumeAttributesClassName is not nil"
            causes.append(forbidden_field("spec.volumeAttributesClassName", detail))
    return causes


def _requested_storage(spec: Object) -> object:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _with_storage(spec: Object, size: object) -> Object:
    resources = spec.get("resources") or {}
    return {**resources, "requests": {**(resources.get("requests") or {}), "storage": size}}


def warn_claim(obj: Object, old: Object | None) -> list[str]:
    return deprecated_annotation_warnings(obj, STORAGE_CLASS_ANNOTATION) + claim_warnings(obj["spec"], "spec")
