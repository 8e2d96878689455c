"""Whether the NodeClaims of a NodePool become nodes: judged by the last few of them. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.karpenter import LAUNCHED, NODE_POOL, NODE_REGISTRATION_HEALTHY
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]
Outcome = tuple[str, str] | None
"""Why a NodeClaim did not become a node: reason and message. None: it did."""
Ring = tuple[Outcome, ...]

SIZE, UNHEALTHY = 4, 2
"""How many are remembered, and with how many failures among them the pool is not healthy."""
FAILED: Outcome = ("RegistrationFailed", "Failed to register node")


def after(ring: Ring, outcome: Outcome) -> Ring:
    return (*ring, outcome)[-SIZE:]


def failure(claim: Object) -> Outcome:
    """Of a NodeClaim that was given up."""
    launched = get_condition(claim, LAUNCHED) or {}
    if launched.get("status") == "True":
        return FAILED
    return str(launched.get("reason") or "LaunchFailed"), str(launched.get("message") or "")


def remembered(pool: Object) -> Ring:
    """As far as its status tells: for who was not there."""
    if condition_is(pool, NODE_REGISTRATION_HEALTHY):
        return (None,)
    if condition_is(pool, NODE_REGISTRATION_HEALTHY, "False"):
        said = get_condition(pool, NODE_REGISTRATION_HEALTHY) or {}
        return ((str(said.get("reason")), str(said.get("message") or "")),) * UNHEALTHY
    return ()


def is_outdated(pool: Object) -> bool:
    """It has changed since: what was tried before says nothing of it."""
    said = get_condition(pool, NODE_REGISTRATION_HEALTHY)
    return said is None or said.get("observedGeneration") != pool["metadata"].get("generation")


def with_health(pool: Object, ring: Ring, now: str) -> Object:
    """The very same where nothing changes. One failure alone says nothing."""
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
    """It was made by this very pool, not by one of the same name before it."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(each.get("kind") == NODE_POOL and each.get("uid") == pool["metadata"]["uid"] for each in owners)
