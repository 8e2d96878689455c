"""APIService of apiregistration.k8s.io/v1: defaults and validation. Pure.

Clients look for the kind in discovery. Shoal serves its own APIs without APIServices and does not aggregate other
servers, so all APIServices are local.
"""

from __future__ import annotations

from shoal.kinds.checks import PORT_RANGE, Object, fill, one_of, said, section
from shoal.kinds.webhooks import decoded
from shoal.objects.errors import Cause, forbidden_field, invalid_value, required
from shoal.objects.names import NameRule, is_dns1035_label, is_dns1123_subdomain, is_path_segment_name

_PRIORITIES = (("groupPriorityMinimum", 20000), ("versionPriority", 1000))


def default_api_service(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(spec, groupPriorityMinimum=0, versionPriority=0)
    if spec.get("service") is not None:
        fill(spec["service"], port=443)
    section(obj, "status")


def create_api_service(obj: Object) -> None:
    """Sets the condition Available: a local APIService is available at once."""
    obj["status"] = {
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
        ]
    }


def name_rule(obj: Object) -> NameRule:
    """Returns the name rule: the name is `spec.version.spec.group`."""
    expected = f"{obj['spec'].get('version') or ''}.{obj['spec'].get('group') or ''}"
    told = f'must be `spec.version+"."+spec.group`: "{expected}"'

    def rule(name: str) -> list[str]:
        return is_path_segment_name(name) or ([] if name == expected else [told])

    return rule


def validate_api_service(obj: Object, old: Object | None) -> list[Cause]:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    causes = said("metadata.name", name, name_rule(obj)(name)) if old is not None else []
    group, version = spec.get("group") or "", spec.get("version") or ""
    if group:
        causes += said("spec.group", group, is_dns1123_subdomain(group))
    elif version != "v1":
        told = "only v1 may have an empty group and it better be legacy kube"
        causes.append(required("spec.group", told))
    causes += said("spec.version", version, is_dns1035_label(version))
    for field, most in _PRIORITIES:
        if not 0 < spec[field] <= most:
            causes.append(invalid_value(f"spec.{field}", spec[field], f"must be positive and less than {most}"))
    aggregated = spec.get("service") is not None
    causes += _aggregated(spec) if aggregated else _local(spec)
    for i, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        path = f"status.conditions[{i}].status"
        causes += one_of(condition.get("status") or "", path, "True", "False", "Unknown")
    if aggregated and not causes:
        return [forbidden_field("spec.service", "aggregated API servers are not supported")]
    return causes


def _local(spec: Object) -> list[Cause]:
    causes, authority = [], decoded(spec.get("caBundle"))
    if authority:
        told = "local APIServices may not have a caBundle"
        causes.append(invalid_value("spec.caBundle", f"{len(authority)} bytes", told))
    if spec.get("insecureSkipTLSVerify"):
        told = "local APIServices may not have insecureSkipTLSVerify"
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, told))
    return causes


def _aggregated(spec: Object) -> list[Cause]:
    """Reports upstream's own errors first, before aggregation is refused."""
    service = spec["service"]
    causes = [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    if not 1 <= service["port"] <= 65535:
        told = f"port is not valid: {PORT_RANGE}"
        causes.append(invalid_value("spec.service.port", service["port"], told))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        told = "may not be true if caBundle is present"
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, told))
    return causes
