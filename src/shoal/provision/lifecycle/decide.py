"""Decisions of the NodeClaim lifecycle: Launched, Registered, Initialized, liveness timeouts and expiration. Pure.

Draining is in `termination.decide`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fit.resources import amounts, quantities
from shoal.fit.taints import same
from shoal.kinds.karpenter import (
    CLASS_LABEL,
    CONSISTENT_STATE_FOUND,
    DO_NOT_SYNC_TAINTS,
    FINALIZER,
    INITIALIZED,
    INITIALIZED_LABEL,
    LAUNCHED,
    NODE_CLAIM,
    READY,
    REGISTERED,
    REGISTERED_LABEL,
    TERMINATION_TIME,
    UNREGISTERED,
    annotation,
    class_ref,
    is_ephemeral,
    is_going,
    reference,
    seconds,
)
from shoal.objects.conditions import condition_is, get_condition, set_condition
from shoal.objects.duration import parse_time
from shoal.provision.cloudprovider import Instance

Object = dict[str, Any]

LAUNCH_SECONDS, REGISTRATION_SECONDS = 5 * 60.0, 15 * 60.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Backoff between launch attempts."""
LONGEST_MESSAGE = 300
SHARE_EXPECTED = 0.9
"""A node with less than this share of the expected capacity fails the consistency check."""
_STATIONS = (LAUNCHED, REGISTERED, INITIALIZED)
_NOT_INHERITED = ("kubectl.kubernetes.io/last-applied-configuration", "shoal.dev/cluster")


def with_condition(claim: Object, condition: str, status: str, now: str, reason: str = "", message: str = "") -> Object:
    """Also sets Ready, which is derived from Launched, Registered and Initialized."""
    generation = claim["metadata"].get("generation")
    found = set_condition(
        claim,
        condition,
        status,
        reason=reason or condition,
        message=message,
        observed_generation=generation,
        now=now,
    )
    if condition not in _STATIONS:
        return found
    missing = [each for each in _STATIONS if not condition_is(found, each)]
    told = [f"{each}={(get_condition(found, each) or {}).get('status', 'Unknown')}" for each in missing]
    failed = any(each.endswith("=False") for each in told)
    return set_condition(
        found,
        READY,
        "False" if failed else "Unknown" if told else "True",
        reason="UnhealthyDependents" if failed else "ReconcilingDependents" if told else READY,
        message=", ".join(told),
        observed_generation=generation,
        now=now,
    )


def launch_pause(failures: int) -> float:
    """Seconds until the next attempt after this many failures."""
    return min(FIRST_PAUSE * float(2 ** min(failures - 1, 10)), LONGEST_PAUSE)


def truncated(message: str) -> str:
    return message if len(message) < LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}..."


def launched(claim: Object, instance: Instance, now: str) -> Object:
    """Returns the NodeClaim with the status of its instance."""
    status = {
        **(claim.get("status") or {}),
        "providerID": instance.provider_id,
        "capacity": quantities(instance.capacity),
        "allocatable": quantities(instance.allocatable),
    }
    if instance.image:
        status["imageID"] = instance.image
    return with_condition({**claim, "status": status}, LAUNCHED, "True", now)


def launch_labels(claim: Object, instance: Instance) -> dict[str, str]:
    """Labels of the instance that the NodeClaim lacks; its own labels win."""
    has = claim["metadata"].get("labels") or {}
    return {key: value for key, value in instance.labels.items() if key not in has}


def is_lost(claim: Object, instance: Instance | None, node: Object | None) -> bool:
    """True if the instance is gone or terminating.

    A Ready node runs on some machine, whatever the provider reports.
    """
    if not condition_is(claim, LAUNCHED):
        return False
    if instance is None:
        return node is None or not condition_is(node, READY)
    return instance.going


def overdue(claim: Object, now: float) -> str:
    """Name of the liveness timeout that was exceeded; empty if none."""
    age = now - _created(claim, now)
    if not condition_is(claim, LAUNCHED):
        return "launch_timeout" if age >= LAUNCH_SECONDS else ""
    if not condition_is(claim, REGISTERED):
        return "registration_timeout" if age >= REGISTRATION_SECONDS else ""
    return ""


def is_expired(claim: Object, now: float) -> bool:
    after = seconds(claim["spec"].get("expireAfter"))
    return after is not None and now >= _created(claim, now) + after


def due(claim: Object, now: float) -> float | None:
    """Seconds until the next liveness timeout or expiration; None if there is none."""
    created, ends = _created(claim, now), []
    if not condition_is(claim, REGISTERED):
        ends.append(created + (REGISTRATION_SECONDS if condition_is(claim, LAUNCHED) else LAUNCH_SECONDS))
    after = seconds(claim["spec"].get("expireAfter"))
    if after is not None:
        ends.append(created + after)
    return max(0.0, min(ends) - now) if ends else None


def _created(claim: Object, now: float) -> float:
    return parse_time(claim["metadata"].get("creationTimestamp")) or now


def lacks_unregistered_taint(node: Object) -> bool:
    """True if the node came without the taint that keeps pods away until registration."""
    labels, taints = node["metadata"].get("labels") or {}, (node.get("spec") or {}).get("taints") or ()
    return REGISTERED_LABEL not in labels and not any(taint.get("key") == UNREGISTERED for taint in taints)


