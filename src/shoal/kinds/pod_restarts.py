"""Validation of container restart policies and resize policies. Upstream's order and words; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import one_of
from shoal.objects.errors import Cause, duplicate, invalid_value, not_supported, required, too_many

Object = dict[str, Any]

POLICIES = ("Always", "Never", "OnFailure")
ACTIONS = ("Restart", "RestartAllContainers")
MOST_RULES, MOST_CODES = 20, 255
_RESOURCES, _RESIZES = ("cpu", "memory"), ("NotRequired", "RestartContainer")


def restart_policy(container: Object, path: str, *, init: bool = False) -> list[Cause]:
    """Validates policy and rules. Rules of an init container are validated only if it has a policy."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    causes = one_of(policy, f"{path}.restartPolicy", *POLICIES)
    if policy is None and rules:
        causes = [required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")]
        if init:
            return causes
    if len(rules) > MOST_RULES:
        causes.append(too_many(f"{path}.restartPolicyRules", len(rules), MOST_RULES))
    for i, rule in enumerate(rules):
        causes += _rule(rule, f"{path}.restartPolicyRules[{i}]")
    return causes


def _rule(rule: Object, path: str) -> list[Cause]:
    causes = one_of(rule.get("action") or "", f"{path}.action", *ACTIONS)
    codes = rule.get("exitCodes")
    if codes is None:
        return [*causes, required(f"{path}.exitCodes", "must be specified")]
    causes += one_of(codes.get("operator") or "", f"{path}.exitCodes.operator", "In", "NotIn")
    if len(codes.get("values") or ()) > MOST_CODES:
        causes.append(too_many(f"{path}.exitCodes.values", len(codes["values"]), MOST_CODES))
    return causes


def resize_policy(policies: list[Object], restart: object, path: str) -> list[Cause]:
    """Upstream's path names the list instead of the entry, except for duplicates."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        name, action = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            causes.append(duplicate(f"{path}[{i}]", name))
        seen.add(name)
        causes += _one_of(name, path, _RESOURCES) + _one_of(action, path, _RESIZES)
        if restart == "Never" and action != "NotRequired":
            why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            causes.append(invalid_value(path, action, why))
    return causes


def _one_of(value: str, path: str, choices: tuple[str, ...]) -> list[Cause]:
    if not value:
        return [required(path)]
    return [] if value in choices else [not_supported(path, value, choices)]


def no_restart_by_resize(container: Object, path: str) -> list[Cause]:
    """Applies to init containers that terminate before the containers start."""
    why = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return [
        invalid_value(f"{path}.resizePolicy[{i}].restartPolicy", "RestartContainer", why)
        for i, policy in enumerate(container.get("resizePolicy") or ())
        if policy.get("restartPolicy") == "RestartContainer"
    ]
