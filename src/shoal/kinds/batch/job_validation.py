"""Job and CronJob of batch/v1: validation in upstream's words. Pure.

A Job's failure and success policies are in `job_policies`, its status is in `job_status`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from shoal.kinds.batch.cron import parse_schedule
from shoal.kinds.batch.job_defaults import CONTROLLER_UID_LABELS, JOB_NAME_LABELS
from shoal.kinds.batch.job_policies import validate_pod_failure_policy, validate_success_policy
from shoal.kinds.batch.job_status import validate_job_status
from shoal.kinds.core.pod.spec import validate_pod_template
from shoal.kinds.validation.field import (
    IMMUTABLE,
    Object,
    is_unchanged,
    sorted_labels,
    validate_domain_prefixed_path,
    validate_enum,
    validate_immutable,
    validate_immutable_selector,
    validate_label_selector,
    validate_nonnegative,
)
from shoal.objects.conditions import condition_is
from shoal.objects.errors import BadRequest, Cause, invalid_value, not_supported, required_value, too_long
from shoal.objects.names import is_dns1123_label
from shoal.objects.selectors import from_label_selector

MAX_INDEXED_PARALLELISM = MAX_FAILED_INDEXES = 100_000
MAX_MANAGED_BY_LENGTH = 63
MAX_CRON_JOB_NAME_LENGTH = 52
_COUNT_FIELDS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_IMMUTABLE_FIELDS = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_MUTABLE_SCHEDULING_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")
_match_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch


def _accept_any_zone(name: str) -> bool:
    return True


def validate_job(obj: Object, old: Object | None) -> list[Cause]:
    causes = validate_job_status(obj, old)
    if is_unchanged(obj, old):
        return causes
    spec, metadata = obj["spec"], obj["metadata"]
    if old is None:
        causes += _validate_generated_selector(spec, metadata)
    causes += _validate_job_spec(spec, "spec") + _validate_selector(spec)
    if old is not None:
        return causes + _validate_job_update(spec, old)
    if spec["completionMode"] == "Indexed" and (spec.get("completions") or 0) > 0:
        hostname = f"{metadata.get('name', '')}-{spec['completions'] - 1}"
        if is_dns1123_label(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            causes.append(invalid_value("metadata.name", metadata.get("name", ""), detail))
    return causes


def _validate_generated_selector(spec: Object, metadata: Object) -> list[Cause]:
    selector = spec.get("selector")
    if spec["manualSelector"] or selector is None:
        return []
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    uid, name = str(metadata["uid"]), str(metadata.get("name") or "")
    expected = {**dict.fromkeys(CONTROLLER_UID_LABELS, uid), **dict.fromkeys(JOB_NAME_LABELS, name)}
    causes = [
        invalid_value(f"spec.template.metadata.labels[{key}]", sorted_labels(labels), f"must be '{value}'")
        for key, value in expected.items()
        if labels.get(key) != value
    ]
    try:
        if not from_label_selector(selector).matches(expected):
            causes.append(invalid_value("spec.selector", selector, "`selector` not auto-generated"))
    except BadRequest:
        pass  # label selector validation reports an invalid selector
    return causes


def _validate_selector(spec: Object) -> list[Cause]:
    selector = spec.get("selector")
    causes = (
        [required_value("spec.selector")] if selector is None else validate_label_selector(selector, "spec.selector")
    )
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if (selector is None or not causes) and not from_label_selector(selector).matches(labels):
        detail = "`selector` does not match template `labels`"
        causes.append(invalid_value("spec.template.metadata.labels", sorted_labels(labels), detail))
    return causes


def _validate_job_spec(spec: Object, path: str) -> list[Cause]:
    causes = validate_nonnegative(spec, path, *_COUNT_FIELDS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        causes.append(required_value(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    managed = spec.get("managedBy")
    if managed is not None:
        causes += validate_domain_prefixed_path(managed, f"{path}.managedBy")
        if len(managed) > MAX_MANAGED_BY_LENGTH:
            causes.append(too_long(f"{path}.managedBy", MAX_MANAGED_BY_LENGTH))
    causes += _validate_completion(spec, path)
    if spec.get("podFailurePolicy") is not None:
        causes += validate_pod_failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        causes += validate_success_policy(spec, f"{path}.successPolicy")
    replacements = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    causes += validate_enum(spec.get("podReplacementPolicy"), f"{path}.podReplacementPolicy", *replacements)
    causes += validate_pod_template(spec["template"], f"{path}.template")
    return causes + _validate_restart_policy(spec, f"{path}.template.spec.restartPolicy")


def _validate_completion(spec: Object, path: str) -> list[Cause]:
    mode = spec.get("completionMode")
    completions, parallelism, failed = (spec.get(f) for f in ("completions", "parallelism", "maxFailedIndexes"))
    causes = validate_enum(mode, f"{path}.completionMode", "NonIndexed", "Indexed")
    if mode in (None, "NonIndexed"):
        return causes + [
            invalid_value(f"{path}.{field}", spec[field], "requires indexed completion mode")
            for field in ("backoffLimitPerIndex", "maxFailedIndexes")
            if spec.get(field) is not None
        ]
    if mode != "Indexed":
        return causes
    if completions is None:
        causes.append(required_value(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > MAX_INDEXED_PARALLELISM:
        detail = f"must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        causes.append(invalid_value(f"{path}.parallelism", parallelism, detail))
    if failed is not None and completions is not None and failed > completions:
        causes.append(invalid_value(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > MAX_FAILED_INDEXES:
        causes.append(
            invalid_value(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {MAX_FAILED_INDEXES}")
        )
    return causes


def _validate_restart_policy(spec: Object, path: str) -> list[Cause]:
    policy = spec["template"]["spec"].get("restartPolicy") or "Always"
    if policy == "Always":
        return [required_value(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if policy != "Never" and spec.get("podFailurePolicy") is not None:
        return [invalid_value(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _validate_job_update(spec: Object, old: Object) -> list[Cause]:
    before = old["spec"]
    completions = spec.get("completions")
    causes: list[Cause] = []
    if spec["completionMode"] != "Indexed":
        causes += validate_immutable(spec, before, "spec", "completions")
    elif completions is not None and completions not in (before.get("completions"), spec["parallelism"]):
        detail = "can only be modified in tandem with spec.parallelism"
        causes.append(invalid_value("spec.completions", completions, detail))
    causes += validate_immutable_selector(spec, before, "spec")
    return causes + _validate_template_update(spec, old) + validate_immutable(spec, before, "spec", *_IMMUTABLE_FIELDS)


def _validate_template_update(spec: Object, old: Object) -> list[Cause]:
    if not _is_suspended_and_idle(old):
        return validate_immutable(spec, old["spec"], "spec", "template")
    new, before = spec["template"]["spec"], old["spec"]["template"]["spec"]
    return (
        []
        if _immutable_pod_fields(new) == _immutable_pod_fields(before)
        else [invalid_value("spec.template.spec", new, IMMUTABLE)]
    )


def _is_suspended_and_idle(job: Object) -> bool:
    """Reports whether the Job is suspended and no pod of an earlier run is left."""
    status = job.get("status") or {}
    has_started = bool(status.get("startTime")) and not condition_is(job, "Suspended")
    return bool(job["spec"].get("suspend")) and not has_started and not status.get("active")


def _immutable_pod_fields(pod: Object) -> Object:
    """Returns the pod fields that may not change. Scheduling fields and resources of a suspended Job's pods may still
    change.
    """
    immutable_fields = {key: value for key, value in pod.items() if key not in _MUTABLE_SCHEDULING_FIELDS}
    affinity = {k: v for k, v in (immutable_fields.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
    for field in ("containers", "initContainers"):
        immutable_fields[field] = [{k: v for k, v in each.items() if k != "resources"} for each in pod.get(field) or ()]
    return immutable_fields | {"affinity": affinity}


def validate_cron_job(
    obj: Object, old: Object | None, is_zone: Callable[[str], bool] = _accept_any_zone
) -> list[Cause]:
    if is_unchanged(obj, old):
        return []
    spec = obj["spec"]
    causes = _validate_schedule(spec, old) + validate_nonnegative(spec, "spec", "startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None and (old is None or zone != old["spec"].get("timeZone")):
        causes += _validate_time_zone(zone, "spec.timeZone", is_zone)
    causes += validate_enum(spec["concurrencyPolicy"], "spec.concurrencyPolicy", "Allow", "Forbid", "Replace")
    job = spec["jobTemplate"]["spec"]
    causes += _validate_job_spec(job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        path = "spec.jobTemplate.spec.selector"
        causes.append(invalid_value(path, job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        causes.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    causes += validate_nonnegative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    name = obj["metadata"].get("name") or ""
    if old is None and len(name) > MAX_CRON_JOB_NAME_LENGTH:
        causes.append(
            invalid_value("metadata.name", name, f"must be no more than {MAX_CRON_JOB_NAME_LENGTH} characters")
        )
    return causes


def _validate_schedule(spec: Object, old: Object | None) -> list[Cause]:
    schedule, path = spec.get("schedule") or "", "spec.schedule"
    if not schedule:
        return [required_value(path)]
    causes = []
    try:
        parse_schedule(schedule)
    except ValueError as error:
        causes.append(invalid_value(path, schedule, str(error)))
    if "TZ" in schedule:
        if old is None or "TZ" not in old["spec"].get("schedule", ""):
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            causes.append(invalid_value(path, schedule, detail))
        elif spec.get("timeZone") is not None:
            detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            causes.append(invalid_value(path, schedule, detail))
    return causes


def _validate_time_zone(zone: str, path: str, is_zone: Callable[[str], bool]) -> list[Cause]:
    if not zone:
        return [invalid_value(path, zone, "timeZone must be nil or non-empty string")]
    unknown = invalid_value(path, zone, f"unknown time zone {zone}")
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _match_zone_part(part):
            return [unknown]
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid_value(path, zone, detail), *(() if zone == "Local" else (unknown,))]
    return [] if is_zone(zone) else [unknown]
