"""Desired status of NodePools, node classes and NodeOverlays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fit.resources import CPU, EPHEMERAL, MEMORY, PODS, to_quantities
from shoal.kinds.karpenter.karpenter import (
    DRIFTED,
    HASH_VERSION,
    NODE_CLASS_READY,
    NODE_POOL_HASH,
    NODE_POOL_HASH_VERSION,
    READY,
    VALIDATION_SUCCEEDED,
    annotation_of,
    is_deleting,
    node_class_ref,
    nodepool_hash,
    nodepool_template_spec,
)
from shoal.objects.conditions import condition_is, get_condition, set_condition
from shoal.provision.validation import node_pool_errors

Object = dict[str, Any]
ConditionError = tuple[str, str]
"""Reason and message."""

NODES = "nodes"
_ZERO_RESOURCES = dict.fromkeys((CPU, MEMORY, PODS, EPHEMERAL, NODES), 0)


def node_pool_with_status(pool: Object, node_class: Object | None, resources: Mapping[str, int], now: str) -> Object:
    """Returns the NodePool with its desired status; the same object if nothing changes.

    `resources` is the total capacity of its nodes with their number. Conditions of other controllers are kept.
    """
    error = validation_error(pool)
    new = _with_condition(pool, VALIDATION_SUCCEEDED, ("NodePoolValidationFailed", error) if error else None, now)
    new = _with_condition(new, NODE_CLASS_READY, node_class_error(pool, node_class), now)
    new = _with_ready(new, (VALIDATION_SUCCEEDED, NODE_CLASS_READY), now)
    status = dict(new.get("status") or {})
    usage = {**_ZERO_RESOURCES, **resources}
    status |= {"resources": to_quantities(dict(sorted(usage.items()))), "nodes": usage[NODES]}
    if node_class is not None:
        status["nodeClassObservedGeneration"] = node_class["metadata"].get("generation", 0)
    return new if status == new.get("status") else {**new, "status": status}


def hash_patch(pool: Object) -> Object | None:
    hash_annotations = {NODE_POOL_HASH: nodepool_hash(pool), NODE_POOL_HASH_VERSION: HASH_VERSION}
    if all(annotation_of(pool, name) == value for name, value in hash_annotations.items()):
        return None
    return {"metadata": {"annotations": hash_annotations}}


def claim_hash_patch(pool: Object, claim: Object) -> Object | None:
    """Patch for a NodeClaim with an older hash version, so that the version change alone causes no drift. A drifted
    NodeClaim keeps its hash.
    """
    if annotation_of(claim, NODE_POOL_HASH_VERSION) == HASH_VERSION:
        return None
    new_hash = {} if get_condition(claim, DRIFTED) is not None else {NODE_POOL_HASH: nodepool_hash(pool)}
    return {"metadata": {"annotations": {NODE_POOL_HASH_VERSION: HASH_VERSION, **new_hash}}}


def node_class_with_condition(node_class: Object, error: ConditionError | None, now: str) -> Object:
    return _with_condition(node_class, READY, error, now)


def overlay_with_conditions(overlay: Object, error: ConditionError | None, now: str) -> Object:
    return _with_ready(_with_condition(overlay, VALIDATION_SUCCEEDED, error, now), (VALIDATION_SUCCEEDED,), now)


def node_class_error(pool: Object, node_class: Object | None) -> ConditionError | None:
    if node_class is None:
        name = node_class_ref(nodepool_template_spec(pool)).get("name")
        return "NodeClassNotFound", f"NodeClass {name!r} not found on cluster"
    if is_deleting(node_class):
        return "NodeClassTerminating", "NodeClass is Terminating"
    ready = get_condition(node_class, READY)
    if ready is None or ready.get("status") == "Unknown":
        return "NodeClassReadinessUnknown", "Node Class Readiness Unknown"
    if ready.get("status") == "True":
        return None
    return str(ready.get("reason") or "NodeClassNotReady"), str(ready.get("message") or "")


def validation_error(pool: Object) -> str:
    """Validation errors joined to one message; empty if there are none."""
    return "; ".join(dict.fromkeys(node_pool_errors(pool)))


def _with_ready(obj: Object, needed: tuple[str, ...], now: str) -> Object:
    failing = [name for name in needed if not condition_is(obj, name)]
    message = ", ".join(f"{name}=False" for name in failing)
    return _with_condition(obj, READY, ("UnhealthyDependents", message) if failing else None, now)


def _with_condition(obj: Object, condition: str, error: ConditionError | None, now: str) -> Object:
    reason, message = error if error is not None else (condition, "")
    return set_condition(
        obj,
        condition,
        "False" if error is not None else "True",
        reason=reason,
        message=message,
        observed_generation=obj["metadata"].get("generation"),
        now=now,
    )
