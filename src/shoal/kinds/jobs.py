"""Names and accessors of Jobs for their controllers: labels, annotations, finalizers, and the finished condition.
Pure.
"""

from __future__ import annotations

from typing import Any

from shoal.objects.duration import parse_time

Object = dict[str, Any]

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod until its termination is counted."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_INDEX_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
OWN_CONTROLLER = "kubernetes.io/job-controller"

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
"""Conditions that are set before the last pods have terminated."""


def end_of(job: Object) -> Object | None:
    """Returns the condition Complete or Failed when it is True."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in (COMPLETE, FAILED) and condition.get("status") == "True":
            found: Object = condition
            return found
    return None


def is_finished(job: Object) -> bool:
    return end_of(job) is not None


def expiry(job: Object | None) -> float | None:
    """Returns when the Job is deleted by `ttlSecondsAfterFinished`; None: never, or it is being deleted."""
    if job is None or "deletionTimestamp" in job["metadata"]:
        return None
    seconds, end = job["spec"].get("ttlSecondsAfterFinished"), end_of(job)
    ended = parse_time(end.get("lastTransitionTime")) if end is not None else None
    return ended + float(seconds) if seconds is not None and ended is not None else None


def is_managed_elsewhere(job: Object) -> bool:
    manager = job["spec"].get("managedBy")
    return manager is not None and manager != OWN_CONTROLLER


def is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("suspend"))


def has_limit_per_index(job: Object) -> bool:
    return job["spec"].get("backoffLimitPerIndex") is not None


def replaces_only_failed(job: Object) -> bool:
    """Reports whether a terminating pod is replaced only after it has terminated."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None
