"""Transforms a hub object into its downstream form: only what its author wrote, nothing a server filled in. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.kinds import workload
from shoal.kinds.leaves import DOWNSTREAM_NAME, OWN

Object = dict[str, Any]

SYNCED_FROM = "shoal.dev/synced-from"
"""Annotation of a downstream object: `HUB/UID`, the hub and the object there. Only objects that carry it are ours."""
SYNCED_DIGEST = "shoal.dev/synced-digest"
"""Annotation of a downstream object: digest of what it was created from."""
NEEDED_BY = "shoal.dev/needed-by"
"""Annotation of a downstream object that exists only because others reference it: the kinds of those."""
SYNCED_NAME = "shoal.dev/synced-name"
"""Annotation of a downstream object with another name than its hub object: the hub object's name."""
TOKEN_TYPE = "kubernetes.io/service-account-token"

_STAYS = {
    *(
        workload.PROBLEM,
        workload.FORCE,
        workload.UNSCHEDULABLE,
        SYNCED_FROM,
        SYNCED_DIGEST,
        NEEDED_BY,
        SYNCED_NAME,
        "shoal.dev/cluster",
        *OWN,
    ),
    *("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"),
    *("pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"),
    *("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"),
    *("volume.kubernetes.io/selected-node", "deprecated.daemonset.template.generation"),
    *("batch.kubernetes.io/job-tracking",),
}
"""Annotations that are about the hub object, not about the downstream one."""
_JOB_LABELS = {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}


def travelling(api_version: str, kind: str, obj: Object) -> Object:
    """Without status and server-owned metadata: uid, revision, owners, finalizers, managers."""
    metadata = obj["metadata"]
    made: Object = {"apiVersion": api_version, "kind": kind}
    made |= {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    labels = metadata.get("labels") or {}
    if any(label.startswith(workload.DEPENDENCY) for label in labels):
        labels = {key: value for key, value in labels.items() if not key.startswith(workload.DEPENDENCY)}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _STAYS}
    made["metadata"] = {"name": metadata["name"], "labels": labels, "annotations": annotations}
    clean = _CLEANERS.get((api_version, kind))
    return clean(made) if clean is not None else made


def called(obj: Object) -> str:
    """The downstream name of a hub object. A mere dependency keeps its own name."""
    name: str = obj["metadata"]["name"]
    if not workload.assigned_to(obj) and not workload.syncer_finalizers(obj):
        return name
    return (obj["metadata"].get("annotations") or {}).get(DOWNSTREAM_NAME) or name


def object_named(copy: Object) -> str:
    """The hub name of a downstream object."""
    name: str = copy["metadata"]["name"]
    return (copy["metadata"].get("annotations") or {}).get(SYNCED_NAME) or name


def refusal(obj: Object, plural: str) -> str:
    """Why an object is not synced; empty: it is."""
    metadata = obj["metadata"]
    if obj.get("type") == TOKEN_TYPE:
        return "the tokens of this hub's service accounts do not travel"
    if metadata.get("namespace") in workload.HOME_ONLY:
        return f"objects of the namespace {metadata['namespace']} do not travel"
    if plural == "configmaps" and "kube-root-ca.crt" in (metadata["name"], called(obj)):
        return "every cluster has an authority of its own: this one does not travel"
    return ""


def _without(found: Object, *fields: str) -> Object:
    return {key: value for key, value in found.items() if key not in fields}


def _service(obj: Object) -> Object:
    """Addresses and ports are allocated by the cluster; only `clusterIP: None` is the author's."""
    spec = obj.get("spec") or {}
    kept = _without(spec, "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort")
    if spec.get("clusterIP") != "None":
        kept.pop("clusterIP", None)
    kept["ports"] = [_without(port, "nodePort") for port in spec.get("ports") or ()]
    return {**obj, "spec": kept if kept["ports"] else _without(kept, "ports")}


def _claim(obj: Object) -> Object:
    return {**obj, "spec": _without(obj.get("spec") or {}, "volumeName")}


def _account(obj: Object) -> Object:
    return _without(obj, "secrets")


def _pod(obj: Object) -> Object:
    """Node and API access volumes are chosen by the cluster."""
    spec = dict(_without(obj.get("spec") or {}, "nodeName"))
    given = {v["name"] for v in spec.get("volumes") or () if v["name"].startswith("kube-api-access-")}
    if given:
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in given]
        for field in ("initContainers", "containers"):
            if spec.get(field):
                spec[field] = [_unmounted(container, given) for container in spec[field]]
    return {**obj, "spec": spec}


def _unmounted(container: Object, volumes: set[str]) -> Object:
    mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in volumes]
    return {**_without(container, "volumeMounts"), **({"volumeMounts": mounts} if mounts else {})}


def _job(obj: Object) -> Object:
    """A server selects a Job's pods by the Job's uid, which differs downstream."""
    spec = obj.get("spec") or {}
    if spec.get("manualSelector"):
        return obj
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in _JOB_LABELS}
    template = {**template, "metadata": {**metadata, "labels": labels}}
    own = {key: value for key, value in obj["metadata"]["labels"].items() if key not in _JOB_LABELS}
    spec = {**_without(spec, "selector"), "template": template}
    return {**obj, "metadata": {**obj["metadata"], "labels": own}, "spec": spec}


_CLEANERS: dict[tuple[str, str], Callable[[Object], Object]] = {
    ("v1", "Service"): _service,
    ("v1", "PersistentVolumeClaim"): _claim,
    ("v1", "ServiceAccount"): _account,
    ("v1", "Pod"): _pod,
    ("batch/v1", "Job"): _job,
}
