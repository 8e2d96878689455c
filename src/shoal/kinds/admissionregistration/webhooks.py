"""Webhook configurations of admissionregistration.k8s.io/v1: defaults and validation. Pure.

Calling webhooks is in `apiserver.webhooks`. Policies are in `policy_specs`.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from shoal.kinds.admissionregistration.match_conditions import compile_causes
from shoal.kinds.validation.field import (
    Object,
    ensure_map,
    invalid_causes,
    repeated_positions,
    set_defaults,
    validate_enum,
    validate_label_selector,
)
from shoal.objects.errors import Cause, duplicate, invalid_value, required_value, too_many
from shoal.objects.names import is_dns1035_label, is_dns1123_subdomain, is_qualified_name

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEW_VERSIONS = ("v1", "v1beta1")
MAX_MATCH_CONDITIONS = 64


def default_validating_webhooks(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        _default_webhook(hook)


def default_mutating_webhooks(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        _default_webhook(hook)
        set_defaults(hook, reinvocationPolicy="Never")


def _default_webhook(hook: Object) -> None:
    set_defaults(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
    ensure_map(hook, "namespaceSelector")
    ensure_map(hook, "objectSelector")
    service = ensure_map(hook, "clientConfig").get("service")
    if service is not None:
        set_defaults(service, port=443)
    for rule in hook.get("rules") or ():
        set_defaults(rule, scope="*")


def validate_webhooks(obj: Object, old: Object | None) -> list[Cause]:
    causes, names = [], set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name") or ""
        causes += _validate_webhook(hook, name, path)
        causes += validate_review_versions(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
        if name and name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
    return causes


def _validate_webhook(hook: Object, name: str, path: str) -> list[Cause]:
    causes = _validate_fully_qualified(name, f"{path}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        causes += validate_rule_with_operations(rule, f"{path}.rules[{i}]")
    causes += validate_enum(hook["failurePolicy"], f"{path}.failurePolicy", "Fail", "Ignore")
    causes += validate_enum(hook["matchPolicy"], f"{path}.matchPolicy", "Equivalent", "Exact")
    effects = hook.get("sideEffects")
    if effects is None:
        causes.append(required_value(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    causes += validate_enum(effects, f"{path}.sideEffects", "None", "NoneOnDryRun")
    if not 1 <= hook["timeoutSeconds"] <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid_value(f"{path}.timeoutSeconds", hook["timeoutSeconds"], detail))
    for selector in ("namespaceSelector", "objectSelector"):
        causes += validate_label_selector(hook[selector], f"{path}.{selector}")
    causes += validate_enum(hook.get("reinvocationPolicy"), f"{path}.reinvocationPolicy", "IfNeeded", "Never")
    causes += validate_client_config(hook["clientConfig"], f"{path}.clientConfig")
    return causes + validate_match_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")


def _validate_fully_qualified(name: str, path: str) -> list[Cause]:
    if not name:
        return [required_value(path)]
    if messages := is_dns1123_subdomain(name):
        return [invalid_value(path, name, ",".join(messages))]
    if name.count(".") < 2:
        return [invalid_value(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def validate_client_config(config: Object, path: str) -> list[Cause]:
    """Validates the clientConfig of an admission or conversion webhook."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required_value(path, "exactly one of url or service is required")]
    if service is None:
        return _validate_url(str(url), f"{path}.url")
    causes = [required_value(f"{path}.service.{f}") for f in ("name", "namespace") if not service.get(f)]
    if not 1 <= service["port"] <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid_value(f"{path}.service.port", service["port"], detail))
    return causes + _validate_service_path(service.get("path") or "/", f"{path}.service.path")


def _validate_service_path(text: str, path: str) -> list[Cause]:
    """Validates the path of a webhook's Service: each segment is a DNS-1123 subdomain."""
    if text == "/":
        return []
    if text == "//":
        return [invalid_value(path, text, "segment[0] may not be empty")]
    causes = [] if text.startswith("/") else [invalid_value(path, text, "must start with a '/'")]
    for i, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if segment:
            causes += invalid_causes(
                path, text, (f"segment[{i}]: {message}" for message in is_dns1123_subdomain(segment))
            )
        else:
            causes.append(invalid_value(path, text, f"segment[{i}] may not be empty"))
    return causes


