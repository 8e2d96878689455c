"""DeviceClass, ResourceClaim and ResourceClaimTemplate of resource.k8s.io/v1: defaults and validation. Pure.

ResourceSlices are in `resourceslice`, device requests in `requests`. CEL selectors are compiled but not evaluated:
allocating devices is the scheduler's work.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import IMMUTABLE, Object, section
from shoal.kinds.resource_names import checked
from shoal.kinds.resource_requests import MOST, validate_configuration, validate_devices, validate_selectors
from shoal.kinds.resource_status import validate_status
from shoal.kinds.resources import canonical_alone, is_extended
from shoal.objects.errors import Cause, forbidden_field, invalid_value
from shoal.objects.names import validate_annotations, validate_labels

_NOT_IN_TEMPLATES = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip
"""Metadata fields forbidden in a claim template, in the order in which they are reported."""
_TOLD = {"uid": "uID"}


def default_class(obj: Object) -> None:
    section(obj, "spec")


def default_claim(obj: Object) -> None:
    _default_requests(section(obj, "spec"))
    status = section(obj, "status")
    if status.get("allocation") is not None:
        for result in section(status["allocation"], "devices").get("results") or ():
            _default_wanted(result, "consumedCapacity")
    for device in status.get("devices") or ():
        device.setdefault("conditions", None)


def default_claim_template(obj: Object) -> None:
    spec = section(obj, "spec")
    section(spec, "metadata")
    _default_requests(section(spec, "spec"))


def _default_requests(spec: Object) -> None:
    for request in section(spec, "devices").setdefault("requests", None) or ():
        for wanted in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if wanted is not None:
                wanted["allocationMode"] = wanted.get("allocationMode") or "ExactCount"
                if wanted["allocationMode"] == "ExactCount" and not wanted.get("count"):
                    wanted["count"] = 1
                _default_wanted(wanted)
                _default_wanted(wanted.get("capacity") or {}, "requests")


def _default_wanted(holder: Object, amounts: str = "") -> None:
    for toleration in holder.get("tolerations") or ():
        toleration["operator"] = toleration.get("operator") or "Equal"
    held: dict[str, Any] = holder.get(amounts) or {}
    for name, value in held.items():
        held[name] = canonical_alone(value)


def settle_claim(obj: Object, old: Object | None = None) -> None:
    """Stores empty requests as null, after field ownership is recorded."""
    _settle(obj["spec"])


def settle_claim_template(obj: Object, old: Object | None = None) -> None:
    _settle(obj["spec"]["spec"])


def _settle(spec: Object) -> None:
    spec["devices"]["requests"] = spec["devices"]["requests"] or None


def validate_class(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = validate_selectors(spec.get("selectors"), "spec.selectors")
    causes += checked(spec.get("config"), MOST, validate_configuration, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        causes.append(invalid_value("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return causes


def validate_claim(obj: Object, old: Object | None) -> list[Cause]:
    if old is None:
        return validate_devices(obj["spec"]["devices"], "spec.devices")
    causes = _fixed(obj, old)
    return causes if obj.get("status") == old.get("status") else causes + validate_status(obj, old)


def validate_claim_template(obj: Object, old: Object | None) -> list[Cause]:
    metadata = obj["spec"]["metadata"]
    causes = validate_annotations(metadata.get("annotations") or {}, "spec.metadata.annotations")
    causes += validate_labels(metadata.get("labels"), "spec.metadata.labels")
    causes += [
        forbidden_field(f"spec.metadata.{_TOLD.get(field, field)}", "cannot be set")
        for field in _NOT_IN_TEMPLATES
        if metadata.get(field) is not None
    ]
    causes += validate_devices(obj["spec"]["spec"]["devices"], "spec.spec.devices")
    return causes if old is None else causes + _fixed(obj, old)


def _fixed(obj: Object, old: Object) -> list[Cause]:
    return [] if obj["spec"] == old["spec"] else [invalid_value("spec", obj["spec"], IMMUTABLE)]
