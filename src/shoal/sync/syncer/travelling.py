"""What of an object travels from the hub into a cluster: what its author wrote, nothing a server filled in. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.kinds import workload
from shoal.kinds.leaves import DOWNSTREAM_NAME, OWN

Object = dict[str, Any]

SYNCED_FROM = "shoal.dev/synced-from"
"""Annotation of a copy: `HUB/UID`, the hub and the object there. Only what carries it is ours."""
SYNCED_DIGEST = "shoal.dev/synced-digest"
"""Annotation of a copy: what it was made of."""
NEEDED_BY = "shoal.dev/needed-by"
"""Annotation of a copy that is there only because others name it: the kinds of those others."""
SYNCED_NAME = "shoal.dev/synced-name"
"""Annotation of a copy that is called otherwise than its object on the hub: the name of that."""
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
"""Annotations that say something about the object on the hub, not about its copy."""
_JOB_LABELS = {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}


def travelling(api_version: str, kind: str, obj: Object) -> Object:
    """Neither status nor what the hub's server keeps about the object: uid, revision, owners, finalizers, managers."""
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
    """What an object of the hub is to be called in its cluster; one that is only needed there has its own name."""
    name: str = obj["metadata"]["name"]
    if not workload.assigned_to(obj) and not workload.syncer_finalizers(obj):
        return name
    return (obj["metadata"].get("annotations") or {}).get(DOWNSTREAM_NAME) or name


def object_named(copy: Object) -> str:
    """What the object is called on the hub that a copy was made of."""
    name: str = copy["metadata"]["name"]
    return (copy["metadata"].get("annotations") or {}).get(SYNCED_NAME) or name


def refusal(obj: Object, plural: str) -> str:
    """Why an object does not travel at all; empty: it does."""
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
    """A cluster gives its own addresses and ports; only that there is to be none is the author's word."""
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
    """Where it runs, and how it speaks with its API server, is the cluster's to say."""
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
    """A server selects a Job's pods by the Job's uid, which is another one there."""
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
