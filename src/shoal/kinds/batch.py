"""Job and CronJob of batch/v1: defaults, and the selector a job is given when it is made. Pure."""

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
        # The same labels, not a copy: what `create_job` adds to the one is there in the other.
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
    """Unless the user wants to choose, a job's pods carry its uid, and it selects them by that."""
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
    """A job that has no labels after all has those of its pods: they are not checked twice."""
    metadata, labels = obj["metadata"], (obj["spec"]["template"].get("metadata") or {}).get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def job_field(obj: Object, path: str) -> str:
    """The one field of a job that can be selected by, `status.successful`, has another name in its status."""
    return str((obj.get("status") or {}).get("succeeded") or 0)
