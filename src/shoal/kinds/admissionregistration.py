"""Webhook configurations of admissionregistration.k8s.io/v1: defaults and validation. Pure.

Calling webhooks is in `apiserver.webhooks`. Policies are in `policy_specs`.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from shoal.kinds.checks import Object, fill, label_selector, one_of, said, section
from shoal.kinds.match_conditions import compiling
from shoal.objects.errors import Cause, duplicate, invalid_value, required, too_many
from shoal.objects.names import is_dns1035_label, is_dns1123_subdomain, is_qualified_name

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEWS = ("v1", "v1beta1")
MOST_CONDITIONS = 64


def default_validating(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        _default_hook(hook)


def default_mutating(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        _default_hook(hook)
        fill(hook, reinvocationPolicy="Never")


def _default_hook(hook: Object) -> None:
    fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
    section(hook, "namespaceSelector")
    section(hook, "objectSelector")
    service = section(hook, "clientConfig").get("service")
    if service is not None:
        fill(service, port=443)
    for rule in hook.get("rules") or ():
        fill(rule, scope="*")


def validate_webhooks(obj: Object, old: Object | None) -> list[Cause]:
    causes, names = [], set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name") or ""
        causes += _hook(hook, name, path)
        causes += review_versions(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
        if name and name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
    return causes


def _hook(hook: Object, name: str, path: str) -> list[Cause]:
    causes = _fully_qualified(name, f"{path}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        causes += rule_with_operations(rule, f"{path}.rules[{i}]")
    causes += one_of(hook["failurePolicy"], f"{path}.failurePolicy", "Fail", "Ignore")
    causes += one_of(hook["matchPolicy"], f"{path}.matchPolicy", "Equivalent", "Exact")
    effects = hook.get("sideEffects")
    if effects is None:
        causes.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    causes += one_of(effects, f"{path}.sideEffects", "None", "NoneOnDryRun")
    if not 1 <= hook["timeoutSeconds"] <= 30:
        said_ = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid_value(f"{path}.timeoutSeconds", hook["timeoutSeconds"], said_))
    for selector in ("namespaceSelector", "objectSelector"):
        causes += label_selector(hook[selector], f"{path}.{selector}")
    causes += one_of(hook.get("reinvocationPolicy"), f"{path}.reinvocationPolicy", "IfNeeded", "Never")
    causes += client_config(hook["clientConfig"], f"{path}.clientConfig")
    return causes + match_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")


def _fully_qualified(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    if wrong := is_dns1123_subdomain(name):
        return [invalid_value(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        return [invalid_value(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def client_config(config: Object, path: str) -> list[Cause]:
    """Validates the clientConfig of an admission or conversion webhook."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if service is None:
        return _url(str(url), f"{path}.url")
    causes = [required(f"{path}.service.{f}") for f in ("name", "namespace") if not service.get(f)]
    if not 1 <= service["port"] <= 65535:
        range_said = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid_value(f"{path}.service.port", service["port"], range_said))
    return causes + _path(service.get("path") or "/", f"{path}.service.path")


def _path(text: str, path: str) -> list[Cause]:
    """Validates the path of a webhook's Service: each segment is a DNS-1123 subdomain."""
    if text == "/":
        return []
    if text == "//":
        return [invalid_value(path, text, "segment[0] may not be empty")]
    causes = [] if text.startswith("/") else [invalid_value(path, text, "must start with a '/'")]
    for i, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if segment:
            causes += said(path, text, (f"segment[{i}]: {wrong}" for wrong in is_dns1123_subdomain(segment)))
        else:
            causes.append(invalid_value(path, text, f"segment[{i}] may not be empty"))
    return causes


def _url(text: str, path: str) -> list[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        url = urlsplit(text)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{form}")]
    causes = []
    if url.scheme != "https":
        causes.append(invalid_value(path, url.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not url.netloc:
        causes.append(invalid_value(path, "", f"host must be specified{form}"))
    if "@" in url.netloc:
        said_ = "user information is not permitted in the URL"
        causes.append(invalid_value(path, url.netloc.rpartition("@")[0], said_))
    if url.fragment:
        causes.append(invalid_value(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        causes.append(invalid_value(path, url.query, "query parameters are not permitted in the URL"))
    return causes


def review_versions(versions: list[str], path: str, missing: str = "must specify one of v1, v1beta1") -> list[Cause]:
    """Validates the AdmissionReview or ConversionReview versions a webhook accepts."""
    if not versions:
        return [required(path, missing)]
    causes: list[Cause] = []
    for i, version in enumerate(versions):
        if version in versions[:i]:
            causes.append(invalid_value(f"{path}[{i}]", version, "duplicate version"))
        else:
            causes += said(f"{path}[{i}]", version, is_dns1035_label(version))
    if not set(versions) & set(_REVIEWS):
        causes.append(invalid_value(path, versions, "must include at least one of v1, v1beta1"))
    return causes


def rule_with_operations(rule: Object, path: str, operations: tuple[str, ...] = OPERATIONS) -> list[Cause]:
    given = rule.get("operations") or []
    causes = _list(given, f"{path}.operations", "operations")
    for i, operation in enumerate(given):
        causes += one_of(operation, f"{path}.operations[{i}]", *operations)
    causes += _list(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    causes += _list(versions, f"{path}.apiVersions", "API versions")
    causes += [required(f"{path}.apiVersions[{i}]") for i, version in enumerate(versions) if not version]
    causes += _resources(rule.get("resources") or [], f"{path}.resources")
    return causes + one_of(rule.get("scope"), f"{path}.scope", "*", "Cluster", "Namespaced")


def _list(values: list[str], path: str, what: str) -> list[Cause]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid_value(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _resources(resources: list[str], path: str) -> list[Cause]:
    if not resources:
        return [required(path)]
    causes: list[Cause] = []
    for i, text in enumerate(resources):
        resource, slash, sub = text.partition("/")
        if not text:
            causes.append(required(f"{path}[{i}]"))
        elif slash and f"{resource}/*" in resources[:i]:
            causes.append(invalid_value(f"{path}[{i}]", text, f"if '{resource}/*' is present, must not specify {text}"))
        elif slash and f"*/{sub}" in resources[:i]:
            causes.append(invalid_value(f"{path}[{i}]", text, f"if '*/{sub}' is present, must not specify {text}"))
    if len(resources) > 1 and "*/*" in resources:
        causes.append(invalid_value(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any("/" not in text and text != "*" for text in resources):
        only = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid_value(path, resources, only))
    return causes


def match_conditions(conditions: list[Object], path: str, *, params: bool = False) -> list[Cause]:
    """Validates match conditions of webhooks and policies. `has_params`: the policy has parameters."""
    causes = [too_many(path, len(conditions), MOST_CONDITIONS)] if len(conditions) > MOST_CONDITIONS else []
    names = set()
    for i, condition in enumerate(conditions):
        name = condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            causes.append(required(f"{path}[{i}].expression"))
        else:
            causes += compiling(expression, f"{path}[{i}].expression", params=params)
        causes += said(f"{path}[{i}].name", name, is_qualified_name(name)) if name else [required(f"{path}[{i}].name")]
        if name and name in names:
            causes.append(duplicate(f"{path}[{i}].name", name))
        names.add(name)
    return causes
