"""Computes the disruptions a PodDisruptionBudget still allows and its status. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.kinds.core.pod.status import is_ready, is_terminal
from shoal.objects.conditions import get_condition, set_condition
from shoal.objects.duration import parse_time
from shoal.objects.ownership import controller_of

Object = dict[str, Any]
ReplicaCounts = Mapping[str, int]
"""Desired replicas by the uid of the controller that has the scale."""

DELETION_SECONDS = 120.0
"""A pod whose eviction was granted but which is not deleting after this time is assumed to stay."""
DISRUPTION_ALLOWED = "DisruptionAllowed"
DISRUPTION_TARGET = "DisruptionTarget"
UNMANAGED_MESSAGE = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)


@dataclass(frozen=True, slots=True)
class PDBStatus:
    status: Object
    recheck_after: float | None
    """Seconds until a granted eviction expires."""
    overdue: tuple[Object, ...] = ()
    """Pods whose granted eviction expired without deletion."""


def needs_scales(budget: Object) -> bool:
    """Returns whether the budget is relative to the desired replicas instead of a number of pods."""
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def unmanaged_pods(budget: Object, pods: Iterable[Object]) -> list[Object]:
    return [pod for pod in pods if controller_of(pod) is None] if needs_scales(budget) else []


def pdb_status(budget: Object, pods: list[Object], scales: ReplicaCounts, now: float, now_rfc3339: str) -> PDBStatus:
    """`scales` covers all controllers of the pods; `now_rfc3339` is `now` as text."""
    expected, desired = _expected_and_desired(budget["spec"], len(pods), scales)
    disrupted, recheck, overdue = _disrupted_pods(budget, pods, now)
    healthy = sum(
        1
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted and is_ready(pod)
    )
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    generation = budget["metadata"].get("generation", 0)
    before = budget.get("status") or {}
    status: Object = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": generation,
        **({"disruptedPods": disrupted} if disrupted else {}),
        **({"conditions": before["conditions"]} if before.get("conditions") else {}),
    }
    state, reason = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
    updated = set_condition(
        {**budget, "status": status},
        DISRUPTION_ALLOWED,
        state,
        reason=reason,
        observed_generation=generation,
        now=now_rfc3339,
    )
    return PDBStatus(updated["status"], recheck, overdue)


def sync_failed_status(budget: Object, reason: str, now_rfc3339: str) -> Object:
    """Returns the status if the computation failed: no disruption is allowed until it succeeds."""
    status = {**(budget.get("status") or {}), "disruptionsAllowed": 0}
    generation = status.get("observedGeneration") or 0
    updated = set_condition(
        {**budget, "status": status},
        DISRUPTION_ALLOWED,
        "False",
        reason="SyncFailed",
        message=reason,
        observed_generation=generation,
        now=now_rfc3339,
    )
    result: Object = updated["status"]
    return result


def _expected_and_desired(spec: Object, pods: int, scales: ReplicaCounts) -> tuple[int, int]:
    """Returns the expected pods and the desired healthy ones."""
    max_unavailable, min_available = spec.get("maxUnavailable"), spec.get("minAvailable")
    total = sum(scales.values())
    if max_unavailable is not None:
        return total, max(total - _scaled_value(max_unavailable, total), 0)
    if isinstance(min_available, str):
        return total, _scaled_value(min_available, total)
    return (pods, int(min_available)) if min_available is not None else (0, 0)


def _scaled_value(value: int | str, total: int) -> int:
    """Returns a number as is, a percentage of the total rounded up."""
    return math.ceil(int(value.removesuffix("%")) * total / 100) if isinstance(value, str) else int(value)


def _disrupted_pods(budget: Object, pods: list[Object], now: float) -> tuple[Object, float | None, tuple[Object, ...]]:
    recorded = (budget.get("status") or {}).get("disruptedPods") or {}
    kept: Object = {}
    recheck: float | None = None
    overdue: list[Object] = []
    if not recorded:
        return kept, recheck, ()
    for pod in pods:
        since = recorded.get(pod["metadata"]["name"])
        if since is None or "deletionTimestamp" in pod["metadata"]:
            continue
        remaining = (parse_time(since) or 0.0) + DELETION_SECONDS - now
        if remaining < 0:
            overdue.append(pod)
            continue
        kept[pod["metadata"]["name"]] = since
        recheck = remaining if recheck is None else min(recheck, remaining)
    return kept, recheck, tuple(overdue)


def seconds_until_stale(pod: Object, now: float) -> float | None:
    """Returns the seconds until a DisruptionTarget condition is stale because the pod was not deleted; None without
    such a condition.
    """
    if "deletionTimestamp" in pod["metadata"] or is_terminal(pod):
        return None
    condition = get_condition(pod, DISRUPTION_TARGET)
    if condition is None or condition.get("status") != "True" or condition.get("reason") == "TerminationByKubelet":
        return None
    return max((parse_time(condition.get("lastTransitionTime")) or 0.0) + DELETION_SECONDS - now, 0.0)
