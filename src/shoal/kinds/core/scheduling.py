"""Validation of scheduling constraints: affinity, node selectors, tolerations, taints, topology spread. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.validation.field import invalid_causes, validate_enum, validate_label_selector
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name, is_valid_label_value

Object = dict[str, Any]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_INVALID_OPERATOR = "not a valid selector operator"
_MATCH_ALL_OPERATOR = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def validate_affinity(affinity: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    if node.get(REQUIRED) is not None:
        causes += validate_node_selector(node[REQUIRED], f"{path}.nodeAffinity.{REQUIRED}")
    for i, term in enumerate(node.get(PREFERRED) or ()):
        item_path = f"{path}.nodeAffinity.{PREFERRED}[{i}]"
        causes += _validate_weight(term, item_path) + _validate_node_term(
            term.get("preference") or {}, f"{item_path}.preference", validate_values=False
        )
    for field in ("podAffinity", "podAntiAffinity"):
        pod = affinity.get(field) or {}
        for i, term in enumerate(pod.get(REQUIRED) or ()):
            causes += _validate_pod_affinity_term(term, f"{path}.{field}.{REQUIRED}[{i}]")
        for i, term in enumerate(pod.get(PREFERRED) or ()):
            item_path = f"{path}.{field}.{PREFERRED}[{i}]"
            causes += _validate_weight(term, item_path) + _validate_pod_affinity_term(
                term.get("podAffinityTerm") or {}, f"{item_path}.podAffinityTerm"
            )
    return causes


def _validate_weight(term: Object, path: str) -> list[Cause]:
    weight = term.get("weight", 0)
    return [] if 0 < weight <= 100 else [invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]


def validate_node_selector(selector: Object, path: str) -> list[Cause]:
    """Validates a `NodeSelector` of a pod's affinity or of a PersistentVolume."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required_value(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        c
        for i, t in enumerate(terms)
        for c in _validate_node_term(t, f"{path}.nodeSelectorTerms[{i}]", validate_values=True)
    ]


def _validate_node_term(term: Object, path: str, *, validate_values: bool) -> list[Cause]:
    causes: list[Cause] = []
    for i, requirement in enumerate(term.get("matchExpressions") or ()):
        causes += _validate_node_requirement(
            requirement, f"{path}.matchExpressions[{i}]", validate_values=validate_values
        )
    for i, requirement in enumerate(term.get("matchFields") or ()):
        causes += _validate_node_field_requirement(requirement, f"{path}.matchFields[{i}]")
    return causes


def _validate_node_requirement(requirement: Object, path: str, *, validate_values: bool) -> list[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required_value(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden_field(f"{path}.values", detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            causes.append(
                required_value(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
            )
    else:
        causes.append(invalid_value(f"{path}.operator", operator, _INVALID_OPERATOR))
    key = requirement.get("key", "")
    causes += invalid_causes(f"{path}.key", key, is_qualified_name(key))
    if validate_values:
        causes += [
            c for i, v in enumerate(values) for c in invalid_causes(f"{path}.values[{i}]", v, is_valid_label_value(v))
        ]
    return causes


def _validate_node_field_requirement(requirement: Object, path: str) -> list[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    causes: list[Cause] = []
    if operator not in ("In", "NotIn"):
        causes.append(invalid_value(f"{path}.operator", operator, _INVALID_OPERATOR))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required_value(f"{path}.values", detail))
    key = requirement.get("key", "")
    if key != "metadata.name":
        return [*causes, invalid_value(f"{path}.key", key, "not a valid field selector key")]
    return causes + [
        c for i, v in enumerate(values) for c in invalid_causes(f"{path}.values[{i}]", v, is_dns1123_subdomain(v))
    ]


def _validate_pod_affinity_term(term: Object, path: str) -> list[Cause]:
    causes = validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    causes += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        causes += invalid_causes(f"{path}.namespace", name, is_dns1123_label(name))
    key = term.get("topologyKey") or ""
    if not key:
        causes.append(required_value(f"{path}.topologyKey", "can not be empty"))
    return causes + invalid_causes(f"{path}.topologyKey", key, is_qualified_name(key))


def validate_tolerations(tolerations: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, toleration in enumerate(tolerations):
        item_path = f"{path}[{i}]"
        key, operator, effect = (toleration.get(field) or "" for field in ("key", "operator", "effect"))
        if key:
            causes += invalid_causes(f"{item_path}.key", key, is_qualified_name(key))
        elif operator != "Exists":
            causes.append(invalid_value(f"{item_path}.operator", operator, _MATCH_ALL_OPERATOR))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid_value(f"{item_path}.effect", effect, detail))
        causes += _validate_toleration_operator(operator, toleration.get("value") or "", f"{item_path}.operator")
        if effect:
            causes += validate_enum(effect, f"{item_path}.effect", *EFFECTS)
    return causes


def _validate_toleration_operator(operator: str, value: str, path: str) -> list[Cause]:
    if operator in ("", "Equal"):
        messages = is_valid_label_value(value)
        return [invalid_value(path, value, ";".join(messages))] if messages else []
    if operator == "Exists":
        return [invalid_value(path, value, "value must be empty when `operator` is 'Exists'")] if value else []
    operators = ["Equal", "Exists", "Lt", "Gt"] if operator in ("Lt", "Gt") else ["Equal", "Exists"]
    return [not_supported(path, operator, operators)]


def validate_taints(taints: list[Object], path: str) -> list[Cause]:
    """Validates the taints of a node."""
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        item_path = f"{path}[{i}]"
        key, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
        causes += invalid_causes(f"{item_path}.key", key, is_qualified_name(key))
        messages = is_valid_label_value(value)
        if messages:
            causes.append(invalid_value(f"{item_path}.value", value, ";".join(messages)))
        causes += (
            validate_enum(effect, f"{item_path}.effect", *EFFECTS)
            if effect
            else [required_value(f"{item_path}.effect")]
        )
        if (key, effect) in seen:
            printed = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            cause = duplicate(item_path, printed)
            detail = "taints must be unique by key and effect pair"
            causes.append(Cause(cause.reason, f"{cause.message}: {detail}", item_path))
        seen.add((key, effect))
    return causes


def validate_topology_spread_constraints(constraints: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        item_path = f"{path}[{i}]"
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if constraint.get("maxSkew", 0) <= 0:
            causes.append(
                invalid_value(f"{item_path}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
            )
        if not key:
            causes.append(required_value(f"{item_path}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            causes.append(not_supported(f"{item_path}.whenUnsatisfiable", action, ["DoNotSchedule", "ScheduleAnyway"]))
        if (key, action) in seen:
            causes.append(duplicate(f"{item_path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        seen.add((key, action))
        causes += _validate_min_domains(constraint.get("minDomains"), action, f"{item_path}.minDomains")
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            causes += validate_enum(constraint.get(field), f"{item_path}.{field}", "Honor", "Ignore")
        causes += validate_label_selector(constraint.get("labelSelector"), f"{item_path}.labelSelector")
    return causes


def _validate_min_domains(min_domains: int | None, action: str, path: str) -> list[Cause]:
    if min_domains is None:
        return []
    causes = [invalid_value(path, min_domains, "must be greater than zero")] if min_domains <= 0 else []
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        causes.append(invalid_value(path, min_domains, detail))
    return causes
