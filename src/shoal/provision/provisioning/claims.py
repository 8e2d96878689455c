"""The NodeClaim that a decision to buy becomes. Pure."""

from __future__ import annotations

from typing import Any

from shoal.fit.resources import quantities
from shoal.kinds.karpenter import (
    API_VERSION,
    CLASS_LABEL,
    FINALIZER,
    HASH_VERSION,
    NODE_CLAIM,
    NODE_POOL,
    POOL_HASH,
    POOL_HASH_VERSION,
    POOL_LABEL,
    class_ref,
    pool_hash,
    reference,
    template,
    template_labels,
    template_spec,
)
from shoal.provision.provisioning.decide import NewClaim

Object = dict[str, Any]

_COPIED = ("nodeClassRef", "taints", "startupTaints", "expireAfter", "terminationGracePeriod")


def node_claim(pool: Object, wanted: NewClaim) -> Object:
    spec = template_spec(pool)
    labels = {**wanted.requirements.labels(), **template_labels(pool)}
    labels |= {POOL_LABEL: wanted.pool, CLASS_LABEL: class_ref(spec).get("name", "")}
    annotations = {
        **((template(pool).get("metadata") or {}).get("annotations") or {}),
        POOL_HASH: pool_hash(pool),
        POOL_HASH_VERSION: HASH_VERSION,
    }
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
            "requirements": wanted.requirements.wire(),
            "resources": {"requests": quantities(wanted.requests)},
        },
    }
