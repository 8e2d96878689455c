"""Validation of container restart policies and resize policies. Upstream's order and words; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.validation.field import validate_enum
from shoal.objects.errors import Cause, duplicate, invalid_value, not_supported, required_value, too_many

Object = dict[str, Any]

RESTART_POLICIES = ("Always", "Never", "OnFailure")
RESTART_ACTIONS = ("Restart", "RestartAllContainers")
MAX_RULES, MAX_EXIT_CODES = 20, 255
_RESOURCES, _RESIZE_ACTIONS = ("cpu", "memory"), ("NotRequired", "RestartContainer")


def validate_restart_policy(container: Object, path: str, *, init: bool = False) -> list[Cause]:
    """Validates policy and rules. Rules of an init container are validated only if it has a policy."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    causes = validate_enum(policy, f"{path}.restartPolicy", *RESTART_POLICIES)
    if policy is None and rules:
        causes = [required_value(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")]
        if init:
            return causes
    if len(rules) > MAX_RULES:
        causes.append(too_many(f"{path}.restartPolicyRules", len(rules), MAX_RULES))
    for i, rule in enumerate(rules):
        causes += _validate_rule(rule, f"{path}.restartPolicyRules[{i}]")
    return causes


def _validate_rule(rule: Object, path: str) -> list[Cause]:
    causes = validate_enum(rule.get("action") or "", f"{path}.action", *RESTART_ACTIONS)
    codes = rule.get("exitCodes")
    if codes is None:
        return [*causes, required_value(f"{path}.exitCodes", "must be specified")]
    causes += validate_enum(codes.get("operator") or "", f"{path}.exitCodes.operator", "In", "NotIn")
    if len(codes.get("values") or ()) > MAX_EXIT_CODES:
        causes.append(too_many(f"{path}.exitCodes.values", len(codes["values"]), MAX_EXIT_CODES))
    return causes


def validate_resize_policy(policies: list[Object], restart: object, path: str) -> list[Cause]:
    """Upstream's path names the list instead of the entry, except for duplicates."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        name, action = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            causes.append(duplicate(f"{path}[{i}]", name))
        seen.add(name)
        causes += _validate_required_enum(name, path, _RESOURCES) + _validate_required_enum(
            action, path, _RESIZE_ACTIONS
        )
        if restart == "Never" and action != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            causes.append(invalid_value(path, action, detail))
    return causes


def _validate_required_enum(value: str, path: str, choices: tuple[str, ...]) -> list[Cause]:
    if not value:
        return [required_value(path)]
    return [] if value in choices else [not_supported(path, value, choices)]


def validate_init_resize_policy(container: Object, path: str) -> list[Cause]:
    """Applies to init containers that terminate before the containers start."""
    detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return [
        invalid_value(f"{path}.resizePolicy[{i}].restartPolicy", "RestartContainer", detail)
        for i, policy in enumerate(container.get("resizePolicy") or ())
        if policy.get("restartPolicy") == "RestartContainer"
    ]
