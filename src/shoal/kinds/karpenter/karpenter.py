"""NodePool, NodeClaim (karpenter.sh) and ClusterAPINodeClass: names and accessors. Pure.

The CRDs are in `crds/cluster`. The capacity annotations of MachineDeployments are in `clusterapi.machine_sizes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_duration as parse_go_duration

Object = dict[str, Any]

GROUP, VERSION = "karpenter.sh", "v1"
API_VERSION = f"{GROUP}/{VERSION}"
NODE_POOL, NODE_CLAIM = "NodePool", "NodeClaim"
NODE_CLASS_GROUP, NODE_CLASS_VERSION = "karpenter.cluster.x-k8s.io", "v1alpha1"
NODE_CLASS = "ClusterAPINodeClass"
NODE_OVERLAY, NODE_OVERLAY_VERSION = "NodeOverlay", "v1alpha1"

TERMINATION_FINALIZER = "karpenter.sh/termination"

NODE_POOL_LABEL = "karpenter.sh/nodepool"
REGISTERED_LABEL = "karpenter.sh/registered"
INITIALIZED_LABEL = "karpenter.sh/initialized"
NODE_CLASS_LABEL = f"{NODE_CLASS_GROUP}/clusterapinodeclass"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
ARCHITECTURE, SYSTEM = "kubernetes.io/arch", "kubernetes.io/os"
HOSTNAME = "kubernetes.io/hostname"
EXCLUDE_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
ON_DEMAND, SPOT, RESERVED = "on-demand", "spot", "reserved"
"""Values of CAPACITY_TYPE."""
RESERVATION_ID = "shoal.dev/reservation-id"
"""On an offering of reserved capacity, and on its node: the reservation. Not in Karpenter's domain: its definitions
reject requirements on labels of this domain.
"""
ANNOUNCED_RESERVATION_ID = "karpenter.sh/reservation-id"
"""Other name of the label in what MachineDeployments and templates announce."""
WELL_KNOWN_LABELS = frozenset(
    (
        NODE_POOL_LABEL,
        ZONE,
        REGION,
        INSTANCE_TYPE,
        ARCHITECTURE,
        SYSTEM,
        CAPACITY_TYPE,
        "node.kubernetes.io/windows-build",
    )
)
"""Labels a node has even when its NodePool does not define them."""

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
"""Label of a node whose taints its provider manages."""
NODE_POOL_HASH, NODE_POOL_HASH_VERSION = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"
HASH_VERSION = "v3"
TERMINATION_TIME = "karpenter.sh/nodeclaim-termination-timestamp"
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
MACHINE_ANNOTATION = "cluster.x-k8s.io/machine"
"""Annotation of a NodeClaim: namespace/name of its Machine."""
MACHINE_DEPLOYMENT_ANNOTATION = f"{NODE_CLASS_GROUP}/machine-deployment"
"""Annotation of a NodeClaim: namespace/name of the MachineDeployment chosen for it, before it has a Machine."""
MACHINE_TEMPLATE_ANNOTATION = f"{NODE_CLASS_GROUP}/machine-template"
"""Annotation of a NodeClaim: the machine template of its node class that was chosen instead, as the offering is
named.
"""
NODE_CLAIM_ANNOTATION, NODE_CLAIM_UID_ANNOTATION = "karpenter.sh/nodeclaim", "karpenter.sh/nodeclaim-uid"
"""Annotations of a Machine with the member label: the NodeClaim it belongs to."""

UNREGISTERED_TAINT_KEY = "karpenter.sh/unregistered"
DISRUPTED_TAINT: Object = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}

LAUNCHED, REGISTERED, INITIALIZED, READY = "Launched", "Registered", "Initialized", "Ready"
CONSOLIDATABLE, DRAINED, INSTANCE_TERMINATING = "Consolidatable", "Drained", "InstanceTerminating"
DISRUPTION_REASON = "DisruptionReason"
VOLUMES_DETACHED, CONSISTENT_STATE_FOUND = "VolumesDetached", "ConsistentStateFound"
NODE_REGISTRATION_HEALTHY = "NodeRegistrationHealthy"
DRIFTED = "Drifted"
VALIDATION_SUCCEEDED, NODE_CLASS_READY = "ValidationSucceeded", "NodeClassReady"
MAX_UNREADY_POOLS = 5
"""NodePools in the reason why none may buy."""

WHEN_EMPTY = "WhenEmpty"
BALANCED = "Balanced"
NEVER = "Never"

_EPHEMERAL_TAINTS = (
    ("node.kubernetes.io/not-ready", "NoSchedule"),
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
    (UNREGISTERED_TAINT_KEY, "NoExecute"),
)
_READINESS_TAINT_PREFIX = "readiness.k8s.io/"


def is_ephemeral_taint(taint: Object) -> bool:
    """Reports whether the taint belongs to a starting node and is removed automatically."""
    key = taint.get("key")
    return (key, taint.get("effect")) in _EPHEMERAL_TAINTS or str(key or "").startswith(_READINESS_TAINT_PREFIX)


def parse_duration(duration: object) -> float | None:
    """Returns the seconds of a duration such as `1h30m`; None for Never and for invalid ones."""
    return None if duration in (NEVER, "0") else parse_go_duration(duration)


def node_class_ref(holder: Object) -> Object:
    """Returns the nodeClassRef of a NodeClaim's spec or of a NodePool's template spec."""
    return holder.get("nodeClassRef") or {}


def references_node_class(spec: Object, node_class: str) -> bool:
    reference = node_class_ref(spec)
    kind = (reference.get("group"), reference.get("kind"))
    return kind == (NODE_CLASS_GROUP, NODE_CLASS) and reference.get("name") == node_class


def is_managed_node_class(spec: Object) -> bool:
    """Reports whether the spec of a NodeClaim or of a NodePool's template refers to this provider's node class. Others
    are ignored.
    """
    reference = node_class_ref(spec)
    return (reference.get("group"), reference.get("kind")) == (NODE_CLASS_GROUP, NODE_CLASS)


def static_replicas(pool: Object) -> int | None:
    """Number of nodes of a static NodePool; None: its nodes depend on pods."""
    replicas: int | None = (pool.get("spec") or {}).get("replicas")
    return replicas


def nodepool_template(pool: Object) -> Object:
    pool_template: Object = (pool.get("spec") or {}).get("template") or {}
    return pool_template


def nodepool_template_spec(pool: Object) -> Object:
    return nodepool_template(pool).get("spec") or {}


def nodepool_template_labels(pool: Object) -> dict[str, str]:
    return (nodepool_template(pool).get("metadata") or {}).get("labels") or {}


def nodepool_weight(pool: Object) -> int:
    return int((pool.get("spec") or {}).get("weight") or 0)


def nodepool_hash(pool: Object) -> str:
    """Hashes the template without its requirements: a change of it makes nodes drift. List order, the notation of
    durations, and empty values do not matter.
    """
    spec = {key: value for key, value in nodepool_template_spec(pool).items() if key != "requirements"}
    for name in ("expireAfter", "terminationGracePeriod"):
        if (length := parse_duration(spec.get(name))) is not None:
            spec[name] = length
    canonical = _canonical_bytes({"metadata": nodepool_template(pool).get("metadata"), "spec": spec})
    return str(int(hashlib.sha256(canonical).hexdigest()[:15], 16))


def _canonical_bytes(value: object) -> bytes:
    if isinstance(value, dict):
        value = {key: _canonical_bytes(each).decode() for key, each in value.items() if each not in (None, "", [], {})}
    elif isinstance(value, list):
        value = sorted(_canonical_bytes(each).decode() for each in value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def nodepool_of(obj: Object) -> str:
    """Returns the NodePool of a NodeClaim or Node; empty: none."""
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(NODE_POOL_LABEL, "")


def annotation_of(obj: Object, name: str) -> str:
    annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
    return annotations.get(name, "")


def is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def provider_id(claim: Object) -> str:
    return str((claim.get("status") or {}).get("providerID") or "")


def owner_reference(kind: str, owner: Object) -> Object:
    """Returns an owner reference to a NodePool or NodeClaim."""
    metadata = owner["metadata"]
    fields = {"apiVersion": API_VERSION, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**fields, "blockOwnerDeletion": True}


def unready_pools_reason(pools: Iterable[Object]) -> str:
    """Why none of the NodePools may buy. Empty: nothing is known of any."""
    reasons = []
    for pool in pools:
        conditions = (get_condition(pool, type_) for type_ in (VALIDATION_SUCCEEDED, NODE_CLASS_READY))
        failed = next((each for each in conditions if each is not None and each["status"] != "True"), None)
        if failed is not None:
            message = f"{failed['type']}: {failed.get('reason') or 'Unknown'}"
            message += f", {failed['message']}" if failed.get("message") else ""
            reasons.append(f'NodePool "{pool["metadata"]["name"]}" is not ready, {message}')
    return "; ".join(sorted(reasons)[:MAX_UNREADY_POOLS])
