"""Job and CronJob of batch/v1: defaults, and the selector the server generates for a Job. Pure."""

from __future__ import annotations

from shoal.kinds.core.pod.spec import default_pod_template
from shoal.kinds.validation.field import Object, ensure_map, set_defaults

MAX_INT32 = 2**31 - 1
JOB_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
CONTROLLER_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")


def default_job(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    _default_job_spec(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    per_index = spec.get("backoffLimitPerIndex") is not None
    replacement = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    set_defaults(
        spec,
        parallelism=1,
        backoffLimit=MAX_INT32 if per_index else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy=replacement,
        manualSelector=False,
    )
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        # The same dict, not a copy: labels that `prepare_job_create` adds appear in both places.
        obj["metadata"]["labels"] = labels
    ensure_map(obj, "status")


def default_cron_job(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    set_defaults(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template = ensure_map(spec, "jobTemplate")
    ensure_map(template, "metadata")
    _default_job_spec(ensure_map(template, "spec"))
    ensure_map(obj, "status")


def _default_job_spec(spec: Object) -> None:
    ensure_map(ensure_map(spec, "template"), "metadata")
    default_pod_template(spec)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def prepare_job_create(obj: Object) -> None:
    """Adds the Job's uid to the pod labels and selects by it, unless `manualSelector` is set."""
    spec, metadata = obj["spec"], obj["metadata"]
    if spec["manualSelector"]:
        return
    labels = ensure_map(ensure_map(spec["template"], "metadata"), "labels")
    shares_labels = metadata.get("labels") is labels
    for name in JOB_NAME_LABELS:
        labels.setdefault(name, metadata.get("name") or "")
    for name in CONTROLLER_UID_LABELS:
        labels.setdefault(name, metadata["uid"])
    ensure_map(ensure_map(spec, "selector"), "matchLabels").setdefault(CONTROLLER_UID_LABELS[1], metadata["uid"])
    if shares_labels:
        metadata["labels"] = dict(labels)


def canonicalize_job(obj: Object) -> None:
    """Copies the pod labels to a Job that still has no labels. They are not validated twice."""
    metadata, labels = obj["metadata"], (obj["spec"]["template"].get("metadata") or {}).get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def selectable_field(obj: Object, path: str) -> str:
    """Returns `status.successful`, the only selectable field of a Job. It is `succeeded` in the status."""
    return str((obj.get("status") or {}).get("succeeded") or 0)
