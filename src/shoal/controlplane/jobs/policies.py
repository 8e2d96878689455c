"""Pod failure policy and success policy of Jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.jobs.indexes import Indexes

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Action for a failed pod, by the first matching rule."""

    action: str = ""
    """Empty if no rule matches."""
    message: str = ""
    """Set by a rule that fails the Job."""

    @property
    def counts(self) -> bool:
        return self.action != "Ignore"


def judged(job: Object, pod: Object) -> Verdict:
    metadata, status = pod["metadata"], pod.get("status") or {}
    for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action, said = rule["action"], ""
        if rule.get("onExitCodes") is not None:
            container = _by_exit_code(status, rule["onExitCodes"])
            if container is None:
                continue
            code = container["state"]["terminated"]["exitCode"]
            said = f"Container {container['name']} for pod {metadata['namespace']}/{metadata['name']} failed with "
            said += f"exit code {code}"
        else:
            condition = _by_condition(status, rule.get("onPodConditions") or ())
            if condition is None:
                continue
            said = f"Pod {metadata['namespace']}/{metadata['name']} has condition {condition['type']}"
        return Verdict(action, f"{said} matching {action} rule at index {number}" if action == "FailJob" else "")
    return Verdict()


def _by_exit_code(status: Object, requirement: Object) -> Object | None:
    name, values, negated = requirement.get("containerName"), requirement["values"], requirement["operator"] == "NotIn"
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field) or ():
            code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
            if code and name in (None, container["name"]) and (code in values) is not negated:
                found: Object = container
                return found
    return None


def _by_condition(status: Object, patterns: Iterable[Object]) -> Object | None:
    wanted = {(pattern["type"], pattern.get("status")) for pattern in patterns}
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) in wanted:
            found: Object = condition
            return found
    return None


def success_by_policy(job: Object, succeeded: Indexes) -> str | None:
    """Returns the message of the success policy rule that is met, if any."""
    spec = job["spec"]
    rules = (spec.get("successPolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules if succeeded.spans else ()):
        if _is_met(rule, spec["completions"], succeeded):
            return f"Matched rules at index {number}"
    return None


def _is_met(rule: Object, completions: int, succeeded: Indexes) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and succeeded.total >= count
    required = Indexes.parse(rule["succeededIndexes"], completions)
    if not required.spans:
        return False
    common = required.common(succeeded)
    return common == required.total or (count is not None and common >= count)
