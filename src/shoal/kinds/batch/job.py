"""Names and accessors of Jobs for their controllers: labels, annotations, finalizers, and the finished condition.
Pure.
"""

from __future__ import annotations

from typing import Any

from shoal.objects.duration import parse_time

Object = dict[str, Any]

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod until its termination is counted."""
COMPLETION_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES_ANNOTATION = "batch.kubernetes.io/job-index-failure-count"
IGNORED_INDEX_FAILURES_ANNOTATION = "batch.kubernetes.io/job-index-ignored-failure-count"
SCHEDULED_TIMESTAMP_ANNOTATION = "batch.kubernetes.io/cronjob-scheduled-timestamp"
JOB_CONTROLLER = "kubernetes.io/job-controller"

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
"""Conditions that are set before the last pods have terminated."""


def finished_condition(job: Object) -> Object | None:
    """Returns the condition Complete or Failed when it is True."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in (COMPLETE, FAILED) and condition.get("status") == "True":
            finished: Object = condition
            return finished
    return None


def is_finished(job: Object) -> bool:
    return finished_condition(job) is not None


def expiry_time(job: Object | None) -> float | None:
    """Returns when the Job is deleted by `ttlSecondsAfterFinished`; None: never, or it is being deleted."""
    if job is None or "deletionTimestamp" in job["metadata"]:
        return None
    seconds, end = job["spec"].get("ttlSecondsAfterFinished"), finished_condition(job)
    ended = parse_time(end.get("lastTransitionTime")) if end is not None else None
    return ended + float(seconds) if seconds is not None and ended is not None else None


def is_managed_elsewhere(job: Object) -> bool:
    manager = job["spec"].get("managedBy")
    return manager is not None and manager != JOB_CONTROLLER


def is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("suspend"))


def has_backoff_limit_per_index(job: Object) -> bool:
    return job["spec"].get("backoffLimitPerIndex") is not None


def only_replaces_failed_pods(job: Object) -> bool:
    """Reports whether a terminating pod is replaced only after it has terminated."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None
