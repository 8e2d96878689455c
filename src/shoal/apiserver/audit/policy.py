"""The audit policy: parses an audit.k8s.io/v1 Policy. The first matching rule decides the level of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.objects import strictyaml
from shoal.objects.errors import BadRequest, ShoalError

NONE, METADATA, REQUEST, REQUEST_RESPONSE = LEVELS = ("None", "Metadata", "Request", "RequestResponse")
RESPONSE_COMPLETE = "ResponseComplete"
_KNOWN_STAGES = ("RequestReceived", "ResponseStarted", RESPONSE_COMPLETE, "Panic")


class AuditPolicyError(ShoalError):
    pass


@dataclass(frozen=True, slots=True)
class AuditAttributes:
    """The request attributes that rules match. A non-resource request has only a path."""

    user: str
    groups: tuple[str, ...]
    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class AuditGroupResources:
    group: str
    resources: tuple[str, ...]
    names: tuple[str, ...]

    def matches(self, attributes: AuditAttributes) -> bool:
        if self.group != attributes.group or (self.names and attributes.name not in self.names):
            return False
        return not self.resources or any(self._matches_resource(one, attributes) for one in self.resources)

    @staticmethod
    def _matches_resource(pattern: str, attributes: AuditAttributes) -> bool:
        full_resource = (
            f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
        )
        if pattern in ("*", full_resource) or pattern == f"{attributes.resource}/*":
            return True
        return bool(attributes.subresource) and pattern == f"*/{attributes.subresource}"


@dataclass(frozen=True, slots=True)
class AuditPolicyRule:
    level: str
    omit_managed_fields: bool = False
    """managedFields are removed from bodies."""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[AuditGroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()

    def matches(self, attributes: AuditAttributes) -> bool:
        if self.users and attributes.user not in self.users:
            return False
        if self.groups and not any(group in self.groups for group in attributes.groups):
            return False
        if self.verbs and attributes.verb not in self.verbs and "*" not in self.verbs:
            return False
        if self.resources or self.namespaces:
            return attributes.is_resource and self._matches_any_resource(attributes)
        if self.non_resource_urls:
            return not attributes.is_resource and any(
                _url_matches(path, attributes.path) for path in self.non_resource_urls
            )
        return True

    def _matches_any_resource(self, attributes: AuditAttributes) -> bool:
        if self.namespaces and attributes.namespace not in self.namespaces:
            return False
        return not self.resources or any(one.matches(attributes) for one in self.resources)


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    rules: tuple[AuditPolicyRule, ...]

    def matching_rule(self, attributes: AuditAttributes) -> AuditPolicyRule:
        return next((rule for rule in self.rules if rule.matches(attributes)), RECORD_NOTHING)


RECORD_NOTHING = AuditPolicyRule(NONE)
RECORD_METADATA = AuditPolicy((AuditPolicyRule(METADATA),))


def parse_policy(text: bytes) -> AuditPolicy:
    try:
        policy = strictyaml.loads(text)
    except BadRequest as error:
        raise AuditPolicyError(f"the audit policy cannot be read: {error}") from None
    if not isinstance(policy, dict) or (policy.get("apiVersion"), policy.get("kind")) != ("audit.k8s.io/v1", "Policy"):
        raise AuditPolicyError("the audit policy is not a Policy of audit.k8s.io/v1")
    omits_response_complete = RESPONSE_COMPLETE in _parse_omit_stages(policy, "omitStages")
    rules = policy.get("rules")
    if not isinstance(rules, list) or not rules:
        raise AuditPolicyError("the audit policy has no rules")
    omit_managed_fields = policy.get("omitManagedFields") is True
    return AuditPolicy(
        tuple(
            _parse_rule(f"rules[{index}]", rule, omits_response_complete, omit_managed_fields)
            for index, rule in enumerate(rules)
        )
    )


def _parse_rule(location: str, rule: Any, omits_response_complete: bool, omit_managed_fields: bool) -> AuditPolicyRule:
    if not isinstance(rule, dict):
        raise AuditPolicyError(f"the audit policy's {location} is not an object")
    level = rule.get("level")
    if level not in LEVELS:
        raise AuditPolicyError(f"the audit policy's {location} has no valid level: must be one of {', '.join(LEVELS)}")
    has_resources = bool(rule.get("resources") or rule.get("namespaces"))
    urls = _string_list(rule, "nonResourceURLs", location)
    if has_resources and urls:
        raise AuditPolicyError(f"the audit policy's {location} has both resources and nonResourceURLs")
    if any("*" in path.removesuffix("*") for path in urls):
        raise AuditPolicyError(f"the audit policy's {location} has a nonResourceURLs entry with a * before its end")
    groups = rule.get("resources") or []
    if not isinstance(groups, list) or not all(isinstance(one, dict) for one in groups):
        raise AuditPolicyError(f"the audit policy's {location}.resources is not a list of objects")
    return AuditPolicyRule(
        level=NONE if omits_response_complete or RESPONSE_COMPLETE in _parse_omit_stages(rule, "omitStages") else level,
        omit_managed_fields=omit_managed_fields
        if rule.get("omitManagedFields") is None
        else rule["omitManagedFields"] is True,
        users=_string_list(rule, "users", location),
        groups=_string_list(rule, "userGroups", location),
        verbs=_string_list(rule, "verbs", location),
        resources=tuple(
            AuditGroupResources(
                str(one.get("group") or ""),
                _string_list(one, "resources", location),
                _string_list(one, "resourceNames", location),
            )
            for one in groups
        ),
        namespaces=_string_list(rule, "namespaces", location),
        non_resource_urls=urls,
    )


def _string_list(owner: dict[str, Any], field: str, location: str) -> tuple[str, ...]:
    values = owner.get(field) or []
    if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
        raise AuditPolicyError(f"the audit policy's {location}.{field} is not a list of strings")
    return tuple(values)


def _parse_omit_stages(owner: dict[str, Any], field: str) -> tuple[str, ...]:
    stages = _string_list(owner, field, "policy")
    for stage in stages:
        if stage not in _KNOWN_STAGES:
            raise AuditPolicyError(f'the audit policy omits an unknown stage "{stage}"')
    return stages


def _url_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
