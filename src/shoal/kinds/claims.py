"""PersistentVolumeClaims and their templates: defaults, validation and warnings in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import IMMUTABLE, immutable, label_selector, one_of, said, section
from shoal.kinds.differences import difference, same
from shoal.kinds.pod_defaults import default_claim_spec
from shoal.kinds.pod_volume_warnings import claim_warnings
from shoal.kinds.resources import amount, default_list
from shoal.kinds.volumes import CLASS_ANNOTATION, access_modes, class_name, class_of, old_annotations, requested_storage
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name
from shoal.objects.quantity import ZERO

Object = dict[str, Any]

_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def default_claim(obj: Object) -> None:
    default_claim_spec(section(obj, "spec"))
    status = section(obj, "status")
    if not status.get("phase"):
        status["phase"] = "Pending"
    default_list(status, "capacity")
    default_list(status, "allocatedResources")


def _same_source(spec: Object, old: Object) -> None:
    """Keeps `dataSource` and `dataSourceRef` equal. A dataSource of a kind that only dataSourceRef may name is
    dropped.
    """
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference and reference.get("namespace") and not old.get("dataSourceRef"):
        del spec["dataSourceRef"]
        reference = None
    in_use = old.get("dataSource") or old.get("dataSourceRef")
    if source and not reference and not in_use and (source.get("apiGroup") or "", source.get("kind")) not in _SOURCES:
        del spec["dataSource"]
    elif source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {field: value for field, value in reference.items() if field != "namespace"}


def grows(new: Object, old: Object) -> bool:
    """Reports whether a bound claim requests more storage. The size of an unbound claim cannot change."""
    if (old.get("status") or {}).get("phase") != "Bound":
        return False
    return amount(requested_storage(new)) > amount(requested_storage(old))


def create_claim(obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}
    _same_source(obj["spec"], {})


def update_claim(new: Object, old: Object) -> None:
    _same_source(new["spec"], old.get("spec") or {})


def validate_claim(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    if old is None:
        return validate_claim_spec(spec, "spec")
    causes: list[Cause] = []
    if obj.get("status") != old.get("status"):
        causes += _validate_status(obj["status"])
    if class_of(obj) != class_of(old):
        causes += _kept_annotation(obj, old)
    return causes if spec == old.get("spec") else validate_claim_spec(spec, "spec") + causes + _claim_update(obj, old)


def validate_claim_spec(spec: Object, path: str) -> list[Cause]:
    """Validates the spec of a claim or of a claim template."""
    modes = spec.get("accessModes") or []
    causes = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    causes += label_selector(spec.get("selector"), f"{path}.selector")
    causes += access_modes(modes, path)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        causes.append(required(f"{path}.resources[storage]"))
    elif amount(storage) <= ZERO:
        causes.append(invalid_value(f"{path}.resources[storage]", storage, "must be greater than zero"))
    causes += class_name(spec, path)
    causes += one_of(spec.get("volumeMode"), f"{path}.volumeMode", "Block", "Filesystem")
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field):
            causes += _data_source(spec[field], f"{path}.{field}")
    causes += _sources_match(spec, path)
    name = spec.get("volumeAttributesClassName")
    return causes + said(f"{path}.volumeAttributesClassName", name, is_dns1123_subdomain(name)) if name else causes


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


def _sources_match(spec: Object, path: str) -> list[Cause]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if not source or not reference:
        return []
    if reference.get("namespace"):
        why = "may not be specified when dataSourceRef.namespace is specified"
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        why = "must match dataSourceRef"
    else:
        return []
    # Upstream prints its field path as the value, which has no visible fields.
    return [invalid_value(path, {}, why)]


def _kept_annotation(obj: Object, old: Object) -> list[Cause]:
    """Checks that the storage class annotation is unchanged, unless the field replaces it."""
    new, before = ((each["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION) for each in (obj, old))
    if before is not None and new is None and before == obj["spec"].get("storageClassName"):
        return []
    same_one = (new or "") == (before or "")
    return [] if same_one else [invalid_value(f"metadata.annotations.{CLASS_ANNOTATION}", new or "", IMMUTABLE)]


_RESIZES = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible",
    "NodeResizePending",
)  # fmt: skip


def _validate_status(status: Object) -> list[Cause]:
    causes = _amounts(status.get("capacity") or {}, "status.capacity")
    path = "status.allocatedResourceStatuses"
    for name, value in (status.get("allocatedResourceStatuses") or {}).items():
        causes += _resource_key(name, path)
        if value not in _RESIZES:
            causes.append(not_supported(path, name, sorted(_RESIZES)))
    path, allocated = "status.allocatedResources", status.get("allocatedResources") or {}
    for name, value in allocated.items():
        causes += _resource_key(name, path) or _amounts({name: value}, path)
    return causes


def _amounts(resources: Object, path: str) -> list[Cause]:
    return [
        invalid_value(f"{path}[{name}]", amount(value).value(), "must be a valid resource quantity")
        for name, value in resources.items()
        if amount(value) < ZERO
    ]


def _resource_key(name: str, path: str) -> list[Cause]:
    causes = said(path, name, is_qualified_name(name))
    native = "/" not in name or "kubernetes.io/" in name
    return causes or ([not_supported(path, name, ["storage"])] if native and name != "storage" else [])


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
    # Upstream's path omits `spec`.
    causes += immutable(new_spec, old_spec, "", "volumeMode")
    name = (obj.get("spec") or {}).get("volumeAttributesClassName")
    if not name and (old.get("status") or {}).get("currentVolumeAttributesClassName") is not None:
        to = "nil" if name is None else "empty string"
        if name != (old.get("spec") or {}).get("volumeAttributesClassName"):
            why = f"update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
            causes.append(forbidden_field("spec.volumeAttributesClassName", why))
    return causes


def _storage(spec: Object) -> object:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _with_storage(spec: Object, size: object) -> Object:
    resources = spec.get("resources") or {}
    return {**resources, "requests": {**(resources.get("requests") or {}), "storage": size}}


def warn_claim(obj: Object, old: Object | None) -> list[str]:
    return old_annotations(obj, CLASS_ANNOTATION) + claim_warnings(obj["spec"], "spec")
