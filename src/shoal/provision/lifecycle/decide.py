"""The stations of a NodeClaim: launched, registered, initialised; and what stands in the way of its end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.fit.resources import amounts, quantities
from shoal.fit.taints import same, tolerated
from shoal.kinds.karpenter import (
    DISRUPTED,
    EXCLUDE_BALANCERS,
    FINALIZER,
    INITIALIZED,
    INITIALIZED_LABEL,
    LAUNCHED,
    NODE_CLAIM,
    READY,
    REGISTERED,
    REGISTERED_LABEL,
    UNREGISTERED,
    is_ephemeral,
    is_going,
    reference,
    seconds,
)
from shoal.objects.conditions import condition_is, get_condition, set_condition
from shoal.objects.duration import parse_time
from shoal.provision.cloudprovider import Instance
from shoal.provision.pods import is_of_the_node

Object = dict[str, Any]

LAUNCH_SECONDS, REGISTRATION_SECONDS = 5 * 60.0, 15 * 60.0
STUCK_SECONDS = 60.0
"""A pod that has been going for so long past its grace is not waited for."""
_DEPENDENTS = (LAUNCHED, REGISTERED, INITIALIZED)
_NOT_INHERITED = ("kubectl.kubernetes.io/last-applied-configuration", "shoal.dev/cluster")


def with_condition(claim: Object, condition: str, status: str, now: str, reason: str = "", message: str = "") -> Object:
    """And with Ready, which follows from the three stations."""
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
    if condition not in _DEPENDENTS:
        return found
    missing = [each for each in _DEPENDENTS if not condition_is(found, each)]
    told = [f"{each}={(get_condition(found, each) or {}).get('status', 'Unknown')}" for each in missing]
    return set_condition(
        found,
        READY,
        "False" if any(each.endswith("=False") for each in told) else "Unknown" if told else "True",
        reason="UnhealthyDependents" if any(each.endswith("=False") for each in told) else _ready_reason(told),
        message=", ".join(told),
        observed_generation=generation,
        now=now,
    )


def _ready_reason(told: list[str]) -> str:
    return "ReconcilingDependents" if told else READY


def launched(claim: Object, instance: Instance, now: str) -> Object:
    """Its status with the machine it got."""
    status = {
        **(claim.get("status") or {}),
        "providerID": instance.provider_id,
        "capacity": quantities(instance.capacity),
        "allocatable": quantities(instance.allocatable),
    }
    return with_condition({**claim, "status": status}, LAUNCHED, "True", now)


def launch_labels(claim: Object, instance: Instance) -> dict[str, str]:
    """Those of the machine that it lacks; its own win."""
    has = claim["metadata"].get("labels") or {}
    return {key: value for key, value in instance.labels.items() if key not in has}


def is_overdue(claim: Object, now: float) -> str:
    """Why it is given up: it has been waiting for too long. Empty: it has not."""
    age = now - (parse_time(claim["metadata"].get("creationTimestamp")) or now)
    if not condition_is(claim, LAUNCHED) and age >= LAUNCH_SECONDS:
        return "launch"
    if not condition_is(claim, REGISTERED) and age >= REGISTRATION_SECONDS:
        return "registration"
    return ""


def patience(claim: Object, now: float) -> float | None:
    """Seconds until it may be overdue; None: it is past that."""
    age = now - (parse_time(claim["metadata"].get("creationTimestamp")) or now)
    if condition_is(claim, REGISTERED):
        return None
    return max(0.0, (REGISTRATION_SECONDS if condition_is(claim, LAUNCHED) else LAUNCH_SECONDS) - age)


def registration_patch(claim: Object, node: Object) -> Object | None:
    """What makes the node the NodeClaim's: labels, annotations, taints, owner. None when it has them."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    labels = {**(claim["metadata"].get("labels") or {}), REGISTERED_LABEL: "true"}
    given = claim["metadata"].get("annotations") or {}
    annotations = {
        key: value for key, value in given.items() if key not in _NOT_INHERITED and "cluster.x-k8s.io" not in key
    }
    patch: Object = {}
    if missing := _missing(labels, metadata.get("labels")):
        patch["labels"] = missing
    if missing := _missing(annotations, metadata.get("annotations")):
        patch["annotations"] = missing
    owner = reference(NODE_CLAIM, claim)
    owners = metadata.get("ownerReferences") or []
    if not any(each.get("uid") == owner["uid"] for each in owners):
        patch["ownerReferences"] = [*owners, owner]
    taints = _registered_taints(
        claim, spec.get("taints") or [], first=REGISTERED_LABEL not in (metadata.get("labels") or {})
    )
    found: Object = {"metadata": patch} if patch else {}
    if taints != (spec.get("taints") or []):
        found["spec"] = {"taints": taints}
    return found or None


