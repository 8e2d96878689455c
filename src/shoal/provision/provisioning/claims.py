"""Builds the NodeClaim object of a planned node. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from shoal.fit.resources import quantities
from shoal.kinds.karpenter import (
    API_VERSION,
    CLASS_LABEL,
    FINALIZER,
    HASH_VERSION,
    INITIALIZED,
    MIN_VALUES_RELAXED,
    NODE_CLAIM,
    NODE_POOL,
    POOL_HASH,
    POOL_HASH_VERSION,
    POOL_LABEL,
    RESERVATION_ID,
    WELL_KNOWN,
    class_ref,
    is_going,
    pool_hash,
    reference,
    template,
    template_labels,
    template_spec,
)
from shoal.objects.conditions import condition_is
from shoal.provision.simulation.model import NewClaim

Object = dict[str, Any]

_COPIED = ("nodeClassRef", "startupTaints", "expireAfter", "terminationGracePeriod")
_INSTANCE = WELL_KNOWN | {RESERVATION_ID}


def free_name(name: str, known: Callable[[str], Object | None]) -> str:
    """Returns the name, or a new one if a NodeClaim with this name is initialized or being deleted: other pods took the
    room, so the planned pods need a second node. Empty: the NodeClaim is in flight, and the pods wait for it.
    """
    while (there := known(name)) is not None:
        if not is_going(there) and not condition_is(there, INITIALIZED):
            return ""
        text = f"{name} {there['metadata']['uid']}"
        name = f"{name.rpartition('-')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return name


def node_claim(pool: Object, wanted: NewClaim) -> Object:
    spec = template_spec(pool)
    # Labels that depend on the instance are set by the provider after the launch.
    certain = {key: value for key, value in wanted.requirements.labels().items() if key not in _INSTANCE}
    labels = {**certain, **wanted.labels, **template_labels(pool)}
    labels |= {POOL_LABEL: wanted.pool, CLASS_LABEL: class_ref(spec).get("name", "")}
    annotations = {
        **((template(pool).get("metadata") or {}).get("annotations") or {}),
        POOL_HASH: pool_hash(pool),
        POOL_HASH_VERSION: HASH_VERSION,
        MIN_VALUES_RELAXED: "true" if wanted.min_values_relaxed else "false",
    }
    taints = [*(spec.get("taints") or ()), *wanted.taints]
    return {
        "apiVersion": API_VERSION,
        "kind": NODE_CLAIM,
        "metadata": {
            "name": wanted.name,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [FINALIZER],
            "ownerReferences": [reference(NODE_POOL, pool)],
        },
        "spec": {
            **{name: spec[name] for name in _COPIED if name in spec},
            **({"taints": taints} if taints else {}),
            "requirements": wanted.requirements.wire(),
            "resources": {"requests": quantities(wanted.requests)},
        },
    }
