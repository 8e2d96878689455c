"""Sample claims, volumes and storage classes."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def claim(size: str = "1Gi", status: str = "Pending", annotations: Object | None = None, **spec: Any) -> Object:
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": ""}
    metadata = {
        "name": "c",
        "namespace": "default",
        "uid": "cu",
        "resourceVersion": "5",
        "annotations": annotations or {},
    }
    return {"metadata": metadata, "spec": {**given, **spec}, "status": {"phase": status}}


def volume(
    name: str = "v", size: str = "1Gi", phase: str = "Available", labels: Object | None = None, **spec: Any
) -> Object:
    given = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "d", "volumeHandle": "h"},
    }
    metadata = {"name": name, "uid": f"u-{name}", "labels": labels or {}}
    return {"metadata": metadata, "spec": {**given, **spec}, "status": {"phase": phase}}


def storage_class(provisioner: str = "shoal.dev/simulated", **more: Any) -> Object:
    return {"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": "Immediate", **more}


REFERENCE: Object = {"namespace": "default", "name": "c"}
