"""Registration health of a NodePool, judged by its last few NodeClaims. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.karpenter import LAUNCHED, NODE_POOL, NODE_REGISTRATION_HEALTHY
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]
Outcome = tuple[str, str] | None
"""Reason and message why a NodeClaim did not become a node; None: it did."""
Ring = tuple[Outcome, ...]

SIZE, UNHEALTHY = 4, 2
"""Number of outcomes kept, and the number of failures among them that make the pool unhealthy."""
FAILED: Outcome = ("RegistrationFailed", "Failed to register node")


def after(ring: Ring, outcome: Outcome) -> Ring:
    return (*ring, outcome)[-SIZE:]


def failure(claim: Object) -> Outcome:
    """Outcome of a NodeClaim that was deleted by a liveness timeout."""
    launched = get_condition(claim, LAUNCHED) or {}
    if launched.get("status") == "True":
        return FAILED
    return str(launched.get("reason") or "LaunchFailed"), str(launched.get("message") or "")


def remembered(pool: Object) -> Ring:
    """Restores outcomes from the status, after a restart."""
    if condition_is(pool, NODE_REGISTRATION_HEALTHY):
        return (None,)
    if condition_is(pool, NODE_REGISTRATION_HEALTHY, "False"):
        said = get_condition(pool, NODE_REGISTRATION_HEALTHY) or {}
        return ((str(said.get("reason")), str(said.get("message") or "")),) * UNHEALTHY
    return ()


def is_outdated(pool: Object) -> bool:
    """True if the NodePool changed since: earlier outcomes do not apply."""
    said = get_condition(pool, NODE_REGISTRATION_HEALTHY)
    return said is None or said.get("observedGeneration") != pool["metadata"].get("generation")


def with_health(pool: Object, ring: Ring, now: str) -> Object:
    """Returns the same object if nothing changes. A single failure is inconclusive."""
    failures = [outcome for outcome in ring if outcome is not None]
    if len(failures) >= UNHEALTHY:
        status, said = "False", failures[-1]
    elif None in ring:
        status, said = "True", (NODE_REGISTRATION_HEALTHY, "")
    else:
        status, said = "Unknown", ("AwaitingReconciliation", "object is awaiting reconciliation")
    return set_condition(
        pool,
        NODE_REGISTRATION_HEALTHY,
        status,
        reason=said[0],
        message=said[1],
        observed_generation=pool["metadata"].get("generation"),
        now=now,
    )


def is_of(claim: Object, pool: Object) -> bool:
    """True if the NodeClaim was created by this NodePool, not by an earlier one of the same name."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(each.get("kind") == NODE_POOL and each.get("uid") == pool["metadata"]["uid"] for each in owners)
