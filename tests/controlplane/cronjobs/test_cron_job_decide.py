"""Tests of the CronJob decision, from tables."""

from __future__ import annotations

import pytest

from shoal.controlplane.cronjobs.decide import (
    SCHEDULE_DELTA_SECONDS,
    CronJobDecision,
    decide,
    job_from_template,
    job_name,
    next_schedule_time,
    with_active_job,
    without_active_jobs,
)
from tests.controlplane.cronjobs.samples import Object, active, at, cron_job, job

LAST = {"lastScheduleTime": "2024-03-01T10:10:00Z"}


def reasons(decision: CronJobDecision) -> list[str]:
    return [event[1] for event in decision.events]


@pytest.mark.parametrize(
    ("given", "now", "start", "look"),
    [
        (cron_job(), "10:09:59", None, "10:10:00"),
        (cron_job(), "10:10:00", "10:10:00", "10:20:00"),
        (cron_job(), "10:19:00", "10:10:00", "10:20:00"),
        (cron_job(), "10:35:00", "10:30:00", "10:40:00"),
        (cron_job(status=LAST), "10:19:00", None, "10:20:00"),
        (cron_job(status=LAST), "10:20:00.1", "10:20:00", "10:30:00"),
        (cron_job(startingDeadlineSeconds=60), "10:10:40", "10:10:00", "10:20:00"),
        (cron_job(startingDeadlineSeconds=60), "10:11:40", None, "10:20:00"),
        (cron_job(startingDeadlineSeconds=60, status=LAST), "10:45:00", None, "10:50:00"),
        (cron_job(startingDeadlineSeconds=600), "10:45:00", "10:40:00", "10:50:00"),
        (cron_job(suspend=True), "10:19:00", None, None),
        (cron_job("30 12 * * *", timeZone="Europe/Berlin"), "11:29:00", None, "11:30:00"),
        (cron_job("30 12 * * *", timeZone="Europe/Berlin"), "11:30:00", "11:30:00", None),
        (cron_job("TZ=Europe/Berlin 30 12 * * *"), "11:30:00", "11:30:00", None),
        (cron_job("0 0 31 2 *"), "11:30:00", None, None),
        (cron_job(timeZone="Mars/Olympus"), "11:30:00", None, None),
        (cron_job("60 * * * *"), "11:30:00", None, None),
    ],
)
def test_when_it_starts_a_job_and_looks_again(given: Object, now: str, start: str | None, look: str | None) -> None:
    decision = decide(given, [], (), at(now))
    assert decision.scheduled_time == (at(start) if start else None)
    if look is not None:
        assert decision.requeue_at == at(look) + SCHEDULE_DELTA_SECONDS
    elif start is None:
        assert decision.requeue_at is None


@pytest.mark.parametrize(
    ("given", "now", "reason", "message"),
    [
        (
            cron_job(timeZone="Mars/X"),
            "10:19:00",
            "UnknownTimeZone",
            'invalid timeZone: "Mars/X": unknown time zone Mars/X',
        ),
        (
            cron_job("0 0 31 2 *"),
            "10:19:00",
            "InvalidSchedule",
            "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second",
        ),
        (
            cron_job("* * * * *"),
            "12:19:00",
            "TooManyMissedTimes",
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
        ),
        (
            cron_job(concurrencyPolicy="Forbid", status=active("x")),
            "10:10:00",
            "JobAlreadyActive",
            "Not starting job because prior execution is running and concurrency policy is Forbid",
        ),
    ],
)
def test_what_it_tells(given: Object, now: str, reason: str, message: str) -> None:
    decision = decide(given, [job("x")], (), at(now))
    assert (reason, message) in [event[1:] for event in decision.events]


def test_too_many_missed_times_are_no_reason_not_to_start() -> None:
    assert decide(cron_job("* * * * *"), [], (), at("12:19:00")).scheduled_time == at("12:19:00")


def test_whoever_still_runs() -> None:
    jobs, status = [job("x")], active("x")
    now = at("10:10:00")
    assert decide(cron_job(status=status), jobs, (), now).scheduled_time == now
    forbidden = decide(cron_job(concurrencyPolicy="Forbid", status=status), jobs, (), now)
    assert (forbidden.scheduled_time, forbidden.requeue_at) == (None, at("10:20:00") + SCHEDULE_DELTA_SECONDS)
    replaced = decide(cron_job(concurrencyPolicy="Replace", status=status), jobs, (), now)
    assert replaced.scheduled_time == now
    assert [one["name"] for one in replaced.replaced_jobs] == ["x"]
    # When it has ended, what had to wait is made up for.
    ended = [job("x", "Complete", "10:12:00")]
    later = decide(cron_job(concurrencyPolicy="Forbid", status=status), ended, (), at("10:12:00"))
    assert later.scheduled_time == now
    assert later.status == {"lastSuccessfulTime": "2024-03-01T10:12:00Z"}


