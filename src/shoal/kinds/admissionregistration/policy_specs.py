"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy of admissionregistration.k8s.io/v1 with their bindings:
defaults and validation. Pure.

`policies.spec_validation` checks that their expressions compile. The other modules of `policies` evaluate them.
"""

from __future__ import annotations

from shoal.kinds.admissionregistration.webhooks import (
    OPERATIONS,
    validate_match_conditions,
    validate_rule_with_operations,
)
from shoal.kinds.validation.field import (
    Object,
    ensure_map,
    invalid_causes,
    repeated_positions,
    set_defaults,
    validate_enum,
    validate_label_selector,
)
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required_value
from shoal.objects.names import is_dns1035_label, is_dns1123_subdomain, is_path_segment_name

MAX_AUDIT_ANNOTATIONS = 20
_NO_VALIDATIONS = "validations or auditAnnotations must contain at least one item"
_DENY_AND_WARN = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response "
    "and headers serves no purpose)"
)
_MUTATING_OPERATIONS = tuple(operation for operation in OPERATIONS if operation != "DELETE")


def default_policy(obj: Object) -> None:
    """Sets the defaults of both policy kinds."""
    spec = ensure_map(obj, "spec")
    set_defaults(spec, failurePolicy="Fail")
    _default_match_resources(spec.get("matchConstraints"))


def default_validating_policy(obj: Object) -> None:
    default_policy(obj)
    ensure_map(obj, "status")


def default_binding(obj: Object) -> None:
    _default_match_resources(ensure_map(obj, "spec").get("matchResources"))


def _default_match_resources(match: Object | None) -> None:
    if match is None:
        return
    set_defaults(match, matchPolicy="Equivalent")
    ensure_map(match, "namespaceSelector")
    ensure_map(match, "objectSelector")
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            set_defaults(rule, scope="*")


def validate_validating_policy(obj: Object, old: Object | None) -> list[Cause]:
    # CEL is imported lazily: a server without policies starts without it.
    from shoal.kinds.admissionregistration.policies.spec_validation import (  # noqa: PLC0415
        new_policy_compiler,
        validate_audit_annotation,
        validate_validation,
    )

    spec = obj["spec"]
    causes = _validate_policy(spec, old)
    policy_compiler = new_policy_compiler(spec, has_variables=False)
    causes += policy_compiler.validate_variables(spec.get("variables") or [])
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        return [
            *causes,
            required_value("spec.validations", _NO_VALIDATIONS),
            required_value("spec.auditAnnotations", _NO_VALIDATIONS),
        ]
    for i, validation in enumerate(validations):
        causes += validate_validation(policy_compiler, validation, f"spec.validations[{i}]")
    if len(annotations) > MAX_AUDIT_ANNOTATIONS:
        detail = f"must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        causes.append(invalid_value("spec.auditAnnotations", annotations, detail))
    keys = set()
    for i, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{i}]", annotation.get("key") or ""
        causes += validate_audit_annotation(policy_compiler, annotation, obj["metadata"].get("name") or "", path)
        if key in keys:
            causes.append(duplicate(f"{path}.key", key))
        keys.add(key)
    return causes


def validate_mutating_policy(obj: Object, old: Object | None) -> list[Cause]:
    from shoal.kinds.admissionregistration.policies.spec_validation import new_policy_compiler, validate_mutation  # noqa: PLC0415

    spec = obj["spec"]
    causes = _validate_policy(spec, old, mutating=True)
    policy_compiler = new_policy_compiler(spec, has_variables=True)
    causes += policy_compiler.validate_variables(spec.get("variables") or [])
    mutations = spec.get("mutations") or []
    if not mutations:
        causes.append(required_value("spec.mutations", "mutations must contain at least one item"))
    for i, mutation in enumerate(mutations):
        causes += validate_mutation(policy_compiler, mutation, f"spec.mutations[{i}]")
    policy = spec.get("reinvocationPolicy")
    if not policy:
        return [*causes, required_value("spec.reinvocationPolicy")]
    return causes + validate_enum(policy, "spec.reinvocationPolicy", "IfNeeded", "Never")


def _validate_policy(spec: Object, old: Object | None, *, mutating: bool = False) -> list[Cause]:
    causes = validate_enum(spec["failurePolicy"], "spec.failurePolicy", "Fail", "Ignore")
    if spec.get("paramKind") is not None:
        causes += _validate_param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        causes.append(required_value("spec.matchConstraints"))
    else:
        causes += _validate_match_resources(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            causes.append(required_value("spec.matchConstraints.resourceRules"))
        if mutating:
            causes += _validate_no_delete_rules(match, "spec.matchConstraints")
    before = (old or {}).get("spec")
    if before is not None and all(before.get(key) == spec.get(key) for key in ("paramKind", "matchConditions")):
        return causes
    params = spec.get("paramKind") is not None
    return causes + validate_match_conditions(
        spec.get("matchConditions") or [], "spec.matchConditions", has_params=params
    )


def _validate_no_delete_rules(match: Object, path: str) -> list[Cause]:
    """Rejects DELETE rules: a deletion has nothing to mutate."""
    operations = [each for rule in match.get("resourceRules") or () for each in rule.get("operations") or ()]
    return [
        cause
        for operation in operations
        for cause in validate_enum(operation, f"{path}.resourceRules.operations", *_MUTATING_OPERATIONS)
    ]


def _validate_param_kind(kind: Object, path: str) -> list[Cause]:
    text, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    causes: list[Cause] = []
    if not text:
        causes.append(required_value(f"{path}.apiVersion"))
    elif text.count("/") > 1:
        causes.append(invalid_value(f"{path}.apiVersion", text, f"unexpected GroupVersion string: {text}"))
    else:
        group, _, version = text.rpartition("/")
        if group and (messages := is_dns1123_subdomain(group)):
            causes.append(invalid_value(f"{path}.apiVersion", group, ",".join(messages)))
        if not version:
            causes.append(invalid_value(f"{path}.apiVersion", text, "version must be specified"))
        elif messages := is_dns1035_label(version):
            causes.append(invalid_value(f"{path}.apiVersion", version, ",".join(messages)))
    if not name:
        return [*causes, required_value(f"{path}.kind")]
    if messages := is_dns1035_label(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        causes.append(invalid_value(f"{path}.kind", name, detail))
    return causes


def _validate_match_resources(match: Object, path: str) -> list[Cause]:
    causes = validate_enum(match["matchPolicy"], f"{path}.matchPolicy", "Equivalent", "Exact")
    for selector in ("namespaceSelector", "objectSelector"):
        causes += validate_label_selector(match[selector], f"{path}.{selector}")
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(match.get(field) or ()):
            item_path, names = f"{path}.{field}[{i}]", rule.get("resourceNames") or []
            for j, name in enumerate(names):
                causes += invalid_causes(f"{item_path}.resourceNames[{j}]", name, is_path_segment_name(name))
                if name in names[:j]:
                    causes.append(duplicate(f"{item_path}.resourceNames[{j}]", name))
            causes += validate_rule_with_operations(rule, item_path)
    return causes


def validate_validating_binding(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes, actions = _validate_binding(spec), spec.get("validationActions") or []
    repeated = set(repeated_positions(actions))
    for i, action in enumerate(actions):
        causes += validate_enum(action, f"spec.validationActions[{i}]", "Audit", "Deny", "Warn")
        if i in repeated:
            causes.append(duplicate(f"spec.validationActions[{i}]", action))
    if "Deny" in actions and "Warn" in actions:
        causes.append(invalid_value("spec.validationActions", actions, _DENY_AND_WARN))
    if not actions:
        causes.append(required_value("spec.validationActions", "at least one validation action is required"))
    return causes


def validate_mutating_binding(obj: Object, old: Object | None) -> list[Cause]:
    match = obj["spec"].get("matchResources")
    return _validate_binding(obj["spec"]) + (
        _validate_no_delete_rules(match, "spec.matchResources") if match is not None else []
    )


def _validate_binding(spec: Object) -> list[Cause]:
    name = spec.get("policyName") or ""
    causes = (
        invalid_causes("spec.policyName", name, is_dns1123_subdomain(name))
        if name
        else [required_value("spec.policyName")]
    )
    reference = spec.get("paramRef")
    if reference is not None:
        causes += _validate_param_ref(reference, "spec.paramRef")
    match = spec.get("matchResources")
    return causes + (_validate_match_resources(match, "spec.matchResources") if match is not None else [])


def _validate_param_ref(reference: Object, path: str) -> list[Cause]:
    name, selector = reference.get("name") or "", reference.get("selector")
    both = "name and selector are mutually exclusive"
    causes = invalid_causes(f"{path}.name", name, is_path_segment_name(name)) if name else []
    if name and selector is not None:
        causes.append(forbidden_field(f"{path}.name", both))
    if selector is not None:
        causes += validate_label_selector(selector, f"{path}.selector")
        if name:
            causes.append(forbidden_field(f"{path}.selector", both))
    if not name and selector is None:
        causes.append(required_value(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    if not action:
        return [*causes, required_value(f"{path}.parameterNotFoundAction")]
    return causes + validate_enum(action, f"{path}.parameterNotFoundAction", "Deny", "Allow")
