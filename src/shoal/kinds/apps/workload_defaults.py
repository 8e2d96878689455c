"""The kinds of apps/v1: defaults and the strategies' prepare functions. Pure."""

from __future__ import annotations

from shoal.kinds.core.pod.spec import default_pod_template
from shoal.kinds.validation.field import Object, default_status, ensure_map, set_defaults

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def default_deployment(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = ensure_map(spec, "strategy")
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        set_defaults(ensure_map(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    ensure_map(ensure_map(spec, "template"), "metadata")
    default_pod_template(spec)
    ensure_map(obj, "status")


def default_replica_set(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(spec, replicas=1)
    ensure_map(ensure_map(spec, "template"), "metadata")
    default_pod_template(spec)
    default_status(obj, replicas=0)


def default_stateful_set(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(spec, replicas=1, revisionHistoryLimit=10, serviceName="")
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    strategy = ensure_map(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        ensure_map(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        set_defaults(strategy["rollingUpdate"], partition=0)
    retention = ensure_map(spec, "persistentVolumeClaimRetentionPolicy")
    for field in ("whenDeleted", "whenScaled"):
        retention[field] = retention.get(field) or "Retain"
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        ensure_map(claim, "metadata")
        set_defaults(ensure_map(claim, "spec"), volumeMode="Filesystem")
        claim["status"] = claim.get("status") or {"phase": "Pending"}
    ensure_map(ensure_map(spec, "template"), "metadata")
    default_pod_template(spec)
    default_status(obj, replicas=0, availableReplicas=0)


def default_daemon_set(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(spec, revisionHistoryLimit=10)
    strategy = ensure_map(spec, "updateStrategy")
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        set_defaults(ensure_map(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    ensure_map(ensure_map(spec, "template"), "metadata")
    default_pod_template(spec)
    # Upstream writes this for a count that was not sent; the prepare functions of DaemonSet set the real one.
    ensure_map(obj["metadata"], "annotations").setdefault(TEMPLATE_GENERATION, "0")
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    default_status(obj, **dict.fromkeys(counts, 0))


def default_controller_revision(obj: Object) -> None:
    set_defaults(obj, revision=0)


STATUS_RESET_FIELDS: dict[str, Object] = {"status": {"f:spec": {}, "f:metadata": {"f:labels": {}}}}
"""Fields of a Deployment that a status write does not own."""


def prepare_deployment_status_update(new: Object, old: Object) -> None:
    """Keeps the old labels on a write of a Deployment's status. The write may change annotations but not labels."""
    if "labels" in old["metadata"]:
        new["metadata"]["labels"] = old["metadata"]["labels"]
    else:
        new["metadata"].pop("labels", None)


def prepare_deployment_update(new: Object, old: Object) -> None:
    """Increments the generation when annotations change. A change of the spec does so already."""
    if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def prepare_daemon_set_create(obj: Object) -> None:
    annotations = ensure_map(obj["metadata"], "annotations")
    if not str(annotations.get(TEMPLATE_GENERATION, "")).isdigit() or annotations[TEMPLATE_GENERATION] == "0":
        annotations[TEMPLATE_GENERATION] = "1"


def prepare_daemon_set_update(new: Object, old: Object) -> None:
    """Increments the template generation when the template changes. The server owns this count."""
    count = int((old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION) or 0)
    if new["spec"].get("template") != old["spec"].get("template"):
        count += 1
    _set_template_generation(new, str(count))


def prepare_daemon_set_status_update(new: Object, old: Object) -> None:
    """Keeps the template generation on a write of a DaemonSet's status."""
    count = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION) or "0"
    _set_template_generation(new, count)


def _set_template_generation(obj: Object, count: str) -> None:
    """Replaces the annotations dict: after a patch it may be shared with the old object."""
    obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), TEMPLATE_GENERATION: count}
