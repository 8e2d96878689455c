"""Decisions of the NodeClaim lifecycle: Launched, Registered, Initialized, liveness timeouts and expiration. Pure.

Draining is in `termination.decide`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fit.resources import parse_amounts, to_quantities
from shoal.fit.taints import is_same_taint
from shoal.kinds.clusterapi.simulated_node import is_simulated
from shoal.kinds.karpenter.karpenter import (
    CONSISTENT_STATE_FOUND,
    DO_NOT_SYNC_TAINTS,
    INITIALIZED,
    INITIALIZED_LABEL,
    LAUNCHED,
    NODE_CLAIM,
    NODE_CLASS_LABEL,
    READY,
    REGISTERED,
    REGISTERED_LABEL,
    TERMINATION_FINALIZER,
    TERMINATION_TIME,
    UNREGISTERED_TAINT_KEY,
    annotation_of,
    is_deleting,
    is_ephemeral_taint,
    node_class_ref,
    owner_reference,
    parse_duration,
)
from shoal.objects.conditions import condition_is, get_condition, set_condition
from shoal.objects.duration import parse_time
from shoal.provision.cloudprovider.types import Instance

Object = dict[str, Any]

LAUNCH_SECONDS, REGISTRATION_SECONDS = 5 * 60.0, 15 * 60.0
BASE_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0
"""Backoff between launch attempts."""
MAX_MESSAGE_LENGTH = 300
MIN_CAPACITY_SHARE = 0.9
"""A node with less than this share of the expected capacity fails the consistency check."""
_LIFECYCLE_CONDITIONS = (LAUNCHED, REGISTERED, INITIALIZED)
_NOT_INHERITED = ("kubectl.kubernetes.io/last-applied-configuration", "shoal.dev/cluster")


def with_condition(claim: Object, condition: str, status: str, now: str, reason: str = "", message: str = "") -> Object:
    """Also sets Ready, which is derived from Launched, Registered and Initialized."""
    generation = claim["metadata"].get("generation")
    new = set_condition(
        claim,
        condition,
        status,
        reason=reason or condition,
        message=message,
        observed_generation=generation,
        now=now,
    )
    if condition not in _LIFECYCLE_CONDITIONS:
        return new
    unmet = [each for each in _LIFECYCLE_CONDITIONS if not condition_is(new, each)]
    statuses = [f"{each}={(get_condition(new, each) or {}).get('status', 'Unknown')}" for each in unmet]
    failed = any(each.endswith("=False") for each in statuses)
    return set_condition(
        new,
        READY,
        "False" if failed else "Unknown" if statuses else "True",
        reason="UnhealthyDependents" if failed else "ReconcilingDependents" if statuses else READY,
        message=", ".join(statuses),
        observed_generation=generation,
        now=now,
    )


def launch_backoff(failures: int) -> float:
    """Seconds until the next attempt after this many failures."""
    return min(BASE_BACKOFF_SECONDS * float(2 ** min(failures - 1, 10)), MAX_BACKOFF_SECONDS)


def truncate_message(message: str) -> str:
    return message if len(message) < MAX_MESSAGE_LENGTH else f"{message[:MAX_MESSAGE_LENGTH]}..."


def launched_status(claim: Object, instance: Instance, now: str) -> Object:
    """Returns the NodeClaim with the status of its instance."""
    status = {
        **(claim.get("status") or {}),
        "providerID": instance.provider_id,
        "capacity": to_quantities(instance.capacity),
        "allocatable": to_quantities(instance.allocatable),
    }
    if instance.image:
        status["imageID"] = instance.image
    return with_condition({**claim, "status": status}, LAUNCHED, "True", now)


def launch_labels(claim: Object, instance: Instance) -> dict[str, str]:
    """Labels of the instance that the NodeClaim lacks; its own labels win."""
    own = claim["metadata"].get("labels") or {}
    return {key: value for key, value in instance.labels.items() if key not in own}


def is_lost(claim: Object, instance: Instance | None, node: Object | None) -> bool:
    """True if the instance is gone or terminating.

    A Ready node runs on some machine, whatever the provider reports.
    """
    if not condition_is(claim, LAUNCHED):
        return False
    if instance is None:
        return node is None or not condition_is(node, READY)
    return instance.deleting


def liveness_timeout(claim: Object, now: float) -> str:
    """Name of the liveness timeout that was exceeded; empty if none."""
    age = now - _created_at(claim, now)
    if not condition_is(claim, LAUNCHED):
        return "launch_timeout" if age >= LAUNCH_SECONDS else ""
    if not condition_is(claim, REGISTERED):
        return "registration_timeout" if age >= REGISTRATION_SECONDS else ""
    return ""


def is_expired(claim: Object, now: float) -> bool:
    after = parse_duration(claim["spec"].get("expireAfter"))
    return after is not None and now >= _created_at(claim, now) + after


def seconds_until_deadline(claim: Object, now: float) -> float | None:
    """Seconds until the next liveness timeout or expiration; None if there is none."""
    created_at, deadlines = _created_at(claim, now), []
    if not condition_is(claim, REGISTERED):
        deadlines.append(created_at + (REGISTRATION_SECONDS if condition_is(claim, LAUNCHED) else LAUNCH_SECONDS))
    after = parse_duration(claim["spec"].get("expireAfter"))
    if after is not None:
        deadlines.append(created_at + after)
    return max(0.0, min(deadlines) - now) if deadlines else None


def _created_at(claim: Object, now: float) -> float:
    return parse_time(claim["metadata"].get("creationTimestamp")) or now


def lacks_unregistered_taint(node: Object) -> bool:
    """True if the node came without the taint that keeps pods away until registration."""
    labels, taints = node["metadata"].get("labels") or {}, (node.get("spec") or {}).get("taints") or ()
    return REGISTERED_LABEL not in labels and not any(taint.get("key") == UNREGISTERED_TAINT_KEY for taint in taints)


def registration_patch(claim: Object, node: Object) -> Object | None:
    """Patch with the labels, annotations, taints, owner and finalizer from the NodeClaim; None if the node has them."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    node_labels = metadata.get("labels") or {}
    labels = {NODE_CLASS_LABEL: node_class_ref(claim["spec"]).get("name", "")} | (claim["metadata"].get("labels") or {})
    labels[REGISTERED_LABEL] = "true"
    claim_annotations = claim["metadata"].get("annotations") or {}
    annotations = {
        key: value
        for key, value in claim_annotations.items()
        if key not in _NOT_INHERITED and "cluster.x-k8s.io" not in key
    }
    patch: Object = {}
    if missing := _missing_entries(labels, node_labels):
        patch["labels"] = missing
    if missing := _missing_entries(annotations, metadata.get("annotations")):
        patch["annotations"] = missing
    owner = owner_reference(NODE_CLAIM, claim)
    owners = metadata.get("ownerReferences") or []
    if not any(each.get("uid") == owner["uid"] for each in owners):
        patch["ownerReferences"] = [*owners, owner]
    finalizers = metadata.get("finalizers") or []
    if TERMINATION_FINALIZER not in finalizers:
        patch["finalizers"] = [*finalizers, TERMINATION_FINALIZER]
    sync_taints = REGISTERED_LABEL not in node_labels and node_labels.get(DO_NOT_SYNC_TAINTS) != "true"
    taints = _registered_taints(claim, spec.get("taints") or [], sync_taints=sync_taints)
    result: Object = {"metadata": patch} if patch else {}
    if taints != (spec.get("taints") or []):
        result["spec"] = {"taints": taints}
    return result or None


