"""Decides which Jobs a CronJob drops from its status, deletes and starts, and when it is reconciled next. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from shoal.controlplane.cronjobs.schedule import InvalidSchedule, Missed, missed, zone_of
from shoal.kinds.cron import Schedule, parse
from shoal.kinds.cron_times import next_time
from shoal.kinds.jobs import COMPLETE, FAILED, SCHEDULED_AT, end_of
from shoal.objects.duration import parse_time
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]
Event = tuple[str, str, str]
"""Type, reason and message."""

MARGIN_SECONDS = 0.1
"""Added to a scheduled time, so that a clock that is slightly behind does not find the time still in the future."""
UNSUPPORTED = (
    "CRON_TZ or TZ used in schedule {} is not officially supported, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


@dataclass(frozen=True, slots=True)
class Decision:
    status: Object
    """Does not yet include the started Job and still includes the replaced ones."""
    delete: tuple[Object, ...] = ()
    """Jobs over the history limits."""
    start: float | None = None
    """Scheduled time of the Job to create."""
    replaces: tuple[Object, ...] = ()
    """References to Jobs that are deleted before the new one is created."""
    at: float | None = None
    """Time of the next reconcile if nothing changes before."""
    events: tuple[Event, ...] = ()


def decide(cron_job: Object, jobs: list[Object], gone: Iterable[str], now: float) -> Decision:
    """`jobs` are the Jobs it controls. `missing` are uids of active Jobs that the server no longer has."""
    status, events = _looked_at(cron_job, jobs, {*gone})
    delete = tuple(_outdated(cron_job, jobs))
    status = without(status, (job["metadata"]["uid"] for job in delete))
    idle = Decision(status, delete, events=tuple(events))
    if "deletionTimestamp" in cron_job["metadata"]:
        return idle
    spec = cron_job["spec"]
    try:
        zone = _zone(cron_job)
    except ValueError as error:
        said = f'invalid timeZone: "{spec.get("timeZone")}": {error}'
        return replace(idle, events=(*events, ("Warning", "UnknownTimeZone", said)))
    if spec.get("suspend"):
        return idle
    try:
        schedule = parse(spec["schedule"])
    except ValueError as error:
        said = f'unparseable schedule: "{spec["schedule"]}" : {error}'
        return replace(idle, events=(*events, ("Warning", "UnparseableSchedule", said)))
    return _scheduled({**cron_job, "status": status}, idle, schedule, zone, now)


def _scheduled(cron_job: Object, idle: Decision, schedule: Schedule, zone: tzinfo, now: float) -> Decision:
    spec, status, events = cron_job["spec"], idle.status, [*idle.events]
    if "TZ" in spec["schedule"]:
        events.append(("Warning", "UnsupportedSchedule", UNSUPPORTED.format(f'"{spec["schedule"]}"')))
    deadline = spec.get("startingDeadlineSeconds")
    earliest = _since(cron_job) if deadline is None else max(_since(cron_job), now - float(deadline))
    try:
        due = missed(schedule, earliest, now, zone)
    except InvalidSchedule as error:
        said = f"invalid schedule: {spec['schedule']} : {error}"
        return replace(idle, events=(*events, ("Warning", "InvalidSchedule", said)))
    later = replace(idle, at=_next_look(schedule, _since(cron_job), now, zone), events=tuple(events))
    if due.latest is None or job_name(cron_job, due.latest) in {one["name"] for one in status.get("active") or ()}:
        return later
    if due.many:
        said = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        events.append(("Warning", "TooManyMissedTimes", said))
    if deadline is not None and due.latest + deadline < now:
        stamp = datetime.fromtimestamp(due.latest, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
        events.append(("Warning", "MissSchedule", f"Missed scheduled time to start a job: {stamp}"))
        return replace(later, events=tuple(events))
    policy, active = spec.get("concurrencyPolicy"), tuple(status.get("active") or ())
    if policy == "Forbid" and active:
        said = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return replace(later, events=(*events, ("Normal", "JobAlreadyActive", said)))
    at = _next_look(schedule, due.latest, now, zone)
    return replace(later, start=due.latest, replaces=active if policy == "Replace" else (), at=at, events=tuple(events))


def next_look(cron_job: Object, now: float) -> float | None:
    """Returns the next time of a CronJob whose schedule changed. Times that the new schedule would have missed are not
    made up for.
    """
    try:
        zone, schedule = _zone(cron_job), parse(cron_job["spec"]["schedule"])
    except ValueError:
        return None
    return _next_look(schedule, _since(cron_job), now, zone)


def _next_look(schedule: Schedule, since: float, now: float, zone: tzinfo) -> float | None:
    try:
        past = missed(schedule, since, now, zone)
    except InvalidSchedule:
        past = Missed(now)
    moment = next_time(schedule, past.latest or (now if past.any else since), zone)
    return moment + MARGIN_SECONDS if moment is not None else None


def _since(cron_job: Object) -> float:
    status = cron_job.get("status") or {}
    return parse_time(status.get("lastScheduleTime")) or parse_time(cron_job["metadata"]["creationTimestamp"]) or 0.0


def _zone(cron_job: Object) -> tzinfo:
    """Returns the zone of `timeZone`, or the one embedded in an old schedule (TZ=, CRON_TZ=)."""
    spec = cron_job["spec"]
    prefix, _, rest = spec["schedule"].partition("=")
    if prefix in ("TZ", "CRON_TZ"):
        return zone_of(rest.partition(" ")[0])
    return zone_of(spec.get("timeZone") or "")


def job_name(cron_job: Object, scheduled: float) -> str:
    """Deterministic for a minute, so that two controllers cannot create two Jobs for it."""
    return f"{cron_job['metadata']['name']}-{int(scheduled) // 60}"


def made_job(cron_job: Object, scheduled: float) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    moment = datetime.fromtimestamp(int(scheduled), zone_of(cron_job["spec"].get("timeZone") or ""))
    stamp = moment.isoformat().replace("+00:00", "Z")
    metadata = {
        "name": job_name(cron_job, scheduled),
        "labels": dict(given.get("labels") or {}),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: stamp},
        "ownerReferences": [controller_reference(cron_job, "batch/v1", "CronJob")],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def started(status: Object, job: Object, stamp: str) -> Object:
    """Returns the status with the Job created for `schedule_time` among the active ones."""
    metadata = job["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job"}
    reference |= {field: metadata[field] for field in ("namespace", "name", "uid", "resourceVersion")}
    return {**status, "active": [*(status.get("active") or ()), reference], "lastScheduleTime": stamp}


def without(status: Object, uids: Iterable[str]) -> Object:
    """Returns the status without these Jobs among the active ones."""
    going, active = {*uids}, status.get("active") or ()
    left = [one for one in active if one.get("uid") not in going]
    if len(left) == len(active):
        return status
    return {field: value for field, value in status.items() if field != "active"} | ({"active": left} if left else {})


def _looked_at(cron_job: Object, jobs: list[Object], gone: set[str]) -> tuple[Object, list[Event]]:
    """Returns the status after the observed outcome of its Jobs, and the Events for it."""
    status: Object = dict(cron_job.get("status") or {})
    active = {one.get("uid"): one for one in status.get("active") or ()}
    events: list[Event] = []
    for job in jobs:
        uid, name, end = job["metadata"]["uid"], job["metadata"]["name"], end_of(job)
        if end is None:
            if uid not in active:
                said = f"Saw a job that the controller did not create or forgot: {name}"
                events.append(("Warning", "UnexpectedJob", said))
            continue
        if uid in active:
            status = without(status, (uid,))
            events.append(("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {end['type']}"))
        done = (job.get("status") or {}).get("completionTime")
        if end["type"] == COMPLETE and (parse_time(done) or 0) > (parse_time(status.get("lastSuccessfulTime")) or 0):
            status["lastSuccessfulTime"] = done
    for uid, one in active.items():
        if uid in gone:
            events.append(("Normal", "MissingJob", f"Active job went missing: {one.get('name')}"))
    return without(status, gone), events


def _outdated(cron_job: Object, jobs: list[Object]) -> Iterable[Object]:
    spec = cron_job["spec"]
    for type_, field in ((COMPLETE, "successfulJobsHistoryLimit"), (FAILED, "failedJobsHistoryLimit")):
        ended = [job for job in jobs if (end_of(job) or {}).get("type") == type_]
        if spec.get(field) is not None:
            yield from sorted(ended, key=_age)[: max(len(ended) - spec[field], 0)]


def _age(job: Object) -> tuple[bool, str, str]:
    start = (job.get("status") or {}).get("startTime")
    return start is None, start or "", job["metadata"]["name"]
