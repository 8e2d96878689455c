"""Pod failure policy and success policy of Jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.jobs.indexes import IndexSet

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodFailureAction:
    """Action for a failed pod, by the first matching rule."""

    action: str = ""
    """Empty if no rule matches."""
    message: str = ""
    """Set by a rule that fails the Job."""

    @property
    def is_counted(self) -> bool:
        return self.action != "Ignore"


def match_pod_failure_policy(job: Object, pod: Object) -> PodFailureAction:
    metadata, status = pod["metadata"], pod.get("status") or {}
    for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action, message = rule["action"], ""
        if rule.get("onExitCodes") is not None:
            container = _match_exit_code(status, rule["onExitCodes"])
            if container is None:
                continue
            code = container["state"]["terminated"]["exitCode"]
            message = f"Container {container['name']} for pod {metadata['namespace']}/{metadata['name']} failed with "
            message += f"exit code {code}"
        else:
            condition = _match_condition(status, rule.get("onPodConditions") or ())
            if condition is None:
                continue
            message = f"Pod {metadata['namespace']}/{metadata['name']} has condition {condition['type']}"
        return PodFailureAction(
            action, f"{message} matching {action} rule at index {number}" if action == "FailJob" else ""
        )
    return PodFailureAction()


def _match_exit_code(status: Object, requirement: Object) -> Object | None:
    name, values, negated = requirement.get("containerName"), requirement["values"], requirement["operator"] == "NotIn"
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field) or ():
            code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
            if code and name in (None, container["name"]) and (code in values) is not negated:
                match: Object = container
                return match
    return None


def _match_condition(status: Object, patterns: Iterable[Object]) -> Object | None:
    patterns_set = {(pattern["type"], pattern.get("status")) for pattern in patterns}
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) in patterns_set:
            match: Object = condition
            return match
    return None


def match_success_policy(job: Object, succeeded: IndexSet) -> str | None:
    """Returns the message of the success policy rule that is met, if any."""
    spec = job["spec"]
    rules = (spec.get("successPolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules if succeeded.intervals else ()):
        if _success_rule_matches(rule, spec["completions"], succeeded):
            return f"Matched rules at index {number}"
    return None


def _success_rule_matches(rule: Object, completions: int, succeeded: IndexSet) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and succeeded.total >= count
    required = IndexSet.parse(rule["succeededIndexes"], completions)
    if not required.intervals:
        return False
    common = required.intersection_size(succeeded)
    return common == required.total or (count is not None and common >= count)
