"""The audit policy: parses an audit.k8s.io/v1 Policy. The first matching rule decides the level of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.objects import yaml_read
from shoal.objects.errors import BadRequest, ShoalError

NONE, METADATA, REQUEST, RESPONSE = LEVELS = ("None", "Metadata", "Request", "RequestResponse")
STAGE = "ResponseComplete"
_STAGES = ("RequestReceived", "ResponseStarted", STAGE, "Panic")


class PolicyError(ShoalError):
    pass


@dataclass(frozen=True, slots=True)
class Asked:
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
class Resources:
    group: str
    resources: tuple[str, ...]
    names: tuple[str, ...]

    def match(self, asked: Asked) -> bool:
        if self.group != asked.group or (self.names and asked.name not in self.names):
            return False
        return not self.resources or any(self._is(one, asked) for one in self.resources)

    @staticmethod
    def _is(pattern: str, asked: Asked) -> bool:
        whole = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        if pattern in ("*", whole) or pattern == f"{asked.resource}/*":
            return True
        return bool(asked.subresource) and pattern == f"*/{asked.subresource}"


@dataclass(frozen=True, slots=True)
class Rule:
    level: str
    omit_owners: bool = False
    """managedFields are removed from bodies."""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[Resources, ...] = ()
    namespaces: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def match(self, asked: Asked) -> bool:
        if self.users and asked.user not in self.users:
            return False
        if self.groups and not any(group in self.groups for group in asked.groups):
            return False
        if self.verbs and asked.verb not in self.verbs and "*" not in self.verbs:
            return False
        if self.resources or self.namespaces:
            return asked.is_resource and self._of_resource(asked)
        if self.paths:
            return not asked.is_resource and any(_covers(path, asked.path) for path in self.paths)
        return True

    def _of_resource(self, asked: Asked) -> bool:
        if self.namespaces and asked.namespace not in self.namespaces:
            return False
        return not self.resources or any(one.match(asked) for one in self.resources)


@dataclass(frozen=True, slots=True)
class Policy:
    rules: tuple[Rule, ...]

    def rule(self, asked: Asked) -> Rule:
        return next((rule for rule in self.rules if rule.match(asked)), NOTHING)


NOTHING = Rule(NONE)
EVERYTHING = Policy((Rule(METADATA),))


def read_policy(text: bytes) -> Policy:
    try:
        found = yaml_read.loads(text)
    except BadRequest as error:
        raise PolicyError(f"the audit policy cannot be read: {error}") from None
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) != ("audit.k8s.io/v1", "Policy"):
        raise PolicyError("the audit policy is not a Policy of audit.k8s.io/v1")
    quiet = STAGE in _stages(found, "omitStages")
    rules = found.get("rules")
    if not isinstance(rules, list) or not rules:
        raise PolicyError("the audit policy has no rules")
    omitted = found.get("omitManagedFields") is True
    return Policy(tuple(_rule(f"rules[{index}]", rule, quiet, omitted) for index, rule in enumerate(rules)))


def _rule(at: str, rule: Any, quiet: bool, omitted: bool) -> Rule:
    if not isinstance(rule, dict):
        raise PolicyError(f"the audit policy's {at} is not an object")
    level = rule.get("level")
    if level not in LEVELS:
        raise PolicyError(f"the audit policy's {at} has no level: {', '.join(LEVELS)} are known")
    of_resources = bool(rule.get("resources") or rule.get("namespaces"))
    paths = _texts(rule, "nonResourceURLs", at)
    if of_resources and paths:
        raise PolicyError(f"the audit policy's {at} has both resources and nonResourceURLs")
    if any("*" in path.removesuffix("*") for path in paths):
        raise PolicyError(f"the audit policy's {at} has a nonResourceURLs entry with a * before its end")
    groups = rule.get("resources") or []
    if not isinstance(groups, list) or not all(isinstance(one, dict) for one in groups):
        raise PolicyError(f"the audit policy's {at}.resources is not a list of objects")
    return Rule(
        level=NONE if quiet or STAGE in _stages(rule, "omitStages") else level,
        omit_owners=omitted if rule.get("omitManagedFields") is None else rule["omitManagedFields"] is True,
        users=_texts(rule, "users", at),
        groups=_texts(rule, "userGroups", at),
        verbs=_texts(rule, "verbs", at),
        resources=tuple(
            Resources(str(one.get("group") or ""), _texts(one, "resources", at), _texts(one, "resourceNames", at))
            for one in groups
        ),
        namespaces=_texts(rule, "namespaces", at),
        paths=paths,
    )


def _texts(owner: dict[str, Any], field: str, at: str) -> tuple[str, ...]:
    found = owner.get(field) or []
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise PolicyError(f"the audit policy's {at}.{field} is not a list of texts")
    return tuple(found)


def _stages(owner: dict[str, Any], field: str) -> tuple[str, ...]:
    stages = _texts(owner, field, "policy")
    for stage in stages:
        if stage not in _STAGES:
            raise PolicyError(f'the audit policy omits an unknown stage "{stage}"')
    return stages


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