def _validate_url(text: str, path: str) -> list[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        url = urlsplit(text)
    except ValueError as error:
        return [required_value(path, f"url must be a valid URL: {error}{form}")]
    causes = []
    if url.scheme != "https":
        causes.append(invalid_value(path, url.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not url.netloc:
        causes.append(invalid_value(path, "", f"host must be specified{form}"))
    if "@" in url.netloc:
        detail = "user information is not permitted in the URL"
        causes.append(invalid_value(path, url.netloc.rpartition("@")[0], detail))
    if url.fragment:
        causes.append(invalid_value(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        causes.append(invalid_value(path, url.query, "query parameters are not permitted in the URL"))
    return causes


def validate_review_versions(
    versions: list[str], path: str, missing: str = "must specify one of v1, v1beta1"
) -> list[Cause]:
    """Validates the AdmissionReview or ConversionReview versions a webhook accepts."""
    if not versions:
        return [required_value(path, missing)]
    causes: list[Cause] = []
    repeated = set(repeated_positions(versions))
    for i, version in enumerate(versions):
        if i in repeated:
            causes.append(invalid_value(f"{path}[{i}]", version, "duplicate version"))
        else:
            causes += invalid_causes(f"{path}[{i}]", version, is_dns1035_label(version))
    if not set(versions) & set(_REVIEW_VERSIONS):
        causes.append(invalid_value(path, versions, "must include at least one of v1, v1beta1"))
    return causes


def validate_rule_with_operations(rule: Object, path: str, operations: tuple[str, ...] = OPERATIONS) -> list[Cause]:
    rule_operations = rule.get("operations") or []
    causes = _validate_wildcard_list(rule_operations, f"{path}.operations", "operations")
    for i, operation in enumerate(rule_operations):
        causes += validate_enum(operation, f"{path}.operations[{i}]", *operations)
    causes += _validate_wildcard_list(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    causes += _validate_wildcard_list(versions, f"{path}.apiVersions", "API versions")
    causes += [required_value(f"{path}.apiVersions[{i}]") for i, version in enumerate(versions) if not version]
    causes += _validate_resources(rule.get("resources") or [], f"{path}.resources")
    return causes + validate_enum(rule.get("scope"), f"{path}.scope", "*", "Cluster", "Namespaced")


def _validate_wildcard_list(values: list[str], path: str, what: str) -> list[Cause]:
    if not values:
        return [required_value(path)]
    if len(values) > 1 and "*" in values:
        return [invalid_value(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resources(resources: list[str], path: str) -> list[Cause]:
    if not resources:
        return [required_value(path)]
    causes: list[Cause] = []
    earlier: set[str] = set()
    for i, text in enumerate(resources):
        resource, slash, sub = text.partition("/")
        if not text:
            causes.append(required_value(f"{path}[{i}]"))
        elif slash and f"{resource}/*" in earlier:
            causes.append(invalid_value(f"{path}[{i}]", text, f"if '{resource}/*' is present, must not specify {text}"))
        elif slash and f"*/{sub}" in earlier:
            causes.append(invalid_value(f"{path}[{i}]", text, f"if '*/{sub}' is present, must not specify {text}"))
        earlier.add(text)
    if len(resources) > 1 and "*/*" in resources:
        causes.append(invalid_value(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any("/" not in text and text != "*" for text in resources):
        only = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid_value(path, resources, only))
    return causes


def validate_match_conditions(conditions: list[Object], path: str, *, has_params: bool = False) -> list[Cause]:
    """Validates match conditions of webhooks and policies. `has_params`: the policy has parameters."""
    causes = [too_many(path, len(conditions), MAX_MATCH_CONDITIONS)] if len(conditions) > MAX_MATCH_CONDITIONS else []
    names = set()
    for i, condition in enumerate(conditions):
        name = condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            causes.append(required_value(f"{path}[{i}].expression"))
        else:
            causes += compile_causes(expression, f"{path}[{i}].expression", has_params=has_params)
        causes += (
            invalid_causes(f"{path}[{i}].name", name, is_qualified_name(name))
            if name
            else [required_value(f"{path}[{i}].name")]
        )
        if name and name in names:
            causes.append(duplicate(f"{path}[{i}].name", name))
        names.add(name)
    return causes
