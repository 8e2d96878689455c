"""APIService of apiregistration.k8s.io/v1: defaults, validation, strategy and printer columns. Pure.

Clients look for the kind in discovery. Shoal serves its own APIs without APIServices and does not aggregate other
servers, so all APIServices are local.
"""

from __future__ import annotations

from shoal.kinds.admissionregistration.webhook_client import decode_ca_bundle
from shoal.kinds.column import AGE, Column
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.field import PORT_RANGE, Object, ensure_map, invalid_causes, set_defaults, validate_enum
from shoal.objects.conditions import get_condition
from shoal.objects.errors import Cause, forbidden_field, invalid_value, required_value
from shoal.objects.names import NameRule, is_dns1035_label, is_dns1123_subdomain, is_path_segment_name

_PRIORITIES = (("groupPriorityMinimum", 20000), ("versionPriority", 1000))


def default_api_service(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(spec, groupPriorityMinimum=0, versionPriority=0)
    if spec.get("service") is not None:
        set_defaults(spec["service"], port=443)
    ensure_map(obj, "status")


def prepare_api_service_create(obj: Object) -> None:
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
    detail = f'must be `spec.version+"."+spec.group`: "{expected}"'

    def rule(name: str) -> list[str]:
        return is_path_segment_name(name) or ([] if name == expected else [detail])

    return rule


def validate_api_service(obj: Object, old: Object | None) -> list[Cause]:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    causes = invalid_causes("metadata.name", name, name_rule(obj)(name)) if old is not None else []
    group, version = spec.get("group") or "", spec.get("version") or ""
    if group:
        causes += invalid_causes("spec.group", group, is_dns1123_subdomain(group))
    elif version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        causes.append(required_value("spec.group", detail))
    causes += invalid_causes("spec.version", version, is_dns1035_label(version))
    for field, maximum in _PRIORITIES:
        if not 0 < spec[field] <= maximum:
            causes.append(invalid_value(f"spec.{field}", spec[field], f"must be positive and less than {maximum}"))
    aggregated = spec.get("service") is not None
    causes += _validate_aggregated(spec) if aggregated else _validate_local(spec)
    for i, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        path = f"status.conditions[{i}].status"
        causes += validate_enum(condition.get("status") or "", path, "True", "False", "Unknown")
    if aggregated and not causes:
        return [forbidden_field("spec.service", "aggregated API servers are not supported")]
    return causes


def _validate_local(spec: Object) -> list[Cause]:
    causes, ca_bundle = [], decode_ca_bundle(spec.get("caBundle"))
    if ca_bundle:
        detail = "local APIServices may not have a caBundle"
        causes.append(invalid_value("spec.caBundle", f"{len(ca_bundle)} bytes", detail))
    if spec.get("insecureSkipTLSVerify"):
        detail = "local APIServices may not have insecureSkipTLSVerify"
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, detail))
    return causes


def _validate_aggregated(spec: Object) -> list[Cause]:
    """Reports upstream's own errors first, before aggregation is refused."""
    service = spec["service"]
    causes = [required_value(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    if not 1 <= service["port"] <= 65535:
        detail = f"port is not valid: {PORT_RANGE}"
        causes.append(invalid_value("spec.service.port", service["port"], detail))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        detail = "may not be true if caBundle is present"
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, detail))
    return causes


def _api_server(obj: Object, now: float) -> object:
    service = obj["spec"].get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(obj: Object, now: float) -> object:
    condition = get_condition(obj, "Available") or {"status": "Unknown"}
    reason = condition.get("reason")
    return f"{condition['status']} ({reason})" if reason and condition["status"] != "True" else condition["status"]


STRATEGIES: dict[str, Strategy] = {
    "apiservices.apiregistration.k8s.io": Strategy(
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        name_rule_for=name_rule,
        default=default_api_service,
        prepare_for_create=prepare_api_service_create,
        validate=validate_api_service,
    ),
}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "apiservices.apiregistration.k8s.io": (
        Column("Service", cell=_api_server),
        Column("Available", cell=_available),
        AGE,
    ),
}