def registration_patch(claim: Object, node: Object) -> Object | None:
    """Patch with the labels, annotations, taints, owner and finalizer from the NodeClaim; None if the node has them."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    has = metadata.get("labels") or {}
    labels = {CLASS_LABEL: class_ref(claim["spec"]).get("name", "")} | (claim["metadata"].get("labels") or {})
    labels[REGISTERED_LABEL] = "true"
    given = claim["metadata"].get("annotations") or {}
    annotations = {
        key: value for key, value in given.items() if key not in _NOT_INHERITED and "cluster.x-k8s.io" not in key
    }
    patch: Object = {}
    if missing := _missing(labels, has):
        patch["labels"] = missing
    if missing := _missing(annotations, metadata.get("annotations")):
        patch["annotations"] = missing
    owner = reference(NODE_CLAIM, claim)
    owners = metadata.get("ownerReferences") or []
    if not any(each.get("uid") == owner["uid"] for each in owners):
        patch["ownerReferences"] = [*owners, owner]
    finalizers = metadata.get("finalizers") or []
    if FINALIZER not in finalizers:
        patch["finalizers"] = [*finalizers, FINALIZER]
    own = REGISTERED_LABEL not in has and has.get(DO_NOT_SYNC_TAINTS) != "true"
    taints = _registered_taints(claim, spec.get("taints") or [], own=own)
    found: Object = {"metadata": patch} if patch else {}
    if taints != (spec.get("taints") or []):
        found["spec"] = {"taints": taints}
    return found or None


def _registered_taints(claim: Object, has: list[Object], *, own: bool) -> list[Object]:
    """Taints of the NodeClaim are added once, at registration. Afterwards others may remove them."""
    kept = [taint for taint in has if taint.get("key") != UNREGISTERED]
    spec = claim["spec"]
    wanted = [*(spec.get("taints") or ()), *(spec.get("startupTaints") or ())] if own else []
    return [*kept, *(taint for taint in wanted if not any(same(taint, old) for old in kept))]


def uninitialized(claim: Object, node: Object) -> tuple[str, str] | None:
    """Reason and message why the node is not initialized; None if it is."""
    taints = (node.get("spec") or {}).get("taints") or ()
    if not condition_is(node, READY):
        said = (get_condition(node, READY) or {}).get("message") or "the node has not reported yet"
        return "NodeNotReady", f"Node status is not Ready, {said}"
    for taint in claim["spec"].get("startupTaints") or ():
        if any(same(taint, each) for each in taints):
            return "StartupTaintsExist", f'StartupTaint "{taint["key"]}:{taint["effect"]}" still exists'
    for taint in taints:
        if is_ephemeral(taint):
            return "KnownEphemeralTaintsExist", f'KnownEphemeralTaint "{taint["key"]}:{taint["effect"]}" still exists'
    has = amounts((node.get("status") or {}).get("allocatable"))
    missing = next((name for name, amount in _requests(claim).items() if amount > 0 and not has.get(name)), None)
    return ("ResourceNotRegistered", f'Resource "{missing}" was requested but not registered') if missing else None


def initialized_patch(node: Object) -> Object | None:
    if (node["metadata"].get("labels") or {}).get(INITIALIZED_LABEL) == "true":
        return None
    return {"metadata": {"labels": {INITIALIZED_LABEL: "true"}}}


def inconsistencies(claim: Object, node: Object) -> list[str]:
    """Requested resources of which the node has much less than expected."""
    has = amounts((node.get("status") or {}).get("capacity"))
    bought = amounts((claim.get("status") or {}).get("capacity"))
    found = []
    for name, amount in sorted(_requests(claim).items()):
        there, expected = has.get(name, 0), bought.get(name, 0)
        if amount > 0 and expected > 0 and there < SHARE_EXPECTED * expected:
            said = f"expected {_quantity(name, expected)} of resource {name}, but found {_quantity(name, there)}"
            found.append(f"{said} ({100 * there / expected:.1f}% of expected)")
    return found


def with_consistency(claim: Object, node: Object, now: str) -> Object:
    """Checked only after initialization: before that a node may still be reporting."""
    if not condition_is(claim, INITIALIZED):
        return claim
    if inconsistencies(claim, node):
        said = ("ConsistencyCheckFailed", "Consistency Check Failed")
        return with_condition(claim, CONSISTENT_STATE_FOUND, "False", now, *said)
    return with_condition(claim, CONSISTENT_STATE_FOUND, "True", now)


def termination_time(claim: Object) -> float | None:
    """Time at which termination stops waiting for pods; None: it always waits."""
    return parse_time(annotation(claim, TERMINATION_TIME))


def wanted_termination_time(claim: Object) -> float | None:
    """Value that the termination time annotation lacks; None if it is set or there is no terminationGracePeriod."""
    grace = seconds(claim["spec"].get("terminationGracePeriod"))
    began = parse_time(claim["metadata"].get("deletionTimestamp"))
    if annotation(claim, TERMINATION_TIME) or grace is None or began is None:
        return None
    return began + grace


def needs_finalizer(claim: Object) -> bool:
    return not is_going(claim) and FINALIZER not in (claim["metadata"].get("finalizers") or ())


def without_finalizer(obj: Object) -> list[str]:
    """Remaining finalizers of a NodeClaim or node."""
    return [each for each in obj["metadata"].get("finalizers") or () if each != FINALIZER]


def _requests(claim: Object) -> Mapping[str, int]:
    return amounts((claim["spec"].get("resources") or {}).get("requests"))


def _quantity(name: str, amount: int) -> str:
    return quantities({name: amount})[name]


def _missing(wanted: Mapping[str, str], has: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if (has or {}).get(key) != value}
