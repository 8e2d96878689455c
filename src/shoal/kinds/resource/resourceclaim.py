"""DeviceClass, ResourceClaim and ResourceClaimTemplate of resource.k8s.io/v1: defaults and validation. Pure.

ResourceSlices are in `resourceslice`, device requests in `requests`. CEL selectors are compiled but not evaluated:
allocating devices is the scheduler's work.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.resource.claim_status import validate_claim_status
from shoal.kinds.resource.names import validate_list
from shoal.kinds.resource.requests import MAX_DEVICE_ITEMS, validate_configuration, validate_devices, validate_selectors
from shoal.kinds.validation.field import IMMUTABLE, Object, ensure_map
from shoal.kinds.validation.resource_list import exact_quantity, is_extended_resource
from shoal.objects.errors import Cause, forbidden_field, invalid_value
from shoal.objects.names import validate_annotations, validate_labels

_FORBIDDEN_TEMPLATE_METADATA = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip
"""Metadata fields forbidden in a claim template, in the order in which they are reported."""
_PRINTED_FIELDS = {"uid": "uID"}


def default_device_class(obj: Object) -> None:
    ensure_map(obj, "spec")


def default_claim(obj: Object) -> None:
    _default_requests(ensure_map(obj, "spec"))
    status = ensure_map(obj, "status")
    if status.get("allocation") is not None:
        for result in ensure_map(status["allocation"], "devices").get("results") or ():
            _default_device_request(result, "consumedCapacity")
    for device in status.get("devices") or ():
        device.setdefault("conditions", None)


def default_claim_template(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    ensure_map(spec, "metadata")
    _default_requests(ensure_map(spec, "spec"))


def _default_requests(spec: Object) -> None:
    for request in ensure_map(spec, "devices").setdefault("requests", None) or ():
        for device_request in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if device_request is not None:
                device_request["allocationMode"] = device_request.get("allocationMode") or "ExactCount"
                if device_request["allocationMode"] == "ExactCount" and not device_request.get("count"):
                    device_request["count"] = 1
                _default_device_request(device_request)
                _default_device_request(device_request.get("capacity") or {}, "requests")


def _default_device_request(holder: Object, quantities_field: str = "") -> None:
    for toleration in holder.get("tolerations") or ():
        toleration["operator"] = toleration.get("operator") or "Equal"
    quantities: dict[str, Any] = holder.get(quantities_field) or {}
    for name, value in quantities.items():
        quantities[name] = exact_quantity(value)


def canonicalize_claim(obj: Object, old: Object | None = None) -> None:
    """Stores empty requests as null, after field ownership is recorded."""
    _canonicalize_requests(obj["spec"])


def canonicalize_claim_template(obj: Object, old: Object | None = None) -> None:
    _canonicalize_requests(obj["spec"]["spec"])


def _canonicalize_requests(spec: Object) -> None:
    spec["devices"]["requests"] = spec["devices"]["requests"] or None


def validate_device_class(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = validate_selectors(spec.get("selectors"), "spec.selectors")
    causes += validate_list(spec.get("config"), MAX_DEVICE_ITEMS, validate_configuration, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource(name):
        causes.append(invalid_value("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return causes


def validate_claim(obj: Object, old: Object | None) -> list[Cause]:
    if old is None:
        return validate_devices(obj["spec"]["devices"], "spec.devices")
    causes = _validate_spec_unchanged(obj, old)
    return causes if obj.get("status") == old.get("status") else causes + validate_claim_status(obj, old)


def validate_claim_template(obj: Object, old: Object | None) -> list[Cause]:
    metadata = obj["spec"]["metadata"]
    causes = validate_annotations(metadata.get("annotations") or {}, "spec.metadata.annotations")
    causes += validate_labels(metadata.get("labels"), "spec.metadata.labels")
    causes += [
        forbidden_field(f"spec.metadata.{_PRINTED_FIELDS.get(field, field)}", "cannot be set")
        for field in _FORBIDDEN_TEMPLATE_METADATA
        if metadata.get(field) is not None
    ]
    causes += validate_devices(obj["spec"]["spec"]["devices"], "spec.spec.devices")
    return causes if old is None else causes + _validate_spec_unchanged(obj, old)


def _validate_spec_unchanged(obj: Object, old: Object) -> list[Cause]:
    return [] if obj["spec"] == old["spec"] else [invalid_value("spec", obj["spec"], IMMUTABLE)]