def test_a_job_that_is_there_for_the_time_is_not_started_again() -> None:
    given = cron_job()
    name = job_name(given, at("10:10:00"))
    decision = decide(given | {"status": active(name)}, [job(name)], (), at("10:12:00"))
    assert (decision.scheduled_time, decision.requeue_at) == (None, at("10:20:00") + SCHEDULE_DELTA_SECONDS)


def test_what_became_of_its_jobs() -> None:
    given = cron_job(status=active("done", "failed", "runs", "gone") | LAST)
    jobs = [job("done", "Complete", "10:05:00"), job("failed", "Failed"), job("runs"), job("foreign")]
    decision = decide(given, jobs, ["uid-gone"], at("10:12:00"))
    assert [one["name"] for one in decision.status["active"]] == ["runs"]
    assert decision.status["lastSuccessfulTime"] == "2024-03-01T10:05:00Z"
    assert reasons(decision) == ["SawCompletedJob", "SawCompletedJob", "UnexpectedJob", "MissingJob"]
    assert ("Normal", "SawCompletedJob", "Saw completed job: failed, condition: Failed") in decision.events
    assert ("Normal", "MissingJob", "Active job went missing: gone") in decision.events
    older = decide({**given, "status": decision.status}, [job("early", "Complete", "10:01:00")], (), at("10:12:00"))
    assert older.status["lastSuccessfulTime"] == "2024-03-01T10:05:00Z"


def test_the_history_it_keeps() -> None:
    done = [job(f"d{minute}", "Complete", start=f"10:0{minute}:00") for minute in range(5)]
    failed = [job("f2", "Failed", start="10:02:00"), job("f1", "Failed", start="10:01:00")]
    jobs = [*reversed(done), *failed, job("runs"), job("never", "Failed", start=None)]
    decision = decide(cron_job(status=LAST), jobs, (), at("10:12:00"))
    assert [one["metadata"]["name"] for one in decision.delete] == ["d0", "d1", "f1", "f2"]
    decision = decide(cron_job(successfulJobsHistoryLimit=0, failedJobsHistoryLimit=None), jobs, (), at("10:00:31"))
    assert len(decision.delete) == 5


def test_a_cron_job_that_goes_starts_nothing() -> None:
    given = cron_job(status=active("x"))
    given["metadata"]["deletionTimestamp"] = "2024-03-01T10:10:00Z"
    decision = decide(given, [job("x", "Complete")], (), at("10:12:00"))
    assert (decision.scheduled_time, decision.requeue_at) == (None, None)
    assert "active" not in decision.status


def test_a_new_schedule_does_not_make_up_for_what_it_would_have_missed() -> None:
    assert next_schedule_time(cron_job("* * * * *"), at("11:30:10")) == at("11:31:00") + SCHEDULE_DELTA_SECONDS
    assert next_schedule_time(cron_job(timeZone="Mars/X"), at("11:30:10")) is None


def test_the_job_it_makes() -> None:
    given = cron_job(timeZone="Europe/Berlin")
    made = job_from_template(given, at("10:10:00"))
    assert made["metadata"]["name"] == f"cj-{int(at('10:10:00')) // 60}"
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {
        "c": "d",
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2024-03-01T11:10:00+01:00",
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "cron"
    stamp = job_from_template(cron_job(), at("10:10:00"))["metadata"]["annotations"]
    assert stamp["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2024-03-01T10:10:00Z"


def test_its_status_with_what_it_started() -> None:
    status = with_active_job({}, job("x"), "2024-03-01T10:10:00Z")
    assert status["lastScheduleTime"] == "2024-03-01T10:10:00Z"
    (one,) = status["active"]
    assert one == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "default",
        "name": "x",
        "uid": "uid-x",
        "resourceVersion": "5",
    }
    assert without_active_jobs(status, ["uid-x"]) == {"lastScheduleTime": "2024-03-01T10:10:00Z"}
    assert without_active_jobs(status, ["other"]) is status