def _registered_taints(claim: Object, has: list[Object], *, first: bool) -> list[Object]:
    """Its own are put on once, with the registration: afterwards they are others' to take off."""
    kept = [taint for taint in has if taint.get("key") != UNREGISTERED]
    spec = claim["spec"]
    wanted = [*(spec.get("taints") or ()), *(spec.get("startupTaints") or ())] if first else []
    return [*kept, *(taint for taint in wanted if not any(same(taint, old) for old in kept))]


def uninitialized(claim: Object, node: Object) -> tuple[str, str] | None:
    """Why the node is not ready for its pods: reason and message. None: it is."""
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
    wanted = amounts((claim["spec"].get("resources") or {}).get("requests"))
    missing = next((name for name, amount in wanted.items() if amount > 0 and not has.get(name)), None)
    return ("ResourceNotRegistered", f'Resource "{missing}" was requested but not registered') if missing else None


def initialized_patch(node: Object) -> Object | None:
    if (node["metadata"].get("labels") or {}).get(INITIALIZED_LABEL) == "true":
        return None
    return {"metadata": {"labels": {INITIALIZED_LABEL: "true"}}}


def cordon_patch(node: Object) -> Object | None:
    metadata, taints = node["metadata"], (node.get("spec") or {}).get("taints") or []
    found: Object = {}
    if (metadata.get("labels") or {}).get(EXCLUDE_BALANCERS) != "karpenter":
        found["metadata"] = {"labels": {EXCLUDE_BALANCERS: "karpenter"}}
    if not any(same(taint, DISRUPTED) for taint in taints):
        found["spec"] = {"taints": [*taints, DISRUPTED]}
    return found or None


def to_drain(pods: Iterable[Object], now: float) -> list[Object]:
    """Pods that have to leave before the machine goes: not those of the node itself, nor those that stay on purpose."""
    return [pod for pod in pods if _has_to_leave(pod, now)]


def _has_to_leave(pod: Object, now: float) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or is_of_the_node(pod):
        return False
    if tolerated(DISRUPTED, (pod.get("spec") or {}).get("tolerations") or ()):
        return False
    deadline = parse_time(pod["metadata"].get("deletionTimestamp"))
    return deadline is None or now < deadline + STUCK_SECONDS


def out_of_patience(claim: Object, now: float) -> bool:
    """Whether terminationGracePeriod is over: budgets are no longer asked."""
    grace = seconds(claim["spec"].get("terminationGracePeriod"))
    began = parse_time(claim["metadata"].get("deletionTimestamp"))
    return grace is not None and began is not None and now >= began + grace


def until_out_of_patience(claim: Object, now: float) -> float | None:
    grace = seconds(claim["spec"].get("terminationGracePeriod"))
    began = parse_time(claim["metadata"].get("deletionTimestamp"))
    return None if grace is None or began is None else max(0.0, began + grace - now)


def without_finalizer(claim: Object) -> list[str]:
    return [each for each in claim["metadata"].get("finalizers") or () if each != FINALIZER]


def needs_finalizer(claim: Object) -> bool:
    return not is_going(claim) and FINALIZER not in (claim["metadata"].get("finalizers") or ())


def _missing(wanted: Mapping[str, str], has: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if (has or {}).get(key) != value}
