"""Decides which Jobs a CronJob drops from its status, deletes and starts, and when it is reconciled next. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from shoal.kinds.batch.cron import Schedule, parse_schedule
from shoal.kinds.batch.cron_times import next_fire_time
from shoal.kinds.batch.job import COMPLETE, FAILED, SCHEDULED_TIMESTAMP_ANNOTATION, finished_condition
from shoal.objects.duration import parse_time
from shoal.objects.ownership import controller_reference

TOO_MANY_MISSED = 100


class InvalidSchedule(ValueError):
    pass


def load_zone(name: str) -> tzinfo:
    """Raises ValueError for an unknown zone."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(f"unknown time zone {name}") from None


@dataclass(frozen=True, slots=True)
class MissedSchedules:
    latest: float | None
    """The most recent time it should have fired; None if nothing was missed."""
    several: bool = False
    """More than one time was missed. One time that has just come is the ordinary case and does not count."""
    too_many: bool = False


def most_recent_schedule(schedule: Schedule, earliest: float, now: float, zone: tzinfo) -> MissedSchedules:
    """Returns the missed times after `earliest` until `now`."""
    first = next_fire_time(schedule, earliest, zone)
    second = next_fire_time(schedule, first, zone) if first is not None else None
    if first is not None and now < first:
        return MissedSchedules(None)
    if second is not None and now < second:
        return MissedSchedules(first)
    if first is None or second is None or round(second - first) < 1:
        raise InvalidSchedule("time difference between two schedules is less than 1 second")
    between = round(second - first)
    count = int(now - first) // between + 1
    # Starts one interval earlier than the first two times suggest: times may not be evenly spaced.
    latest, moment = None, next_fire_time(schedule, first + (count - 2) * between, zone)
    while moment is not None and moment <= now:
        latest, moment = moment, next_fire_time(schedule, moment, zone)
    return MissedSchedules(latest, several=True, too_many=count > TOO_MANY_MISSED)


Object = dict[str, Any]
CronJobEvent = tuple[str, str, str]
"""Type, reason and message."""

