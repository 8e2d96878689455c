"""Decides whether a pod may be evicted, and consumes a disruption of its PodDisruptionBudget. Upstream's words;
pure.
"""

from __future__ import annotations

from typing import Any

from shoal.objects.conditions import condition_is, get_condition, set_condition
from shoal.objects.errors import Cause, Forbidden, TooManyRequests

Object = dict[str, Any]

BUDGET_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
MULTIPLE_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
MAX_DISRUPTED_PODS = 2000


def can_ignore_pdb(pod: Object) -> bool:
    """Reports whether the pod is terminal, pending or being deleted."""
    is_deleting = "deletionTimestamp" in pod["metadata"]
    return is_deleting or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")


def may_become_ready(pod: Object) -> bool:
    """Reports whether the pod is Pending. It may become ready, and be guarded by a budget, before it is deleted."""
    return "deletionTimestamp" not in pod["metadata"] and (pod.get("status") or {}).get("phase") == "Pending"


def is_unhealthy_pod_evictable(pod: Object, budget: Object) -> bool:
    """Reports whether an unready pod may be evicted without consuming the budget: the policy allows it, or enough pods
    are healthy.
    """
    if condition_is(pod, "Ready"):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return 0 < desired <= (status.get("currentHealthy") or 0)


def consume_disruption(budget: Object, pod_name: str, now: str) -> Object:
    """Returns the budget with one disruption less. Raises TooManyRequests when none is left."""
    metadata, status = budget["metadata"], budget.get("status") or {}
    if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0):
        raise budget_unsynced_error(metadata["name"])
    allowed, disrupted = status.get("disruptionsAllowed") or 0, status.get("disruptedPods") or {}
    if allowed < 0:
        raise _forbidden_error(metadata["name"], "pdb disruptions allowed is negative")
    if len(disrupted) > MAX_DISRUPTED_PODS:
        reason = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _forbidden_error(metadata["name"], reason)
    if allowed == 0:
        raise TooManyRequests(BUDGET_VIOLATED, causes=[Cause("DisruptionBudget", _violation_message(budget))])
    spent = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, pod_name: now}}
    new = {**budget, "status": spent}
    if allowed > 1:
        return new
    observed_generation = status.get("observedGeneration")
    return set_condition(
        new, "DisruptionAllowed", "False", reason="InsufficientPods", observed_generation=observed_generation, now=now
    )


def budget_unsynced_error(name: str) -> TooManyRequests:
    message = f"The disruption budget {name} is still being processed by the server."
    return TooManyRequests(BUDGET_VIOLATED, retry_after=10, causes=[Cause("DisruptionBudget", message)])


def _violation_message(budget: Object) -> str:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    condition = get_condition(budget, "DisruptionAllowed") or {}
    message = condition.get("message") if condition.get("status") == "False" else ""
    if message and condition.get("reason") == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    current, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if message:
        reason = condition.get("reason")
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _forbidden_error(name: str, reason: str) -> Forbidden:
    message = f'poddisruptionbudget.policy "{name}" is forbidden: {reason}'
    return Forbidden(message, name=name, group="policy", kind="poddisruptionbudget")
