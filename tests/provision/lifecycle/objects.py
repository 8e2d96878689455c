"""NodeClaims, nodes and pods for lifecycle decision tests."""

from __future__ import annotations

from typing import Any

from shoal.clock import rfc3339
from shoal.provision.lifecycle.decide import with_condition

Object = dict[str, Any]

NOW = 1_700_000_000.0
STAMP = rfc3339(NOW)
CLASS = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"}


def claim(*true: str, age: float = 0.0, **spec: Any) -> Object:
    metadata = {"name": "c", "uid": "u", "labels": {"team": "blue"}, "creationTimestamp": rfc3339(NOW - age)}
    found: Object = {"metadata": metadata, "spec": {"requirements": [], "nodeClassRef": CLASS, **spec}, "status": {}}
    for condition in true:
        found = with_condition(found, condition, "True", STAMP)
    return found


def node(
    *taints: Object, ready: bool = True, labels: dict[str, str] | None = None, cpu: str = "2", gpu: str = ""
) -> Object:
    has = {"cpu": cpu, "memory": "8Gi", **({"example.com/gpu": gpu} if gpu else {})}
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": STAMP}]
    status = {"conditions": conditions, "allocatable": has, "capacity": has}
    return {"metadata": {"name": "n", "labels": labels or {}}, "spec": {"taints": list(taints)}, "status": status}


def pod(name: str, *, owner: str = "", grace: int | None = None, going: float | None = None, **spec: Any) -> Object:
    """`going`: when its grace is over."""
    metadata: Object = {"name": name, "namespace": "default", "uid": name}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "controller": True}]
    if going is not None:
        metadata["deletionTimestamp"] = rfc3339(going)
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def names(objects: Any) -> list[str]:
    return [each["metadata"]["name"] for each in objects]
