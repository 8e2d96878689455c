"""Builds the NodeClaim object of a planned node. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from shoal.fit.resources import to_quantities
from shoal.kinds.karpenter.karpenter import (
    API_VERSION,
    HASH_VERSION,
    INITIALIZED,
    MIN_VALUES_RELAXED,
    NODE_CLAIM,
    NODE_CLASS_LABEL,
    NODE_POOL,
    NODE_POOL_HASH,
    NODE_POOL_HASH_VERSION,
    NODE_POOL_LABEL,
    RESERVATION_ID,
    TERMINATION_FINALIZER,
    WELL_KNOWN_LABELS,
    is_deleting,
    node_class_ref,
    nodepool_hash,
    nodepool_template,
    nodepool_template_labels,
    nodepool_template_spec,
    owner_reference,
)
from shoal.objects.conditions import condition_is
from shoal.provision.simulation.model import NewNodeClaim

Object = dict[str, Any]

_COPIED_FIELDS = ("nodeClassRef", "startupTaints", "expireAfter", "terminationGracePeriod")
_INSTANCE_LABELS = WELL_KNOWN_LABELS | {RESERVATION_ID}


def free_name(name: str, get_claim: Callable[[str], Object | None]) -> str:
    """Returns the name, or a new one if a NodeClaim with this name is initialized or being deleted: other pods took the
    room, so the planned pods need a second node. Empty: the NodeClaim is in flight, and the pods wait for it.
    """
    while (existing := get_claim(name)) is not None:
        if not is_deleting(existing) and not condition_is(existing, INITIALIZED):
            return ""
        text = f"{name} {existing['metadata']['uid']}"
        name = f"{name.rpartition('-')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return name


def new_node_claim(pool: Object, new_claim: NewNodeClaim) -> Object:
    spec = nodepool_template_spec(pool)
    # Labels that depend on the instance are set by the provider after the launch.
    known_labels = {key: value for key, value in new_claim.requirements.labels().items() if key not in _INSTANCE_LABELS}
    labels = {**known_labels, **new_claim.labels, **nodepool_template_labels(pool)}
    labels |= {NODE_POOL_LABEL: new_claim.pool, NODE_CLASS_LABEL: node_class_ref(spec).get("name", "")}
    annotations = {
        **((nodepool_template(pool).get("metadata") or {}).get("annotations") or {}),
        NODE_POOL_HASH: nodepool_hash(pool),
        NODE_POOL_HASH_VERSION: HASH_VERSION,
        MIN_VALUES_RELAXED: "true" if new_claim.min_values_relaxed else "false",
    }
    taints = [*(spec.get("taints") or ()), *new_claim.taints]
    return {
        "apiVersion": API_VERSION,
        "kind": NODE_CLAIM,
        "metadata": {
            "name": new_claim.name,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [owner_reference(NODE_POOL, pool)],
        },
        "spec": {
            **{name: spec[name] for name in _COPIED_FIELDS if name in spec},
            **({"taints": taints} if taints else {}),
            "requirements": new_claim.requirements.to_expressions(),
            "resources": {"requests": to_quantities(new_claim.requests)},
        },
    }
