"""Transforms a hub object into its downstream form: only what its author wrote, nothing a server filled in. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.leaf import DOWNSTREAM_NAME_ANNOTATION, PLACEMENT_ANNOTATIONS

Object = dict[str, Any]

SYNCED_FROM = "shoal.dev/synced-from"
"""Annotation of a downstream object: `HUB/UID`, the hub and the object there. Only objects that carry it are ours."""
SYNCED_DIGEST = "shoal.dev/synced-digest"
"""Annotation of a downstream object: digest of what it was created from."""
NEEDED_BY = "shoal.dev/needed-by"
"""Annotation of a downstream object that exists only because others reference it: the kinds of those."""
SYNCED_NAME = "shoal.dev/synced-name"
"""Annotation of a downstream object with another name than its hub object: the hub object's name."""
BOUND = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim that is bound."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a claim or volume whose other half was found by a controller."""
TOKEN_TYPE = "kubernetes.io/service-account-token"

_HUB_ONLY_ANNOTATIONS = {
    *(
        workloadcluster.PROBLEM_ANNOTATION,
        workloadcluster.FORCE_ANNOTATION,
        workloadcluster.UNSCHEDULABLE_ANNOTATION,
        SYNCED_FROM,
        SYNCED_DIGEST,
        NEEDED_BY,
        SYNCED_NAME,
        "shoal.dev/cluster",
        *PLACEMENT_ANNOTATIONS,
    ),
    *("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"),
    *(BOUND, BOUND_BY_CONTROLLER),
    *("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"),
    *("volume.kubernetes.io/selected-node", "deprecated.daemonset.template.generation"),
    *("batch.kubernetes.io/job-tracking",),
}
"""Annotations that are about the hub object, not about the downstream one."""
_JOB_LABELS = {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}


def to_downstream(api_version: str, kind: str, obj: Object) -> Object:
    """Without status and server-owned metadata: uid, revision, owners, finalizers, managers."""
    metadata = obj["metadata"]
    result: Object = {"apiVersion": api_version, "kind": kind}
    result |= {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    labels = metadata.get("labels") or {}
    if any(label.startswith(workloadcluster.DEPENDENCY_LABEL_PREFIX) for label in labels):
        labels = {
            key: value for key, value in labels.items() if not key.startswith(workloadcluster.DEPENDENCY_LABEL_PREFIX)
        }
    annotations = metadata.get("annotations") or {}
    result["metadata"] = {"name": metadata["name"], "labels": labels, "annotations": annotations}
    transform = _TRANSFORMS.get((api_version, kind))
    if transform is not None:
        result = transform(result)
    result["metadata"]["annotations"] = {
        key: value
        for key, value in annotations.items()
        if key not in _HUB_ONLY_ANNOTATIONS and not key.startswith(workloadcluster.DEPENDENCY_STATUS_PREFIX)
    }
    return result


def downstream_name(obj: Object) -> str:
    """The downstream name of a hub object. A mere dependency keeps its own name."""
    name: str = obj["metadata"]["name"]
    if not workloadcluster.assigned_cluster(obj) and not workloadcluster.syncer_finalizers(obj):
        return name
    return (obj["metadata"].get("annotations") or {}).get(DOWNSTREAM_NAME_ANNOTATION) or name


def hub_name(copy: Object) -> str:
    """The hub name of a downstream object."""
    name: str = copy["metadata"]["name"]
    return (copy["metadata"].get("annotations") or {}).get(SYNCED_NAME) or name


def reject_reason(obj: Object, plural: str) -> str:
    """Why an object is not synced; empty: it is."""
    metadata = obj["metadata"]
    if obj.get("type") == TOKEN_TYPE:
        return "service account tokens of this hub are not synced"
    if metadata.get("namespace") in workloadcluster.UNSYNCED_NAMESPACES:
        return f"objects of the namespace {metadata['namespace']} are not synced"
    if plural == "configmaps" and "kube-root-ca.crt" in (metadata["name"], downstream_name(obj)):
        return "every cluster has its own kube-root-ca.crt: this one is not synced"
    return ""


def _omit(source: Object, *fields: str) -> Object:
    return {key: value for key, value in source.items() if key not in fields}


def _transform_service(obj: Object) -> Object:
    """Addresses and ports are allocated by the cluster; only `clusterIP: None` is the author's."""
    spec = obj.get("spec") or {}
    desired = _omit(spec, "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort")
    if spec.get("clusterIP") != "None":
        desired.pop("clusterIP", None)
    desired["ports"] = [_omit(port, "nodePort") for port in spec.get("ports") or ()]
    return {**obj, "spec": desired if desired["ports"] else _omit(desired, "ports")}


def _transform_claim(obj: Object) -> Object:
    """A volume that the author names stays; one that a controller bound is the server's."""
    return (
        {**obj, "spec": _omit(obj.get("spec") or {}, "volumeName")} if BOUND in obj["metadata"]["annotations"] else obj
    )


def _transform_volume(obj: Object) -> Object:
    """A claim that the author reserves the volume for stays, by name; one that a controller bound is the server's."""
    spec = obj.get("spec") or {}
    claim = spec.get("claimRef")
    if not claim:
        return obj
    spec = _omit(spec, "claimRef")
    if BOUND_BY_CONTROLLER not in obj["metadata"]["annotations"]:
        spec["claimRef"] = _omit(claim, "uid", "resourceVersion")
    return {**obj, "spec": spec}


def _transform_service_account(obj: Object) -> Object:
    return _omit(obj, "secrets")


def _transform_pod(obj: Object) -> Object:
    """Node and API access volumes are chosen by the cluster."""
    spec = dict(_omit(obj.get("spec") or {}, "nodeName"))
    injected = {v["name"] for v in spec.get("volumes") or () if v["name"].startswith("kube-api-access-")}
    if injected:
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in injected]
        for field in ("initContainers", "containers"):
            if spec.get(field):
                spec[field] = [_without_mounts(container, injected) for container in spec[field]]
    return {**obj, "spec": spec}


def _without_mounts(container: Object, volumes: set[str]) -> Object:
    mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in volumes]
    return {**_omit(container, "volumeMounts"), **({"volumeMounts": mounts} if mounts else {})}


def _transform_job(obj: Object) -> Object:
    """A server selects a Job's pods by the Job's uid, which differs downstream."""
    spec = obj.get("spec") or {}
    if spec.get("manualSelector"):
        return obj
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in _JOB_LABELS}
    template = {**template, "metadata": {**metadata, "labels": labels}}
    job_labels = {key: value for key, value in obj["metadata"]["labels"].items() if key not in _JOB_LABELS}
    spec = {**_omit(spec, "selector"), "template": template}
    return {**obj, "metadata": {**obj["metadata"], "labels": job_labels}, "spec": spec}


_TRANSFORMS: dict[tuple[str, str], Callable[[Object], Object]] = {
    ("v1", "Service"): _transform_service,
    ("v1", "PersistentVolume"): _transform_volume,
    ("v1", "PersistentVolumeClaim"): _transform_claim,
    ("v1", "ServiceAccount"): _transform_service_account,
    ("v1", "Pod"): _transform_pod,
    ("batch/v1", "Job"): _transform_job,
}
