"""A Job's podFailurePolicy and successPolicy: validation in upstream's words. Pure."""

from __future__ import annotations

from shoal.kinds.validation.field import Object, invalid_causes, repeated_positions, validate_enum, validate_nonnegative
from shoal.objects.errors import Cause, duplicate, invalid_value, required_value, too_many
from shoal.objects.names import is_qualified_name

MAX_RULES, MAX_EXIT_CODES = 20, 255
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")


def validate_pod_failure_policy(spec: Object, path: str) -> list[Cause]:
    rules, field_path = spec["podFailurePolicy"].get("rules") or [], f"{path}.rules"
    causes = [too_many(field_path, len(rules), MAX_RULES)] if len(rules) > MAX_RULES else []
    pod = spec["template"]["spec"]
    containers = {c.get("name") for f in ("containers", "initContainers") for c in pod.get(f) or ()}
    for i, rule in enumerate(rules):
        causes += _validate_failure_rule(spec, rule, f"{field_path}[{i}]", containers)
    return causes


def _validate_failure_rule(spec: Object, rule: Object, path: str, containers: set[object]) -> list[Cause]:
    action, codes, conditions = rule.get("action") or "", rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if not action:
        causes = [required_value(f"{path}.action", f"valid values: {_quoted_list(_ACTIONS)}")]
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        causes = [invalid_value(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")]
    else:
        causes = validate_enum(action, f"{path}.action", *_ACTIONS)
    if codes is not None:
        causes += _validate_exit_codes(codes, f"{path}.onExitCodes", containers)
    if len(conditions) > MAX_RULES:
        causes.append(too_many(f"{path}.onPodConditions", len(conditions), MAX_RULES))
    for i, pattern in enumerate(conditions):
        item_path, kind = f"{path}.onPodConditions[{i}]", pattern.get("type") or ""
        causes += invalid_causes(f"{item_path}.type", kind, is_qualified_name(kind))
        causes += validate_enum(pattern["status"], f"{item_path}.status", *_STATUSES)
    if codes is not None and conditions:
        causes.append(_invalid_without_value(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        causes.append(_invalid_without_value(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return causes


def _invalid_without_value(path: str, detail: str) -> Cause:
    """Returns an invalid value cause without the value, which is too large to print."""
    return Cause("FieldValueInvalid", f"{path}: Invalid value: {detail}", path)


def _quoted_list(choices: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{choice}"' for choice in choices) + "]"


def _validate_exit_codes(codes: Object, path: str, containers: set[object]) -> list[Cause]:
    operator, values, container = codes.get("operator") or "", codes.get("values") or [], codes.get("containerName")
    if operator:
        causes = validate_enum(operator, f"{path}.operator", "In", "NotIn")
    else:
        causes = [required_value(f"{path}.operator", f"valid values: {_quoted_list(('In', 'NotIn'))}")]
    if container is not None and container not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid_value(f"{path}.containerName", container, detail))
    if not values:
        causes.append(invalid_value(f"{path}.values", codes.get("values"), "at least one value is required"))
    elif len(values) > MAX_EXIT_CODES:
        causes.append(too_many(f"{path}.values", len(values), MAX_EXIT_CODES))
    repeated = set(repeated_positions(values))
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            causes.append(invalid_value(f"{path}.values[{i}]", value, "must not be 0 for the In operator"))
        if i in repeated:
            causes.append(duplicate(f"{path}.values[{i}]", value))
    if values != sorted(values):
        causes.append(invalid_value(f"{path}.values", values, "must be ordered"))
    return causes


def validate_success_policy(spec: Object, path: str) -> list[Cause]:
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        return [invalid_value(path, policy, "requires indexed completion mode")]
    rules, field_path = policy.get("rules") or [], f"{path}.rules"
    if not rules:
        return [required_value(field_path, "at least one rules must be specified when the successPolicy is specified")]
    causes = [too_many(field_path, len(rules), MAX_RULES)] if len(rules) > MAX_RULES else []
    for i, rule in enumerate(rules):
        causes += _validate_success_rule(rule, f"{field_path}[{i}]", spec.get("completions") or 0)
    return causes


def _validate_success_rule(rule: Object, path: str, completions: int) -> list[Cause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        return [required_value(path, "at least one of succeededCount or succeededIndexes must be specified")]
    causes, total = validate_nonnegative(rule, path, "succeededCount"), None
    if indexes is not None:
        try:
            total = count_indexes(indexes, completions)
        except ValueError as error:
            detail = f"error parsing succeededIndexes: {error}"
            causes.append(invalid_value(f"{path}.succeededIndexes", indexes, detail))
    if count is not None and count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        causes.append(invalid_value(f"{path}.succeededCount", count, detail))
    if count is not None and total is not None and count > total:
        limit_text = "the number of indexes in the specified succeededIndexes field"
        causes.append(
            invalid_value(f"{path}.succeededCount", count, f"must be less than or equal to {total} ({limit_text})")
        )
    return causes


def count_indexes(text: str, completions: int) -> int:
    """Returns how many indexes a text such as `1,3-5` names. Raises ValueError with upstream's message."""
    total, last = 0, -1
    for interval in text.split(",") if text else ():
        low, high = _parse_interval(interval, completions)
        if low <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {low}")
        total, last = total + high - low + 1, high
    return total


def _parse_interval(text: str, completions: int) -> tuple[int, int]:
    parts = text.split("-")
    if len(parts) > 2:
        rule = "an index interval can have at most two parts separated by '-'"
        raise ValueError(f'the fragment "{text}" violates the requirement that {rule}')
    for part in parts:
        if not (part.isascii() and part.isdecimal()):
            raise ValueError(f'cannot convert string to integer for index: "{part}"')
        if int(part) >= completions:
            raise ValueError(f'too large index: "{part}"')
    low, high = int(parts[0]), int(parts[-1])
    if len(parts) == 2 and low >= high:
        raise ValueError(f"non-increasing order, previous: {low}, current: {high}")
    return low, high
