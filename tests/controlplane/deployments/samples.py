"""Sample Deployments and ReplicaSets as returned by a server."""

from __future__ import annotations

from typing import Any

from shoal.kinds.apps.deployment import DESIRED_REPLICAS, MAX_REPLICAS, REVISION

Object = dict[str, Any]

NOW, STAMP = 1_700_000_000.0, "2023-11-14T22:13:20Z"


def template(image: str = "web:1") -> Object:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(replicas: int = 10, image: str = "web:1", **spec: Any) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "strategy": strategy,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            **spec,
        },
        "status": {},
    }


def rolling(surge: object, unavailable: object) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def replica_set(
    name: str,
    size: int,
    available: int | None = None,
    *,
    image: str = "web:1",
    age: int = 0,
    revision: int = 1,
    desired: int = 10,
    most: int = 13,
    **status: Any,
) -> Object:
    """`available` pods of `size`; by default all. `age` counts minutes."""
    annotations = {REVISION: str(revision), DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(most)}
    count = size if available is None else available
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": "default",
            "generation": 1,
            "creationTimestamp": f"2023-11-14T22:{13 - age:02}:00Z",
            "annotations": annotations,
        },
        "spec": {"replicas": size, "template": template(image)},
        "status": {
            "replicas": size,
            "readyReplicas": count,
            "availableReplicas": count,
            "terminatingReplicas": 0,
            "observedGeneration": 1,
            **status,
        },
    }
