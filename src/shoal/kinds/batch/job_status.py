"""Validation of a Job's status, in upstream's words. Pure."""

from __future__ import annotations

from shoal.kinds.validation.field import Object, is_unchanged, validate_nonnegative
from shoal.objects.conditions import condition_is
from shoal.objects.errors import Cause, invalid_value, required_value

_TERMINAL_CONDITIONS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
_EXCLUSIVE_CONDITIONS = (
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
)


def validate_job_status(obj: Object, old: Object | None) -> list[Cause]:
    if old is None or is_unchanged(obj, old, "status"):
        return []
    status, before = obj.get("status") or {}, old.get("status") or {}
    causes = validate_nonnegative(status, "status", "active", "succeeded", "failed", "ready", "terminating")
    causes += _validate_conditions(obj, old)
    causes += _validate_times(obj, status, before, condition_is(old, "Suspended"))
    if condition_is(obj, "Complete") or condition_is(obj, "Failed"):
        causes += [
            invalid_value(f"status.{field}", status[field], f"{field}>0 is invalid for finished job")
            for field in ("active", "terminating")
            if (status.get(field) or 0) > 0
        ]
        if not status.get("startTime"):
            causes.append(required_value("status.startTime", "startTime is required for finished job"))
        uncounted = status.get("uncountedTerminatedPods") or {}
        if uncounted.get("succeeded") or uncounted.get("failed"):
            causes.append(invalid_value("status.uncountedTerminatedPods", uncounted, "must be empty for finished job"))
    spec = obj["spec"]
    elastic = spec["completionMode"] == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed",) if elastic else ("failed", "succeeded"):
        if (status.get(field) or 0) < (before.get(field) or 0):
            said = f"cannot decrease the {field} counter"
            causes.append(invalid_value(f"status.{field}", status.get(field) or 0, said))
    if (status.get("ready") or 0) > (status.get("active") or 0):
        causes.append(invalid_value("status.ready", status["ready"], "cannot set more ready pods than active"))
    if status.get("completedIndexes") and spec["completionMode"] != "Indexed":
        said = "cannot set non-empty completedIndexes when non-indexed completion mode"
        causes.append(invalid_value("status.completedIndexes", status["completedIndexes"], said))
    return causes


def _validate_conditions(obj: Object, old: Object) -> list[Cause]:
    path = "status.conditions"
    messages = [
        f"cannot set {one}=True and {other}=true conditions"
        for one, other in _EXCLUSIVE_CONDITIONS
        if condition_is(obj, one) and condition_is(obj, other)
    ]
    for done, first in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        if condition_is(obj, done) and not condition_is(obj, first):
            messages.append(f"cannot set {done}=True condition without the {first}=true condition")
    for kind in _TERMINAL_CONDITIONS:
        if condition_is(old, kind) and not condition_is(obj, kind):
            terminal = "" if kind == "SuccessCriteriaMet" else "terminal "
            messages.append(f"cannot disable the {terminal}{kind}=True condition")
    return [Cause("FieldValueInvalid", f"{path}: Invalid value: {said}", path) for said in messages]


def _validate_times(obj: Object, status: Object, before: Object, was_suspended: bool) -> list[Cause]:
    done, start = status.get("completionTime"), status.get("startTime")
    complete = condition_is(obj, "Complete")
    causes = []
    if done and not complete:
        said = "cannot set completionTime when there is no Complete=True condition"
        causes.append(invalid_value("status.completionTime", done, said))
    if complete and not done:
        causes.append(required_value("status.completionTime", "completionTime is required for Complete jobs"))
    if start and done and done < start:
        causes.append(invalid_value("status.completionTime", done, "must be equal to or after `startTime`"))
    if done and before.get("completionTime") and done != before["completionTime"]:
        causes.append(invalid_value("status.completionTime", done, "field is immutable"))
    resumed = was_suspended and condition_is(obj, "Suspended", "False")
    if before.get("startTime") and start != before["startTime"] and not (resumed or obj["spec"]["suspend"]):
        causes.append(invalid_value("status.startTime", start, "field is immutable for unsuspended job once set"))
    return causes
