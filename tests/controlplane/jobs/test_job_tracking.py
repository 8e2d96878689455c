"""Tests of pod tracking in a Job's status: no pod is lost or counted twice, wherever a reconcile is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.clock import rfc3339
from shoal.controlplane.jobs.decide import JobPlan, decide
from shoal.controlplane.jobs.indexes import IndexSet
from shoal.controlplane.jobs.pods import new_pod
from shoal.controlplane.jobs.state import job_state
from shoal.controlplane.jobs.tracking import (
    MAX_UNCOUNTED,
    PlanOutcome,
    UncountedPods,
    count_released,
    flush_uncounted,
    record_finished,
)
from shoal.kinds.batch.job import is_finished
from shoal.kinds.core.pod.status import is_active
from tests.controlplane.jobs.samples import NOW, STAMP, Object, indexed, job, many, pod, uids


def entry(
    the_job: Object, pods: list[Object], plan: JobPlan | None = None, done: PlanOutcome | None = None
) -> UncountedPods:
    found = job_state(the_job, pods, set())
    return record_finished(the_job, found, plan or decide(the_job, found, NOW), done or PlanOutcome(), STAMP)


def types(status: Object) -> list[str]:
    return [one["type"] for one in status.get("conditions", ())]


def test_an_end_is_written_down_then_let_go_then_counted() -> None:
    pods = many(1, "Succeeded")
    the_job = job(status={"startTime": STAMP})
    first = entry(the_job, pods)
    assert first.status["uncountedTerminatedPods"] == {"succeeded": uids(pods)}
    assert "succeeded" not in first.status
    assert types(first.status) == ["SuccessCriteriaMet"]
    assert list(first.release) == pods
    held, _ = flush_uncounted(the_job, first.status, first.finished, {*uids(pods)}, STAMP)
    assert held == first.status, "the finalizer could not be taken off"
    status, events = flush_uncounted(the_job, first.status, first.finished, set(), STAMP)
    assert status == {
        "startTime": STAMP,
        "completionTime": STAMP,
        "succeeded": 1,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "lastProbeTime": STAMP,
                "lastTransitionTime": STAMP,
                "reason": "CompletionsReached",
                "message": "Reached expected number of succeeded pods",
            }
            for type_ in ("SuccessCriteriaMet", "Complete")
        ],
    }
    assert events == [("Normal", "Completed", "Job completed")]


def test_a_job_that_fails_takes_its_pods_along_and_waits_for_them() -> None:
    pods = [*many(2, "Running"), *many(1, "Failed")]
    the_job = job(parallelism=3, completions=3, backoffLimit=0)
    first = entry(the_job, pods, done=PlanOutcome(deleted=frozenset(uids(pods[:2]))))
    assert {*first.status["uncountedTerminatedPods"]["failed"]} == {*uids(pods)}
    assert first.status["terminating"] == 2
    status, events = flush_uncounted(the_job, first.status, first.finished, set(), STAMP)
    assert (status["failed"], types(status), events) == (3, ["FailureTarget"], [])
    later = entry(the_job | {"status": status}, [one for one in pods if one["status"]["phase"] == "Failed"])
    status, events = flush_uncounted(the_job, later.status, later.finished, set(), STAMP)
    assert types(status) == ["FailureTarget", "Failed"]
    assert events == [("Warning", "BackoffLimitExceeded", "Job has reached the specified backoff limit")]
    assert "completionTime" not in status


def test_a_pod_that_could_not_be_deleted_keeps_the_job_open() -> None:
    pods = [*many(2, "Running"), *many(1, "Failed")]
    found = entry(job(parallelism=3, backoffLimit=0), pods, done=PlanOutcome(deleted=frozenset(uids(pods[:1]))))
    assert found.finished is None
    assert types(found.status) == []
    assert found.status["active"] == 1
    assert found.status["uncountedTerminatedPods"] == {"failed": uids(pods[2:])}


def test_success_by_policy_does_not_count_the_rest_as_failed() -> None:
    the_job = indexed(3, successPolicy={"rules": [{"succeededIndexes": "1"}]})
    pods = [pod("Running", 0), pod("Succeeded", 1), pod("Running", 2)]
    found = entry(the_job, pods, done=PlanOutcome(deleted=frozenset(uids([pods[0], pods[2]]))))
    assert len(found.release) == 3
    assert found.status["uncountedTerminatedPods"] == {}
    assert (found.status["completedIndexes"], found.status["succeeded"]) == ("1", 1)
    assert types(found.status) == ["SuccessCriteriaMet"]


def test_the_pod_that_failed_last_at_its_index_waits_for_its_successor() -> None:
    the_job = indexed(2, backoffLimitPerIndex=1)
    old, new = pod("Failed", 0, ended=90), pod("Failed", 1, annotations={})
    assert entry(the_job, [old, new]).release == ()
    running = pod("Running", 0)
    found = entry(the_job, [old, new, running])
    assert list(found.release) == [old]
    assert found.status["failedIndexes"] == ""
    spent = pod("Failed", 1, annotations={"batch.kubernetes.io/job-index-failure-count": "1"})
    found = entry(the_job, [running, new, spent])
    assert {*uids(list(found.release))} == {*uids([new, spent])}
    assert found.status["failedIndexes"] == "1"


def test_suspending_and_resuming() -> None:
    the_job = job(suspend=True, status={"startTime": STAMP})
    found = entry(the_job, [])
    assert "startTime" not in found.status
    assert found.events == (("Normal", "Suspended", "Job suspended"),)
    (said,) = found.status["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("Suspended", "True", "JobSuspended")
    assert entry(job(suspend=True, status=found.status), []).status == found.status
    again = entry(job(status=found.status), [])
    assert again.status["startTime"] == STAMP
    (said,) = again.status["conditions"]
    assert (said["status"], said["reason"], said["message"]) == ("False", "JobResumed", "Job resumed")
    assert again.events == (("Normal", "Resumed", "Job resumed"),)
    assert not entry(job(status=again.status), []).events


def test_a_status_stays_small_and_nothing_waits_for_ever() -> None:
    pods = many(MAX_UNCOUNTED + 200, "Succeeded")
    the_job = job(completions=len(pods), parallelism=len(pods))
    first = entry(the_job, pods)
    assert first.finished is None
    assert len(first.status["uncountedTerminatedPods"]["succeeded"]) == len(first.release) == MAX_UNCOUNTED
    # Interrupted here: the full list does not keep those on it from being let go.
    again = entry(the_job | {"status": first.status}, list(reversed(pods)))
    assert {*uids(list(again.release))} == {*uids(list(first.release))}
    status = count_released(again.status, {*uids(pods)} - {*uids(list(again.release))})
    left = [one for one in pods if one not in again.release]
    last = entry(the_job | {"status": status}, left)
    status, _ = flush_uncounted(the_job, last.status, last.finished, set(), STAMP)
    assert status["succeeded"] == len(pods)
    assert types(status) == ["SuccessCriteriaMet", "Complete"]


def test_more_than_were_asked_for_is_told() -> None:
    the_job = job(completions=1)
    found = entry(the_job, many(2, "Succeeded"))
    _, events = flush_uncounted(the_job, found.status, found.finished, set(), STAMP)
    assert [event[1] for event in events] == ["TooManySucceededPods", "Completed"]


class Server:
    """Holds a Job and its pods; `look` is one step of the loop, write by write. Every write may be its last."""

    def __init__(self, the_job: Object) -> None:
        self.job = the_job
        self.pods: dict[str, Object] = {}
        self.ends: dict[str, str] = {}
        """What became of each pod, by whoever did it."""
        self.now = NOW

    def look(self) -> Iterator[None]:
        self.now += 10_000
        pods = list(self.pods.values())
        found = job_state(self.job, pods, set())
        plan = decide(self.job, found, self.now)
        for index in plan.create:
            uid = f"u{len(self.ends):03}"
            made = new_pod(self.job, {}, index, found.last_failed_pods.get(index) if index is not None else None)
            made["metadata"] |= {"uid": uid, "name": uid, "creationTimestamp": rfc3339(self.now)}
            self.pods[uid], self.ends[uid] = made | {"status": {"phase": "Running"}}, ""
            yield
        for one in plan.delete:
            assert plan.finished is not None, "nothing is surplus here"
            self.delete(one["metadata"]["uid"])
            yield
        done = PlanOutcome(created=len(plan.create), deleted=frozenset(one["metadata"]["uid"] for one in plan.delete))
        first = record_finished(self.job, found, plan, done, rfc3339(self.now))
        yield from self._write(first.status)
        let_go = set[str]()
        for one in first.release:
            uid = one["metadata"]["uid"]
            self._unhold(uid)
            let_go.add(uid)
            yield
        status, _ = flush_uncounted(
            self.job, self.job["status"], first.finished, found.held_uids - let_go, rfc3339(self.now)
        )
        yield from self._write(status)

    def _write(self, status: Object) -> Iterator[None]:
        before = self.job["status"]
        if status != before:
            for field in ("succeeded", "failed"):
                assert status.get(field, 0) >= before.get(field, 0)
            self.job = {**self.job, "status": status}
            yield

    def _unhold(self, uid: str) -> None:
        one = self.pods.get(uid)
        if one is not None:
            metadata = {**one["metadata"], "finalizers": []}
            self.pods[uid] = {**one, "metadata": metadata}
            if "deletionTimestamp" in metadata:
                del self.pods[uid]

    def active(self) -> list[str]:
        return [uid for uid, one in self.pods.items() if is_active(one)]

    def end(self, uid: str, phase: str) -> None:
        terminated = {"exitCode": 1, "finishedAt": rfc3339(self.now)}
        status = {"phase": phase, "containerStatuses": [{"name": "c", "state": {"terminated": terminated}}]}
        self.pods[uid] = {**self.pods[uid], "status": status}
        self.ends[uid] = phase

    def delete(self, uid: str) -> None:
        one = self.pods[uid]
        self.pods[uid] = {**one, "metadata": {**one["metadata"], "deletionTimestamp": rfc3339(self.now)}}
        self.ends[uid] = self.ends[uid] or "Failed"
        if not one["metadata"]["finalizers"]:
            del self.pods[uid]


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["look", "Succeeded", "Failed", "delete"]), st.integers(0, 9)), max_size=60
)


def run_actions(server: Server, actions: list[tuple[str, int]]) -> None:
    for action, number in actions:
        if is_finished(server.job):
            return
        chosen = server.active()[number % len(server.active())] if server.active() else None
        if action == "look":
            for _, _ in zip(server.look(), range(number + 1), strict=False):
                pass  # cut short after so many writes
        elif action == "delete" and chosen is not None:
            server.delete(chosen)
        elif chosen is not None:
            server.end(chosen, action)
    for _ in range(200):
        if is_finished(server.job):
            return
        list(server.look())
        for uid in server.active():
            server.end(uid, "Succeeded")
    raise AssertionError(f"still {server.job['status']}")


def ends(server: Server, phase: str) -> int:
    return sum(one == phase for one in server.ends.values())


@given(ACTIONS)
def test_every_pod_is_counted_once(actions: list[tuple[str, int]]) -> None:
    server = Server(job(parallelism=3, completions=6, backoffLimit=1000))
    run_actions(server, actions)
    status = server.job["status"]
    assert (status["succeeded"], status.get("failed", 0)) == (ends(server, "Succeeded"), ends(server, "Failed"))
    assert types(status)[-1] == "Complete"


@given(ACTIONS, st.integers(0, 3))
def test_every_pod_of_a_job_that_may_fail_is_counted_once(actions: list[tuple[str, int]], limit: int) -> None:
    server = Server(job(parallelism=4, completions=6, backoffLimit=limit))
    run_actions(server, actions)
    status = server.job["status"]
    assert (status.get("succeeded", 0), status.get("failed", 0)) == (ends(server, "Succeeded"), ends(server, "Failed"))
    assert not [one for one in server.pods.values() if one["metadata"]["finalizers"]]


@pytest.mark.parametrize("spec", [{}, {"backoffLimitPerIndex": 1}, {"backoffLimitPerIndex": 2, "maxFailedIndexes": 1}])
@given(ACTIONS)
def test_every_index_is_counted_once(spec: dict[str, Any], actions: list[tuple[str, int]]) -> None:
    server = Server(indexed(5, **{"parallelism": 3, "backoffLimit": 1000, **spec}))
    run_actions(server, actions)
    status = server.job["status"]
    completed = IndexSet.parse(status.get("completedIndexes"), 5)
    failed = IndexSet.parse(status.get("failedIndexes"), 5)
    assert status.get("succeeded", 0) == completed.total == ends(server, "Succeeded")
    assert status.get("failed", 0) == ends(server, "Failed")
    assert not completed.intersection_size(failed)
    if types(status)[-1] == "Complete":
        assert completed.total == 5
