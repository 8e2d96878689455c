"""Desired status of NodePools, node classes and NodeOverlays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fit.resources import CPU, EPHEMERAL, MEMORY, PODS, quantities
from shoal.kinds.karpenter import (
    DRIFTED,
    HASH_VERSION,
    NODE_CLASS_READY,
    POOL_HASH,
    POOL_HASH_VERSION,
    READY,
    VALIDATION_SUCCEEDED,
    annotation,
    class_ref,
    is_going,
    pool_hash,
    template_spec,
)
from shoal.objects.conditions import condition_is, get_condition, set_condition
from shoal.provision.validation import pool_problems

Object = dict[str, Any]
Problem = tuple[str, str]
"""Reason and message."""

NODES = "nodes"
_NOTHING = dict.fromkeys((CPU, MEMORY, PODS, EPHEMERAL, NODES), 0)


def with_conditions(pool: Object, node_class: Object | None, resources: Mapping[str, int], now: str) -> Object:
    """Returns the NodePool with its desired status; the same object if nothing changes.

    `resources` is the total capacity of its nodes with their number. Conditions of other controllers are kept.
    """
    wrong = invalid(pool)
    found = _said(pool, VALIDATION_SUCCEEDED, ("NodePoolValidationFailed", wrong) if wrong else None, now)
    found = _said(found, NODE_CLASS_READY, class_problem(pool, node_class), now)
    found = _ready(found, (VALIDATION_SUCCEEDED, NODE_CLASS_READY), now)
    status = dict(found.get("status") or {})
    has = {**_NOTHING, **resources}
    status |= {"resources": quantities(dict(sorted(has.items()))), "nodes": has[NODES]}
    if node_class is not None:
        status["nodeClassObservedGeneration"] = node_class["metadata"].get("generation", 0)
    return found if status == found.get("status") else {**found, "status": status}


def hash_patch(pool: Object) -> Object | None:
    wanted = {POOL_HASH: pool_hash(pool), POOL_HASH_VERSION: HASH_VERSION}
    if all(annotation(pool, name) == value for name, value in wanted.items()):
        return None
    return {"metadata": {"annotations": wanted}}


def claim_hash_patch(pool: Object, claim: Object) -> Object | None:
    """Patch for a NodeClaim with an older hash version, so that the version change alone causes no drift. A drifted
    NodeClaim keeps its hash.
    """
    if annotation(claim, POOL_HASH_VERSION) == HASH_VERSION:
        return None
    hashed = {} if get_condition(claim, DRIFTED) is not None else {POOL_HASH: pool_hash(pool)}
    return {"metadata": {"annotations": {POOL_HASH_VERSION: HASH_VERSION, **hashed}}}


def class_with_condition(node_class: Object, problem: Problem | None, now: str) -> Object:
    return _said(node_class, READY, problem, now)


def overlay_with_conditions(overlay: Object, problem: Problem | None, now: str) -> Object:
    return _ready(_said(overlay, VALIDATION_SUCCEEDED, problem, now), (VALIDATION_SUCCEEDED,), now)


def class_problem(pool: Object, node_class: Object | None) -> Problem | None:
    if node_class is None:
        name = class_ref(template_spec(pool)).get("name")
        return "NodeClassNotFound", f"NodeClass {name!r} not found on cluster"
    if is_going(node_class):
        return "NodeClassTerminating", "NodeClass is Terminating"
    ready = get_condition(node_class, READY)
    if ready is None or ready.get("status") == "Unknown":
        return "NodeClassReadinessUnknown", "Node Class Readiness Unknown"
    if ready.get("status") == "True":
        return None
    return str(ready.get("reason") or "NodeClassNotReady"), str(ready.get("message") or "")


def invalid(pool: Object) -> str:
    """Validation errors joined to one message; empty if there are none."""
    return "; ".join(dict.fromkeys(pool_problems(pool)))


def _ready(obj: Object, needed: tuple[str, ...], now: str) -> Object:
    failing = [name for name in needed if not condition_is(obj, name)]
    said = ", ".join(f"{name}=False" for name in failing)
    return _said(obj, READY, ("UnhealthyDependents", said) if failing else None, now)


def _said(obj: Object, condition: str, problem: Problem | None, now: str) -> Object:
    reason, message = problem if problem is not None else (condition, "")
    return set_condition(
        obj,
        condition,
        "False" if problem is not None else "True",
        reason=reason,
        message=message,
        observed_generation=obj["metadata"].get("generation"),
        now=now,
    )
