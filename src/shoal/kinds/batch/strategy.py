"""Strategies of the kinds of batch/v1, and the warnings about them."""

from __future__ import annotations

from functools import lru_cache, partial
from zoneinfo import ZoneInfo

from shoal.kinds.batch import job_defaults, job_validation
from shoal.kinds.core.pod_warnings import name_warnings, template_warner
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.field import Object

_MAX_TRACKED_COMPLETIONS, _MAX_TRACKED_PARALLELISM = 100_000, 10_000
_UNTRACKED = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)
_TIME_ZONE_IN_SCHEDULE = (
    "cannot use TZ or CRON_TZ in spec.schedule, use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_job_template_warnings = template_warner("spec", "template")
_cron_job_template_warnings = template_warner("spec", "jobTemplate", "spec", "template")


def job_warnings(obj: Object, old: Object | None) -> list[str]:
    return (
        name_warnings(obj, old)
        + _index_tracking_warnings(obj, old, obj["spec"], "spec")
        + _job_template_warnings(obj, old)
    )


def cron_job_warnings(obj: Object, old: Object | None) -> list[str]:
    spec = obj["spec"]
    warnings = name_warnings(obj, old) + _index_tracking_warnings(
        obj, old, spec["jobTemplate"]["spec"], "spec.jobTemplate.spec"
    )
    warnings += _cron_job_template_warnings(obj, old)
    return [*warnings, _TIME_ZONE_IN_SCHEDULE] if old is not None and "TZ" in (spec.get("schedule") or "") else warnings


def _index_tracking_warnings(obj: Object, old: Object | None, spec: Object, path: str) -> list[str]:
    if old is not None and obj["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    if spec.get("completionMode") != "Indexed" or (spec.get("completions") or 0) <= _MAX_TRACKED_COMPLETIONS:
        return []
    return [f"{path}: {_UNTRACKED}"] if (spec.get("parallelism") or 0) > _MAX_TRACKED_PARALLELISM else []


def is_time_zone(name: str) -> bool:
    """Reports whether the system or the package tzdata knows the zone. If neither is installed every zone is accepted,
    because none can be checked. A CronJob with such a zone reports it in an Event.
    """
    return name == "UTC" or _time_zone_exists(name) or not _time_zone_exists("Europe/London")


@lru_cache(maxsize=1024)
def _time_zone_exists(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return False
    return True


STRATEGIES: dict[str, Strategy] = {
    "jobs.batch": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=job_defaults.default_job,
        prepare_for_create=job_defaults.prepare_job_create,
        canonicalize=job_defaults.canonicalize_job,
        validate=job_validation.validate_job,
        warnings=job_warnings,
        selectable_field_value=job_defaults.selectable_field,
    ),
    "cronjobs.batch": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=job_defaults.default_cron_job,
        validate=partial(job_validation.validate_cron_job, is_zone=is_time_zone),
        warnings=cron_job_warnings,
    ),
}
