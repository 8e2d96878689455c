"""The kinds of apps/v1: what they default to, and what a write of one carries over. Pure."""

from __future__ import annotations

from shoal.kinds.checks import Object, fill, section, zero_status
from shoal.kinds.pod_spec import default_pod_template

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def default_deployment(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = section(spec, "strategy")
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(section(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    section(section(spec, "template"), "metadata")
    default_pod_template(spec)
    section(obj, "status")


def default_replica_set(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(spec, replicas=1)
    section(section(spec, "template"), "metadata")
    default_pod_template(spec)
    zero_status(obj, replicas=0)


def default_stateful_set(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(spec, replicas=1, revisionHistoryLimit=10, serviceName="")
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    strategy = section(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        section(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], partition=0)
    retention = section(spec, "persistentVolumeClaimRetentionPolicy")
    for field in ("whenDeleted", "whenScaled"):
        retention[field] = retention.get(field) or "Retain"
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        section(claim, "metadata")
        fill(section(claim, "spec"), volumeMode="Filesystem")
        claim["status"] = claim.get("status") or {"phase": "Pending"}
    section(section(spec, "template"), "metadata")
    default_pod_template(spec)
    zero_status(obj, replicas=0, availableReplicas=0)


def default_daemon_set(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(spec, revisionHistoryLimit=10)
    strategy = section(spec, "updateStrategy")
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(section(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    section(section(spec, "template"), "metadata")
    default_pod_template(spec)
    # What upstream writes of a count that nobody sent; `create_daemon_set` and `keep_daemon_set` say what it is.
    section(obj["metadata"], "annotations").setdefault(TEMPLATE_GENERATION, "0")
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    zero_status(obj, **dict.fromkeys(counts, 0))


def default_controller_revision(obj: Object) -> None:
    fill(obj, revision=0)


STATUS_RESETS: dict[str, Object] = {"status": {"f:spec": {}, "f:metadata": {"f:labels": {}}}}
"""Of a Deployment: what nobody owns by a write to its status."""


def keep_labels(new: Object, old: Object) -> None:
    """Of a write to the status of a Deployment, which may bring annotations and no labels."""
    if "labels" in old["metadata"]:
        new["metadata"]["labels"] = old["metadata"]["labels"]
    else:
        new["metadata"].pop("labels", None)


def keep_deployment(new: Object, old: Object) -> None:
    """A change of a deployment's annotations counts as a generation too, as its spec's does."""
    if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def create_daemon_set(obj: Object) -> None:
    annotations = section(obj["metadata"], "annotations")
    if not str(annotations.get(TEMPLATE_GENERATION, "")).isdigit() or annotations[TEMPLATE_GENERATION] == "0":
        annotations[TEMPLATE_GENERATION] = "1"


def keep_daemon_set(new: Object, old: Object) -> None:
    """The template's own generation is the server's to count."""
    count = int((old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION) or 0)
    if new["spec"].get("template") != old["spec"].get("template"):
        count += 1
    _count_templates(new, str(count))


def keep_template_generation(new: Object, old: Object) -> None:
    """Of a write to the status of a DaemonSet."""
    count = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION) or "0"
    _count_templates(new, count)


def _count_templates(obj: Object, count: str) -> None:
    """In annotations of its own: a patch may leave those of the old object in it."""
    obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), TEMPLATE_GENERATION: count}
