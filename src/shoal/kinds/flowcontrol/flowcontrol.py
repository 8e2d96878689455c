"""FlowSchema and PriorityLevelConfiguration of flowcontrol.apiserver.k8s.io/v1: defaults, validation, strategies and
printer columns. Pure.

Flow control itself is in the API server. The objects every cluster starts with are in `bootstrap`.
"""

from __future__ import annotations

from shoal.kinds.column import AGE, NONE, Column, field_cell, number_cell
from shoal.kinds.flowcontrol.bootstrap import mandatory_flow_schemas, mandatory_priority_levels
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.field import Object, ensure_map, invalid_causes, set_defaults, validate_enum
from shoal.objects.conditions import get_condition
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain

MAX_PRECEDENCE, DEFAULT_PRECEDENCE = 10_000, 1000
MAX_QUEUES = 10_000_000
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")


def default_flow_schema(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    ensure_map(spec, "priorityLevelConfiguration")
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or DEFAULT_PRECEDENCE
    ensure_map(obj, "status")


def default_priority_level(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    ensure_map(obj, "status")
    if spec.get("exempt") is not None:
        set_defaults(spec["exempt"], nominalConcurrencyShares=0, lendablePercent=0)
    limited = spec.get("limited")
    if limited is not None:
        set_defaults(limited, nominalConcurrencyShares=30, lendablePercent=0)
        queuing = ensure_map(limited, "limitResponse").get("queuing")
        if queuing is not None:
            for field, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                queuing[field] = queuing.get(field) or value


def validate_flow_schema(obj: Object, old: Object | None) -> list[Cause]:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    precedence = spec["matchingPrecedence"]
    causes = invalid_causes("spec.matchingPrecedence", precedence, _precedence_messages(precedence, name))
    method = spec.get("distinguisherMethod")
    if method is not None:
        causes += validate_enum(method.get("type", ""), "spec.distinguisherMethod.type", "ByNamespace", "ByUser")
    level, path = spec["priorityLevelConfiguration"].get("name") or "", "spec.priorityLevelConfiguration.name"
    causes += (
        invalid_causes(path, level, is_dns1123_subdomain(level))
        if level
        else [required_value(path, "must reference a priority level")]
    )
    for i, rule in enumerate(spec.get("rules") or ()):
        causes += _validate_rule(rule, f"spec.rules[{i}]")
    causes += _validate_mandatory_spec(mandatory_flow_schemas(), name, spec)
    return causes + _validate_conditions(obj)


def _precedence_messages(precedence: int, name: str) -> list[str]:
    complaints = []
    if precedence <= 0:
        complaints.append("must be a positive value")
    if precedence > MAX_PRECEDENCE:
        complaints.append(f"must not be greater than {MAX_PRECEDENCE}")
    if precedence == 1 and name != "exempt":
        complaints.append("only the schema named 'exempt' may have matchingPrecedence 1")
    return complaints


def _validate_rule(rule: Object, path: str) -> list[Cause]:
    subjects = rule.get("subjects") or []
    causes = [] if subjects else [required_value(f"{path}.subjects", "subjects must contain at least one value")]
    for i, subject in enumerate(subjects):
        causes += _validate_subject(subject, f"{path}.subjects[{i}]")
    resources, others = rule.get("resourceRules") or [], rule.get("nonResourceRules") or []
    if not resources and not others:
        causes.append(required_value(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for i, resource in enumerate(resources):
        causes += _validate_resource_rule(resource, f"{path}.resourceRules[{i}]")
    for i, other in enumerate(others):
        item_path = f"{path}.nonResourceRules[{i}]"
        causes += _validate_verbs(other, item_path)
        detail = "nonResourceURLs must contain at least one value"
        causes += _validate_wildcard_list(
            other.get("nonResourceURLs") or [], f"{item_path}.nonResourceURLs", detail, "non-resource URLs"
        )
    return causes


def _validate_subject(subject: Object, path: str) -> list[Cause]:
    fields = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
    kind = subject.get("kind") or ""
    if kind not in fields:
        return [not_supported(f"{path}.kind", kind, fields)]
    causes: list[Cause] = []
    for other, field in sorted(fields.items(), key=lambda item: item[0] != kind):
        subject_value = subject.get(field)
        if other == kind and subject_value is None:
            causes.append(required_value(f"{path}.{field}", f"{field} is required when subject kind is '{kind}'"))
        elif other == kind and not (subject_value or {}).get("name"):
            causes.append(required_value(f"{path}.{field}.name"))
        elif other != kind and subject_value is not None:
            detail = f"{field} is forbidden when subject kind is not '{other}'"
            causes.append(forbidden_field(f"{path}.{field}", detail))
    if kind == "ServiceAccount" and not (subject.get("serviceAccount") or {}).get("namespace"):
        causes.append(required_value(f"{path}.serviceAccount.namespace", "must specify namespace for service account"))
    return causes


def _validate_resource_rule(rule: Object, path: str) -> list[Cause]:
    causes = _validate_verbs(rule, path)
    groups, resources, namespaces = (rule.get(f) or [] for f in ("apiGroups", "resources", "namespaces"))
    causes += _validate_wildcard_list(
        groups, f"{path}.apiGroups", "resource rules must supply at least one api group", "api groups"
    )
    causes += _validate_wildcard_list(
        resources, f"{path}.resources", "resource rules must supply at least one resource", "resources"
    )
    if namespaces or not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        causes += _validate_wildcard_list(namespaces, f"{path}.namespaces", detail, "namespaces")
    for i, namespace in enumerate(namespaces if "*" not in namespaces else ()):
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        causes += invalid_causes(
            f"{path}.namespaces[{i}]", namespace, (intro + text for text in is_dns1123_label(namespace))
        )
    return causes


def _validate_verbs(rule: Object, path: str) -> list[Cause]:
    verbs = rule.get("verbs") or []
    causes = _validate_wildcard_list(verbs, f"{path}.verbs", "verbs must contain at least one value", "verbs")
    if "*" not in verbs and not set(verbs) <= set(_VERBS):
        causes.append(not_supported(f"{path}.verbs", verbs, _VERBS))
    return causes


def _validate_wildcard_list(values: list[str], path: str, missing: str, what: str) -> list[Cause]:
    if not values:
        return [required_value(path, missing)]
    if len(values) > 1 and "*" in values:
        return [invalid_value(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def validate_priority_level(obj: Object, old: Object | None) -> list[Cause]:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    kind, limited = spec.get("type") or "", spec.get("limited")
    causes: list[Cause] = []
    if (name == "exempt") != (kind == "Exempt"):
        causes.append(invalid_value("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == "Exempt" and limited is not None:
        causes.append(forbidden_field("spec.limited", "must be nil if the type is not Limited"))
    elif kind == "Limited":
        if spec.get("exempt") is not None:
            causes.append(forbidden_field("spec.exempt", "must be nil if the type is Limited"))
        missing = required_value("spec.limited", "must not be empty when type is Limited")
        causes += [missing] if limited is None else _validate_limited(limited)
    elif kind != "Exempt":
        causes.append(not_supported("spec.type", kind, ("Exempt", "Limited")) if kind else required_value("spec.type"))
    causes += _validate_mandatory_spec(mandatory_priority_levels(), name, spec)
    return causes + _validate_conditions(obj)


def _validate_limited(limited_spec: Object) -> list[Cause]:
    path, causes = "spec.limited", []
    shares, lendable = limited_spec["nominalConcurrencyShares"], limited_spec["lendablePercent"]
    borrowing = limited_spec.get("borrowingLimitPercent")
    if shares < 0:
        causes.append(invalid_value(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))
    if not 0 <= lendable <= 100:
        causes.append(invalid_value(f"{path}.lendablePercent", lendable, "must be between 0 and 100, inclusive"))
    if borrowing is not None and borrowing < 0:
        detail = "if specified, must be a non-negative integer"
        causes.append(invalid_value(f"{path}.borrowingLimitPercent", borrowing, detail))
    return causes + _validate_response(limited_spec.get("limitResponse") or {}, f"{path}.limitResponse")


def _validate_response(response: Object, path: str) -> list[Cause]:
    kind, queuing = response.get("type") or "", response.get("queuing")
    if kind not in ("Queue", "Reject"):
        return [not_supported(f"{path}.type", kind, ("Queue", "Reject")) if kind else required_value(f"{path}.type")]
    if kind == "Reject":
        detail = "must be nil if limited.limitResponse.type is not Limited"
        return [forbidden_field(f"{path}.queuing", detail)] if queuing is not None else []
    if queuing is None:
        return [required_value(f"{path}.queuing", "must not be empty if limited.limitResponse.type is Limited")]
    causes = [
        invalid_value(f"{path}.queuing.{field}", queuing[field], "must be positive")
        for field in ("queueLengthLimit", "queues", "handSize")
        if queuing[field] <= 0
    ]
    if queuing["queues"] > MAX_QUEUES:
        causes.append(
            invalid_value(f"{path}.queuing.queues", queuing["queues"], f"must not be greater than {MAX_QUEUES}")
        )
    if queuing["handSize"] > queuing["queues"] > 0:
        detail = f"should not be greater than queues ({queuing['queues']})"
        causes.append(invalid_value(f"{path}.queuing.handSize", queuing["handSize"], detail))
    return causes


def _validate_conditions(obj: Object) -> list[Cause]:
    causes, seen = [], set()
    for i, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        kind, path = condition.get("type") or "", f"status.conditions[{i}].type"
        if kind in seen:
            causes.append(duplicate(path, kind))
        seen.add(kind)
        if not kind:
            causes.append(required_value(path))
    return causes


def _validate_mandatory_spec(mandatory_objects: list[Object], name: str, spec: Object) -> list[Cause]:
    for mandatory in mandatory_objects:
        if mandatory["metadata"]["name"] == name:
            free = "exempt" if mandatory["kind"] == "PriorityLevelConfiguration" and name == "exempt" else ""
            if any(
                spec.get(k) != mandatory["spec"].get(k) for k in spec.keys() | mandatory["spec"].keys() if k != free
            ):
                but = " except the 'spec.exempt' field" if free else ""
                return [invalid_value("spec", spec, f"spec of '{name}'{but} must equal the fixed value")]
    return []


def _is_dangling(obj: Object, now: float) -> object:
    condition = get_condition(obj, "Dangling")
    return "?" if condition is None else condition.get("status", "")


STRATEGIES: dict[str, Strategy] = {
    "flowschemas.flowcontrol.apiserver.k8s.io": Strategy(
        tracks_generation=True, default=default_flow_schema, validate=validate_flow_schema
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": Strategy(
        tracks_generation=True, default=default_priority_level, validate=validate_priority_level
    ),
}

_QUEUING = ("spec", "limited", "limitResponse", "queuing")

COLUMNS: dict[str, tuple[Column, ...]] = {
    "flowschemas.flowcontrol.apiserver.k8s.io": (
        Column("PriorityLevel", cell=field_cell("spec", "priorityLevelConfiguration", "name")),
        Column("MatchingPrecedence", cell=number_cell("spec", "matchingPrecedence")),
        Column("DistinguisherMethod", cell=field_cell("spec", "distinguisherMethod", "type", otherwise=NONE)),
        AGE,
        Column("MissingPL", cell=_is_dangling),
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (
        Column("Type", cell=field_cell("spec", "type")),
        Column(
            "NominalConcurrencyShares", cell=field_cell("spec", "limited", "nominalConcurrencyShares", otherwise=NONE)
        ),
        Column("Queues", cell=field_cell(*_QUEUING, "queues", otherwise=NONE)),
        Column("HandSize", cell=field_cell(*_QUEUING, "handSize", otherwise=NONE)),
        Column("QueueLengthLimit", cell=field_cell(*_QUEUING, "queueLengthLimit", otherwise=NONE)),
        AGE,
    ),
}