def _registered_taints(claim: Object, current: list[Object], *, sync_taints: bool) -> list[Object]:
    """Taints of the NodeClaim are added once, at registration. Afterwards others may remove them."""
    kept = [taint for taint in current if taint.get("key") != UNREGISTERED_TAINT_KEY]
    spec = claim["spec"]
    claim_taints = [*(spec.get("taints") or ()), *(spec.get("startupTaints") or ())] if sync_taints else []
    return [*kept, *(taint for taint in claim_taints if not any(is_same_taint(taint, old) for old in kept))]


def initialization_error(claim: Object, node: Object) -> tuple[str, str] | None:
    """Reason and message why the node is not initialized; None if it is."""
    taints = (node.get("spec") or {}).get("taints") or ()
    if not condition_is(node, READY):
        message = (get_condition(node, READY) or {}).get("message") or "the node has not reported its status yet"
        return "NodeNotReady", f"Node status is not Ready, {message}"
    for taint in claim["spec"].get("startupTaints") or ():
        if any(is_same_taint(taint, each) for each in taints):
            return "StartupTaintsExist", f'StartupTaint "{taint["key"]}:{taint["effect"]}" still exists'
    for taint in taints:
        if is_ephemeral_taint(taint):
            return "KnownEphemeralTaintsExist", f'KnownEphemeralTaint "{taint["key"]}:{taint["effect"]}" still exists'
    allocatable = parse_amounts((node.get("status") or {}).get("allocatable"))
    missing = next(
        (name for name, amount in _requests(claim).items() if amount > 0 and not allocatable.get(name)), None
    )
    return ("ResourceNotRegistered", f'Resource "{missing}" was requested but not registered') if missing else None


