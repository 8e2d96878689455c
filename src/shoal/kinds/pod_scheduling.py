"""Validation of scheduling constraints: affinity, node selectors, tolerations, taints, topology spread. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import label_selector, one_of, said
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, not_supported, required
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name, is_valid_label_value

Object = dict[str, Any]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_OPERATOR = "not a valid selector operator"
_ANY_TAINT = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def validate_affinity(affinity: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    if node.get(REQUIRED) is not None:
        causes += validate_node_selector(node[REQUIRED], f"{path}.nodeAffinity.{REQUIRED}")
    for i, term in enumerate(node.get(PREFERRED) or ()):
        at = f"{path}.nodeAffinity.{PREFERRED}[{i}]"
        causes += _weight(term, at) + _node_term(term.get("preference") or {}, f"{at}.preference", values=False)
    for field in ("podAffinity", "podAntiAffinity"):
        pod = affinity.get(field) or {}
        for i, term in enumerate(pod.get(REQUIRED) or ()):
            causes += _pod_term(term, f"{path}.{field}.{REQUIRED}[{i}]")
        for i, term in enumerate(pod.get(PREFERRED) or ()):
            at = f"{path}.{field}.{PREFERRED}[{i}]"
            causes += _weight(term, at) + _pod_term(term.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")
    return causes


def _weight(term: Object, path: str) -> list[Cause]:
    weight = term.get("weight", 0)
    return [] if 0 < weight <= 100 else [invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]


def validate_node_selector(selector: Object, path: str) -> list[Cause]:
    """Validates a `NodeSelector` of a pod's affinity or of a PersistentVolume."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [c for i, t in enumerate(terms) for c in _node_term(t, f"{path}.nodeSelectorTerms[{i}]", values=True)]


def _node_term(term: Object, path: str, *, values: bool) -> list[Cause]:
    causes: list[Cause] = []
    for i, requirement in enumerate(term.get("matchExpressions") or ()):
        causes += _node_requirement(requirement, f"{path}.matchExpressions[{i}]", values=values)
    for i, requirement in enumerate(term.get("matchFields") or ()):
        causes += _node_field(requirement, f"{path}.matchFields[{i}]")
    return causes


def _node_requirement(requirement: Object, path: str, *, values: bool) -> list[Cause]:
    operator, given = requirement.get("operator", ""), requirement.get("values") or []
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        if not given:
            causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if given:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden_field(f"{path}.values", why))
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            causes.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        causes.append(invalid_value(f"{path}.operator", operator, _NO_OPERATOR))
    key = requirement.get("key", "")
    causes += said(f"{path}.key", key, is_qualified_name(key))
    if values:
        causes += [c for i, v in enumerate(given) for c in said(f"{path}.values[{i}]", v, is_valid_label_value(v))]
    return causes


def _node_field(requirement: Object, path: str) -> list[Cause]:
    operator, given = requirement.get("operator", ""), requirement.get("values") or []
    causes: list[Cause] = []
    if operator not in ("In", "NotIn"):
        causes.append(invalid_value(f"{path}.operator", operator, _NO_OPERATOR))
    elif len(given) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{path}.values", why))
    key = requirement.get("key", "")
    if key != "metadata.name":
        return [*causes, invalid_value(f"{path}.key", key, "not a valid field selector key")]
    return causes + [c for i, v in enumerate(given) for c in said(f"{path}.values[{i}]", v, is_dns1123_subdomain(v))]


def _pod_term(term: Object, path: str) -> list[Cause]:
    causes = label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    causes += label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        causes += said(f"{path}.namespace", name, is_dns1123_label(name))
    key = term.get("topologyKey") or ""
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    return causes + said(f"{path}.topologyKey", key, is_qualified_name(key))


def validate_tolerations(tolerations: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, toleration in enumerate(tolerations):
        at = f"{path}[{i}]"
        key, operator, effect = (toleration.get(field) or "" for field in ("key", "operator", "effect"))
        if key:
            causes += said(f"{at}.key", key, is_qualified_name(key))
        elif operator != "Exists":
            causes.append(invalid_value(f"{at}.operator", operator, _ANY_TAINT))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid_value(f"{at}.effect", effect, why))
        causes += _operator(operator, toleration.get("value") or "", f"{at}.operator")
        if effect:
            causes += one_of(effect, f"{at}.effect", *EFFECTS)
    return causes


def _operator(operator: str, value: str, path: str) -> list[Cause]:
    if operator in ("", "Equal"):
        complaints = is_valid_label_value(value)
        return [invalid_value(path, value, ";".join(complaints))] if complaints else []
    if operator == "Exists":
        return [invalid_value(path, value, "value must be empty when `operator` is 'Exists'")] if value else []
    known = ["Equal", "Exists", "Lt", "Gt"] if operator in ("Lt", "Gt") else ["Equal", "Exists"]
    return [not_supported(path, operator, known)]


def validate_taints(taints: list[Object], path: str) -> list[Cause]:
    """Validates the taints of a node."""
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        at = f"{path}[{i}]"
        key, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
        causes += said(f"{at}.key", key, is_qualified_name(key))
        complaints = is_valid_label_value(value)
        if complaints:
            causes.append(invalid_value(f"{at}.value", value, ";".join(complaints)))
        causes += one_of(effect, f"{at}.effect", *EFFECTS) if effect else [required(f"{at}.effect")]
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            cause = duplicate(at, shown)
            why = "taints must be unique by key and effect pair"
            causes.append(Cause(cause.reason, f"{cause.message}: {why}", at))
        seen.add((key, effect))
    return causes


def validate_spread(constraints: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        at = f"{path}[{i}]"
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if constraint.get("maxSkew", 0) <= 0:
            causes.append(invalid_value(f"{at}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
        if not key:
            causes.append(required(f"{at}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            causes.append(not_supported(f"{at}.whenUnsatisfiable", action, ["DoNotSchedule", "ScheduleAnyway"]))
        if (key, action) in seen:
            causes.append(duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        seen.add((key, action))
        causes += _min_domains(constraint.get("minDomains"), action, f"{at}.minDomains")
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            causes += one_of(constraint.get(field), f"{at}.{field}", "Honor", "Ignore")
        causes += label_selector(constraint.get("labelSelector"), f"{at}.labelSelector")
    return causes


def _min_domains(least: int | None, action: str, path: str) -> list[Cause]:
    if least is None:
        return []
    causes = [invalid_value(path, least, "must be greater than zero")] if least <= 0 else []
    if action != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        causes.append(invalid_value(path, least, why))
    return causes
