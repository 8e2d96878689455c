"""Registration health of a NodePool, judged by its last few NodeClaims. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.karpenter.karpenter import LAUNCHED, NODE_POOL, NODE_REGISTRATION_HEALTHY
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]
LaunchOutcome = tuple[str, str] | None
"""Reason and message why a NodeClaim did not become a node; None: it did."""
OutcomeBuffer = tuple[LaunchOutcome, ...]

BUFFER_SIZE, UNHEALTHY_FAILURES = 4, 2
"""Number of outcomes kept, and the number of failures among them that make the pool unhealthy."""
REGISTRATION_FAILED: LaunchOutcome = ("RegistrationFailed", "Failed to register node")


def add_outcome(outcomes: OutcomeBuffer, outcome: LaunchOutcome) -> OutcomeBuffer:
    return (*outcomes, outcome)[-BUFFER_SIZE:]


def failed_outcome(claim: Object) -> LaunchOutcome:
    """Outcome of a NodeClaim that was deleted by a liveness timeout."""
    condition = get_condition(claim, LAUNCHED) or {}
    if condition.get("status") == "True":
        return REGISTRATION_FAILED
    return str(condition.get("reason") or "LaunchFailed"), str(condition.get("message") or "")


def outcomes_from_status(pool: Object) -> OutcomeBuffer:
    """Restores outcomes from the status, after a restart."""
    if condition_is(pool, NODE_REGISTRATION_HEALTHY):
        return (None,)
    if condition_is(pool, NODE_REGISTRATION_HEALTHY, "False"):
        condition = get_condition(pool, NODE_REGISTRATION_HEALTHY) or {}
        return ((str(condition.get("reason")), str(condition.get("message") or "")),) * UNHEALTHY_FAILURES
    return ()


def is_condition_outdated(pool: Object) -> bool:
    """True if the NodePool changed since: earlier outcomes do not apply."""
    condition = get_condition(pool, NODE_REGISTRATION_HEALTHY)
    return condition is None or condition.get("observedGeneration") != pool["metadata"].get("generation")


def with_registration_health(pool: Object, outcomes: OutcomeBuffer, now: str) -> Object:
    """Returns the same object if nothing changes. A single failure is inconclusive."""
    failures = [outcome for outcome in outcomes if outcome is not None]
    if len(failures) >= UNHEALTHY_FAILURES:
        status, reason = "False", failures[-1]
    elif None in outcomes:
        status, reason = "True", (NODE_REGISTRATION_HEALTHY, "")
    else:
        status, reason = "Unknown", ("AwaitingReconciliation", "object is awaiting reconciliation")
    return set_condition(
        pool,
        NODE_REGISTRATION_HEALTHY,
        status,
        reason=reason[0],
        message=reason[1],
        observed_generation=pool["metadata"].get("generation"),
        now=now,
    )


def is_owned_by(claim: Object, pool: Object) -> bool:
    """True if the NodeClaim was created by this NodePool, not by an earlier one of the same name."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(each.get("kind") == NODE_POOL and each.get("uid") == pool["metadata"]["uid"] for each in owners)