def simulated_resources_patch(claim: Object, node: Object) -> Object | None:
    """Patch of a simulated node's status with the resources of NodeOverlays: no device plugin will report them there.
    None if the node has all resources, or is not simulated.
    """
    if not is_simulated(node):
        return None
    promised, reported = claim.get("status") or {}, node.get("status") or {}
    patch: Object = {}
    for name in ("capacity", "allocatable"):
        has = reported.get(name) or {}
        missing = {key: each for key, each in (promised.get(name) or {}).items() if key not in has}
        if has and missing:  # a node that has not reported anything yet is starting
            patch[name] = missing
    return {"status": patch} if patch else None


def initialized_patch(node: Object) -> Object | None:
    if (node["metadata"].get("labels") or {}).get(INITIALIZED_LABEL) == "true":
        return None
    return {"metadata": {"labels": {INITIALIZED_LABEL: "true"}}}


def inconsistencies(claim: Object, node: Object) -> list[str]:
    """Requested resources of which the node has much less than expected."""
    capacity = parse_amounts((node.get("status") or {}).get("capacity"))
    promised = parse_amounts((claim.get("status") or {}).get("capacity"))
    issues = []
    for name, amount in sorted(_requests(claim).items()):
        actual, expected = capacity.get(name, 0), promised.get(name, 0)
        if amount > 0 and expected > 0 and actual < MIN_CAPACITY_SHARE * expected:
            message = f"expected {_quantity(name, expected)} of resource {name}, but found {_quantity(name, actual)}"
            issues.append(f"{message} ({100 * actual / expected:.1f}% of expected)")
    return issues


def with_consistency(claim: Object, node: Object, now: str) -> Object:
    """Checked only after initialization: before that a node may still be reporting."""
    if not condition_is(claim, INITIALIZED):
        return claim
    if inconsistencies(claim, node):
        reason = ("ConsistencyCheckFailed", "Consistency Check Failed")
        return with_condition(claim, CONSISTENT_STATE_FOUND, "False", now, *reason)
    return with_condition(claim, CONSISTENT_STATE_FOUND, "True", now)


def termination_time(claim: Object) -> float | None:
    """Time at which termination stops waiting for pods; None: it always waits."""
    return parse_time(annotation_of(claim, TERMINATION_TIME))


def missing_termination_time(claim: Object) -> float | None:
    """Value that the termination time annotation lacks; None if it is set or there is no terminationGracePeriod."""
    grace = parse_duration(claim["spec"].get("terminationGracePeriod"))
    deleted_at = parse_time(claim["metadata"].get("deletionTimestamp"))
    if annotation_of(claim, TERMINATION_TIME) or grace is None or deleted_at is None:
        return None
    return deleted_at + grace


def needs_finalizer(claim: Object) -> bool:
    return not is_deleting(claim) and TERMINATION_FINALIZER not in (claim["metadata"].get("finalizers") or ())


def without_finalizer(obj: Object) -> list[str]:
    """Remaining finalizers of a NodeClaim or node."""
    return [each for each in obj["metadata"].get("finalizers") or () if each != TERMINATION_FINALIZER]


def _requests(claim: Object) -> Mapping[str, int]:
    return parse_amounts((claim["spec"].get("resources") or {}).get("requests"))


def _quantity(name: str, amount: int) -> str:
    return to_quantities({name: amount})[name]


def _missing_entries(desired: Mapping[str, str], current: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in desired.items() if (current or {}).get(key) != value}