SCHEDULE_DELTA_SECONDS = 0.1
"""Added to a scheduled time, so that a clock that is slightly behind does not find the time still in the future."""
UNSUPPORTED_SCHEDULE = (
    "CRON_TZ or TZ used in schedule {} is not officially supported, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


@dataclass(frozen=True, slots=True)
class CronJobDecision:
    status: Object
    """Does not yet include the started Job and still includes the replaced ones."""
    delete: tuple[Object, ...] = ()
    """Jobs over the history limits."""
    scheduled_time: float | None = None
    """Scheduled time of the Job to create."""
    replaced_jobs: tuple[Object, ...] = ()
    """References to Jobs that are deleted before the new one is created."""
    requeue_at: float | None = None
    """Time of the next reconcile if nothing changes before."""
    events: tuple[CronJobEvent, ...] = ()


def decide(cron_job: Object, jobs: list[Object], missing: Iterable[str], now: float) -> CronJobDecision:
    """`jobs` are the Jobs it controls. `missing` are uids of active Jobs that the server no longer has."""
    status, events = _observed_status(cron_job, jobs, {*missing})
    delete = tuple(_jobs_over_history_limit(cron_job, jobs))
    status = without_active_jobs(status, (job["metadata"]["uid"] for job in delete))
    idle = CronJobDecision(status, delete, events=tuple(events))
    if "deletionTimestamp" in cron_job["metadata"]:
        return idle
    spec = cron_job["spec"]
    try:
        zone = _time_zone(cron_job)
    except ValueError as error:
        message = f'invalid timeZone: "{spec.get("timeZone")}": {error}'
        return replace(idle, events=(*events, ("Warning", "UnknownTimeZone", message)))
    if spec.get("suspend"):
        return idle
    try:
        schedule = parse_schedule(spec["schedule"])
    except ValueError as error:
        message = f'unparseable schedule: "{spec["schedule"]}" : {error}'
        return replace(idle, events=(*events, ("Warning", "UnparseableSchedule", message)))
    return _decide_schedule({**cron_job, "status": status}, idle, schedule, zone, now)


def _decide_schedule(
    cron_job: Object, idle: CronJobDecision, schedule: Schedule, zone: tzinfo, now: float
) -> CronJobDecision:
    spec, status, events = cron_job["spec"], idle.status, [*idle.events]
    if "TZ" in spec["schedule"]:
        events.append(("Warning", "UnsupportedSchedule", UNSUPPORTED_SCHEDULE.format(f'"{spec["schedule"]}"')))
    deadline = spec.get("startingDeadlineSeconds")
    earliest = (
        _last_schedule_time(cron_job) if deadline is None else max(_last_schedule_time(cron_job), now - float(deadline))
    )
    try:
        due = most_recent_schedule(schedule, earliest, now, zone)
    except InvalidSchedule as error:
        message = f"invalid schedule: {spec['schedule']} : {error}"
        return replace(idle, events=(*events, ("Warning", "InvalidSchedule", message)))
    deferred = replace(
        idle, requeue_at=_next_schedule_time(schedule, _last_schedule_time(cron_job), now, zone), events=tuple(events)
    )
    if due.latest is None or job_name(cron_job, due.latest) in {one["name"] for one in status.get("active") or ()}:
        return deferred
    if due.too_many:
        message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        events.append(("Warning", "TooManyMissedTimes", message))
    if deadline is not None and due.latest + deadline < now:
        missed_time = datetime.fromtimestamp(due.latest, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
        events.append(("Warning", "MissSchedule", f"Missed scheduled time to start a job: {missed_time}"))
        return replace(deferred, events=tuple(events))
    policy, active = spec.get("concurrencyPolicy"), tuple(status.get("active") or ())
    if policy == "Forbid" and active:
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return replace(deferred, events=(*events, ("Normal", "JobAlreadyActive", message)))
    requeue_at = _next_schedule_time(schedule, due.latest, now, zone)
    return replace(
        deferred,
        scheduled_time=due.latest,
        replaced_jobs=active if policy == "Replace" else (),
        requeue_at=requeue_at,
        events=tuple(events),
    )


def next_schedule_time(cron_job: Object, now: float) -> float | None:
    """Returns the next time of a CronJob whose schedule changed. Times that the new schedule would have missed are not
    made up for.
    """
    try:
        zone, schedule = _time_zone(cron_job), parse_schedule(cron_job["spec"]["schedule"])
    except ValueError:
        return None
    return _next_schedule_time(schedule, _last_schedule_time(cron_job), now, zone)


def _next_schedule_time(schedule: Schedule, since: float, now: float, zone: tzinfo) -> float | None:
    try:
        recent = most_recent_schedule(schedule, since, now, zone)
    except InvalidSchedule:
        recent = MissedSchedules(now)
    moment = next_fire_time(schedule, recent.latest or (now if recent.several else since), zone)
    return moment + SCHEDULE_DELTA_SECONDS if moment is not None else None


def _last_schedule_time(cron_job: Object) -> float:
    status = cron_job.get("status") or {}
    return parse_time(status.get("lastScheduleTime")) or parse_time(cron_job["metadata"]["creationTimestamp"]) or 0.0


def _time_zone(cron_job: Object) -> tzinfo:
    """Returns the zone of `timeZone`, or the one embedded in an old schedule (TZ=, CRON_TZ=)."""
    spec = cron_job["spec"]
    prefix, _, rest = spec["schedule"].partition("=")
    if prefix in ("TZ", "CRON_TZ"):
        return load_zone(rest.partition(" ")[0])
    return load_zone(spec.get("timeZone") or "")


def job_name(cron_job: Object, scheduled_time: float) -> str:
    """Deterministic for a minute, so that two controllers cannot create two Jobs for it."""
    return f"{cron_job['metadata']['name']}-{int(scheduled_time) // 60}"


def job_from_template(cron_job: Object, scheduled_time: float) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    template_metadata = template.get("metadata") or {}
    moment = datetime.fromtimestamp(int(scheduled_time), load_zone(cron_job["spec"].get("timeZone") or ""))
    timestamp = moment.isoformat().replace("+00:00", "Z")
    metadata = {
        "name": job_name(cron_job, scheduled_time),
        "labels": dict(template_metadata.get("labels") or {}),
        "annotations": {**(template_metadata.get("annotations") or {}), SCHEDULED_TIMESTAMP_ANNOTATION: timestamp},
        "ownerReferences": [controller_reference(cron_job, "batch/v1", "CronJob")],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def with_active_job(status: Object, job: Object, schedule_time: str) -> Object:
    """Returns the status with the Job created for `schedule_time` among the active ones."""
    metadata = job["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job"}
    reference |= {field: metadata[field] for field in ("namespace", "name", "uid", "resourceVersion")}
    return {**status, "active": [*(status.get("active") or ()), reference], "lastScheduleTime": schedule_time}


def without_active_jobs(status: Object, uids: Iterable[str]) -> Object:
    """Returns the status without these Jobs among the active ones."""
    removed, active = {*uids}, status.get("active") or ()
    remaining = [one for one in active if (one.get("uid") or "") not in removed]
    if len(remaining) == len(active):
        return status
    return {field: value for field, value in status.items() if field != "active"} | (
        {"active": remaining} if remaining else {}
    )


def _observed_status(cron_job: Object, jobs: list[Object], missing: set[str]) -> tuple[Object, list[CronJobEvent]]:
    """Returns the status after the observed outcome of its Jobs, and the Events for it."""
    status: Object = dict(cron_job.get("status") or {})
    active = {one.get("uid") or "": one for one in status.get("active") or ()}
    events: list[CronJobEvent] = []
    for job in jobs:
        uid, name, end = job["metadata"]["uid"], job["metadata"]["name"], finished_condition(job)
        if end is None:
            if uid not in active:
                message = f"Saw a job that the controller did not create or forgot: {name}"
                events.append(("Warning", "UnexpectedJob", message))
            continue
        if uid in active:
            status = without_active_jobs(status, (uid,))
            events.append(("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {end['type']}"))
        completion_time = (job.get("status") or {}).get("completionTime")
        if end["type"] == COMPLETE and (parse_time(completion_time) or 0) > (
            parse_time(status.get("lastSuccessfulTime")) or 0
        ):
            status["lastSuccessfulTime"] = completion_time
    for uid, one in active.items():
        if uid in missing:
            events.append(("Normal", "MissingJob", f"Active job went missing: {one.get('name')}"))
    return without_active_jobs(status, missing), events


def _jobs_over_history_limit(cron_job: Object, jobs: list[Object]) -> Iterable[Object]:
    spec = cron_job["spec"]
    for type_, field in ((COMPLETE, "successfulJobsHistoryLimit"), (FAILED, "failedJobsHistoryLimit")):
        finished = [job for job in jobs if (finished_condition(job) or {}).get("type") == type_]
        if spec.get(field) is not None:
            yield from sorted(finished, key=_start_time_key)[: max(len(finished) - spec[field], 0)]


def _start_time_key(job: Object) -> tuple[bool, str, str]:
    start = (job.get("status") or {}).get("startTime")
    return start is None, start or "", job["metadata"]["name"]
