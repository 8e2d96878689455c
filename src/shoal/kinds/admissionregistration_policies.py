"""Admission policies and their bindings, of admissionregistration.k8s.io/v1: defaults and validation. Pure.

Their expressions are CEL: kept and published, neither compiled nor evaluated.
"""

from __future__ import annotations

from shoal.kinds.admissionregistration import OPERATIONS, match_conditions, rule_with_operations
from shoal.kinds.checks import Object, fill, label_selector, one_of, said, section
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required
from shoal.objects.names import is_dns1035_label, is_dns1123_subdomain, is_path_segment_name

MOST_AUDIT_ANNOTATIONS = 20
_NEITHER = "validations or auditAnnotations must contain at least one item"
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response "
    "and headers serves no purpose)"
)
_MUTATING_OPERATIONS = tuple(operation for operation in OPERATIONS if operation != "DELETE")


def default_policy(obj: Object) -> None:
    """Of either kind."""
    spec = section(obj, "spec")
    fill(spec, failurePolicy="Fail")
    _default_match(spec.get("matchConstraints"))


def default_validating_policy(obj: Object) -> None:
    default_policy(obj)
    section(obj, "status")


def default_binding(obj: Object) -> None:
    _default_match(section(obj, "spec").get("matchResources"))


def _default_match(match: Object | None) -> None:
    if match is None:
        return
    fill(match, matchPolicy="Equivalent")
    section(match, "namespaceSelector")
    section(match, "objectSelector")
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            fill(rule, scope="*")


def validate_validating_policy(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = _policy(spec, OPERATIONS)
    checks, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not checks and not annotations:
        return [*causes, required("spec.validations", _NEITHER), required("spec.auditAnnotations", _NEITHER)]
    for i, check in enumerate(checks):
        path = f"spec.validations[{i}]"
        if not (check.get("expression") or "").strip():
            causes.append(required(f"{path}.expression", "expression is not specified"))
        causes += one_of(check.get("reason"), f"{path}.reason", "Forbidden", "Invalid", "RequestEntityTooLarge")
    if len(annotations) > MOST_AUDIT_ANNOTATIONS:
        said_ = f"must not have more than {MOST_AUDIT_ANNOTATIONS} auditAnnotations"
        causes.append(invalid_value("spec.auditAnnotations", annotations, said_))
    keys = set()
    for i, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{i}]", annotation.get("key") or ""
        if not (annotation.get("valueExpression") or "").strip():
            causes.append(required(f"{path}.valueExpression", "valueExpression is not specified"))
        if key in keys:
            causes.append(duplicate(f"{path}.key", key))
        keys.add(key)
    return causes


def validate_mutating_policy(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = _policy(spec, _MUTATING_OPERATIONS)
    mutations = spec.get("mutations") or []
    if not mutations:
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    for i, mutation in enumerate(mutations):
        causes += _mutation(mutation, f"spec.mutations[{i}]")
    policy = spec.get("reinvocationPolicy")
    if policy is None:
        return [*causes, required("spec.reinvocationPolicy")]
    return causes + one_of(policy, "spec.reinvocationPolicy", "IfNeeded", "Never")


def _mutation(mutation: Object, path: str) -> list[Cause]:
    fields = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
    kind = mutation.get("patchType") or ""
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in fields:
        return one_of(kind, f"{path}.patchType", *fields)
    causes: list[Cause] = []
    for patch_type, field in fields.items():
        given = mutation.get(field)
        if patch_type != kind and given is not None:
            causes.append(forbidden_field(f"{path}.{field}", f"must be unset when patchType is '{kind}'"))
        elif patch_type == kind and not ((given or {}).get("expression") or "").strip():
            causes.append(required(f"{path}.{field}.expression", "expression is not specified"))
    return causes


def _policy(spec: Object, operations: tuple[str, ...]) -> list[Cause]:
    causes = one_of(spec["failurePolicy"], "spec.failurePolicy", "Fail", "Ignore")
    if spec.get("paramKind") is not None:
        causes += _param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        causes.append(required("spec.matchConstraints"))
    else:
        causes += _match(match, "spec.matchConstraints", operations)
        if not match.get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
    return causes + match_conditions(spec.get("matchConditions") or [], "spec.matchConditions")


def _param_kind(kind: Object, path: str) -> list[Cause]:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    causes: list[Cause] = []
    if not version:
        causes.append(required(f"{path}.apiVersion"))
    elif version.count("/") > 1:
        causes.append(invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    else:
        short = version.rpartition("/")[2]
        causes += said(f"{path}.apiVersion", short, is_dns1035_label(short))
    return causes if name else [*causes, required(f"{path}.kind")]


def _match(match: Object, path: str, operations: tuple[str, ...]) -> list[Cause]:
    causes = one_of(match["matchPolicy"], f"{path}.matchPolicy", "Equivalent", "Exact")
    for selector in ("namespaceSelector", "objectSelector"):
        causes += label_selector(match[selector], f"{path}.{selector}")
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(match.get(field) or ()):
            here, names = f"{path}.{field}[{i}]", rule.get("resourceNames") or []
            for j, name in enumerate(names):
                causes += said(f"{here}.resourceNames[{j}]", name, is_path_segment_name(name))
                if name in names[:j]:
                    causes.append(duplicate(f"{here}.resourceNames[{j}]", name))
            causes += rule_with_operations(rule, here, operations)
    return causes


def validate_validating_binding(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes, actions = _binding(spec), spec.get("validationActions") or []
    for i, action in enumerate(actions):
        causes += one_of(action, f"spec.validationActions[{i}]", "Audit", "Deny", "Warn")
        if action in actions[:i]:
            causes.append(duplicate(f"spec.validationActions[{i}]", action))
    if "Deny" in actions and "Warn" in actions:
        causes.append(invalid_value("spec.validationActions", actions, _BOTH))
    if not actions:
        causes.append(required("spec.validationActions", "at least one validation action is required"))
    return causes


def validate_mutating_binding(obj: Object, old: Object | None) -> list[Cause]:
    return _binding(obj["spec"])


def _binding(spec: Object) -> list[Cause]:
    name = spec.get("policyName") or ""
    causes = said("spec.policyName", name, is_dns1123_subdomain(name)) if name else [required("spec.policyName")]
    reference = spec.get("paramRef")
    if reference is not None:
        causes += _param_ref(reference, "spec.paramRef")
    match = spec.get("matchResources")
    return causes + (_match(match, "spec.matchResources", OPERATIONS) if match is not None else [])


def _param_ref(reference: Object, path: str) -> list[Cause]:
    name, selector = reference.get("name") or "", reference.get("selector")
    causes: list[Cause] = []
    if name and selector is not None:
        causes.append(forbidden_field(f"{path}.name", "name and selector are mutually exclusive"))
    elif not name and selector is None:
        causes.append(required(path, "one of name or selector must be specified"))
    elif name:
        causes += said(f"{path}.name", name, is_path_segment_name(name))
    else:
        causes += label_selector(selector, f"{path}.selector")
    action = reference.get("parameterNotFoundAction")
    if action is None:
        return [*causes, required(f"{path}.parameterNotFoundAction")]
    return causes + one_of(action, f"{path}.parameterNotFoundAction", "Allow", "Deny")
