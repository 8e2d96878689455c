"""Job and CronJob of batch/v1: defaults, and the selector the server generates for a Job. Pure."""

from __future__ import annotations

from shoal.kinds.checks import Object, fill, section
from shoal.kinds.pod_spec import default_pod_template

MAX_INT32 = 2**31 - 1
NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")


def default_job(obj: Object) -> None:
    spec = section(obj, "spec")
    _default_job_spec(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    per_index = spec.get("backoffLimitPerIndex") is not None
    replacement = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    fill(
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
    section(obj, "status")


def default_cron_job(obj: Object) -> None:
    spec = section(obj, "spec")
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    fill(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template = section(spec, "jobTemplate")
    section(template, "metadata")
    _default_job_spec(section(template, "spec"))
    section(obj, "status")


def _default_job_spec(spec: Object) -> None:
    section(section(spec, "template"), "metadata")
    default_pod_template(spec)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def create_job(obj: Object) -> None:
    """Adds the Job's uid to the pod labels and selects by it, unless `manualSelector` is set."""
    spec, metadata = obj["spec"], obj["metadata"]
    if spec["manualSelector"]:
        return
    labels = section(section(spec["template"], "metadata"), "labels")
    follows = metadata.get("labels") is labels
    for name in NAME_LABELS:
        labels.setdefault(name, metadata.get("name") or "")
    for name in UID_LABELS:
        labels.setdefault(name, metadata["uid"])
    section(section(spec, "selector"), "matchLabels").setdefault(UID_LABELS[1], metadata["uid"])
    if follows:
        metadata["labels"] = dict(labels)


def complete_job(obj: Object) -> None:
    """Copies the pod labels to a Job that still has no labels. They are not validated twice."""
    metadata, labels = obj["metadata"], (obj["spec"]["template"].get("metadata") or {}).get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def job_field(obj: Object, path: str) -> str:
    """Returns `status.successful`, the only selectable field of a Job. It is `succeeded` in the status."""
    return str((obj.get("status") or {}).get("succeeded") or 0)
