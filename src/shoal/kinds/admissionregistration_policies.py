"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy of admissionregistration.k8s.io/v1 with their bindings:
defaults and validation. Pure.

`policies.spec_validation` checks that their expressions compile. The other modules of `policies` evaluate them.
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
    """Sets the defaults of both policy kinds."""
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
    # CEL is imported lazily: a server without policies starts without it.
    from shoal.kinds.policies.checking import annotation_causes, check_causes, compiler  # noqa: PLC0415

    spec = obj["spec"]
    causes = _policy(spec, old)
    compiling = compiler(spec, always=False)
    causes += compiling.variable_causes(spec.get("variables") or [])
    checks, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not checks and not annotations:
        return [*causes, required("spec.validations", _NEITHER), required("spec.auditAnnotations", _NEITHER)]
    for i, check in enumerate(checks):
        causes += check_causes(compiling, check, f"spec.validations[{i}]")
    if len(annotations) > MOST_AUDIT_ANNOTATIONS:
        said_ = f"must not have more than {MOST_AUDIT_ANNOTATIONS} auditAnnotations"
        causes.append(invalid_value("spec.auditAnnotations", annotations, said_))
    keys = set()
    for i, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{i}]", annotation.get("key") or ""
        causes += annotation_causes(compiling, annotation, obj["metadata"].get("name") or "", path)
        if key in keys:
            causes.append(duplicate(f"{path}.key", key))
        keys.add(key)
    return causes


def validate_mutating_policy(obj: Object, old: Object | None) -> list[Cause]:
    from shoal.kinds.policies.checking import compiler, mutation_causes  # noqa: PLC0415

    spec = obj["spec"]
    causes = _policy(spec, old, mutating=True)
    compiling = compiler(spec, always=True)
    causes += compiling.variable_causes(spec.get("variables") or [])
    mutations = spec.get("mutations") or []
    if not mutations:
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    for i, mutation in enumerate(mutations):
        causes += mutation_causes(compiling, mutation, f"spec.mutations[{i}]")
    policy = spec.get("reinvocationPolicy")
    if not policy:
        return [*causes, required("spec.reinvocationPolicy")]
    return causes + one_of(policy, "spec.reinvocationPolicy", "IfNeeded", "Never")


def _policy(spec: Object, old: Object | None, *, mutating: bool = False) -> list[Cause]:
    causes = one_of(spec["failurePolicy"], "spec.failurePolicy", "Fail", "Ignore")
    if spec.get("paramKind") is not None:
        causes += _param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        causes.append(required("spec.matchConstraints"))
    else:
        causes += _match(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
        if mutating:
            causes += _not_deleting(match, "spec.matchConstraints")
    before = (old or {}).get("spec")
    if before is not None and all(before.get(key) == spec.get(key) for key in ("paramKind", "matchConditions")):
        return causes
    params = spec.get("paramKind") is not None
    return causes + match_conditions(spec.get("matchConditions") or [], "spec.matchConditions", params=params)


def _not_deleting(match: Object, path: str) -> list[Cause]:
    """Rejects DELETE rules: a deletion has nothing to mutate."""
    operations = [each for rule in match.get("resourceRules") or () for each in rule.get("operations") or ()]
    return [
        cause
        for operation in operations
        for cause in one_of(operation, f"{path}.resourceRules.operations", *_MUTATING_OPERATIONS)
    ]


def _param_kind(kind: Object, path: str) -> list[Cause]:
    text, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    causes: list[Cause] = []
    if not text:
        causes.append(required(f"{path}.apiVersion"))
    elif text.count("/") > 1:
        causes.append(invalid_value(f"{path}.apiVersion", text, f"unexpected GroupVersion string: {text}"))
    else:
        group, _, version = text.rpartition("/")
        if group and (wrong := is_dns1123_subdomain(group)):
            causes.append(invalid_value(f"{path}.apiVersion", group, ",".join(wrong)))
        if not version:
            causes.append(invalid_value(f"{path}.apiVersion", text, "version must be specified"))
        elif wrong := is_dns1035_label(version):
            causes.append(invalid_value(f"{path}.apiVersion", version, ",".join(wrong)))
    if not name:
        return [*causes, required(f"{path}.kind")]
    if wrong := is_dns1035_label(name.lower()):
        said_ = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        causes.append(invalid_value(f"{path}.kind", name, said_))
    return causes


def _match(match: Object, path: str) -> list[Cause]:
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
            causes += rule_with_operations(rule, here)
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
    match = obj["spec"].get("matchResources")
    return _binding(obj["spec"]) + (_not_deleting(match, "spec.matchResources") if match is not None else [])


def _binding(spec: Object) -> list[Cause]:
    name = spec.get("policyName") or ""
    causes = said("spec.policyName", name, is_dns1123_subdomain(name)) if name else [required("spec.policyName")]
    reference = spec.get("paramRef")
    if reference is not None:
        causes += _param_ref(reference, "spec.paramRef")
    match = spec.get("matchResources")
    return causes + (_match(match, "spec.matchResources") if match is not None else [])


def _param_ref(reference: Object, path: str) -> list[Cause]:
    name, selector = reference.get("name") or "", reference.get("selector")
    both = "name and selector are mutually exclusive"
    causes = said(f"{path}.name", name, is_path_segment_name(name)) if name else []
    if name and selector is not None:
        causes.append(forbidden_field(f"{path}.name", both))
    if selector is not None:
        causes += label_selector(selector, f"{path}.selector")
        if name:
            causes.append(forbidden_field(f"{path}.selector", both))
    if not name and selector is None:
        causes.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    if not action:
        return [*causes, required(f"{path}.parameterNotFoundAction")]
    return causes + one_of(action, f"{path}.parameterNotFoundAction", "Deny", "Allow")
