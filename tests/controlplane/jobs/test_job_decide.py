"""Tests of the Job decision, from tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.clock import rfc3339
from shoal.controlplane.jobs.backoff import JobBackoff, finish_time
from shoal.controlplane.jobs.decide import FinishedCondition, decide
from shoal.controlplane.jobs.indexes import IndexSet
from shoal.controlplane.jobs.pods import new_pod
from shoal.controlplane.jobs.policies import match_pod_failure_policy, match_success_policy
from shoal.controlplane.jobs.state import job_state
from shoal.kinds.batch.job import (
    COMPLETION_INDEX_ANNOTATION,
    IGNORED_INDEX_FAILURES_ANNOTATION,
    INDEX_FAILURES_ANNOTATION,
    TRACKING_FINALIZER,
)
from tests.controlplane.jobs.samples import NOW, Object, indexed, job, many, pod, uids

LIMIT_REACHED = FinishedCondition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LATE = FinishedCondition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY = "Job has exceeded the specified maximal number of failed indexes"
LONG_AGO = 100_000


def make_plan(the_job: Object, pods: list[Object], **known: Any) -> Any:
    found = job_state(the_job, pods, known.get("deleted", frozenset()), known.get("backoff"))
    return decide(the_job, found, NOW)


@pytest.mark.parametrize(
    ("the_job", "pods", "create", "delete"),
    [
        (job(parallelism=3, completions=10), [], 3, 0),
        (job(parallelism=3, completions=10), many(1) + many(4, "Succeeded"), 2, 0),
        (job(parallelism=3, completions=5), many(1) + many(3, "Succeeded"), 1, 0),
        (job(parallelism=3, completions=5, status={"succeeded": 4}), many(1), 0, 0),
        (job(parallelism=3, completions=5, status={"succeeded": 4}), many(3), 0, 2),
        (job(parallelism=3, completions=None), many(1), 2, 0),
        (job(parallelism=3, completions=None), many(1) + many(1, "Succeeded"), 0, 0),
        (job(parallelism=0), many(2), 0, 2),
        (job(parallelism=2000, completions=2000), [], 500, 0),
        (job(parallelism=2, suspend=True), many(2), 0, 2),
        (job(parallelism=2, metadata={"deletionTimestamp": rfc3339(NOW)}), [], 0, 0),
        # A pod on its way out is replaced, unless only those that failed are.
        (job(parallelism=2, completions=5), many(1) + many(1, deleted=True), 0, 0),
        (job(parallelism=2, completions=5, podReplacementPolicy="Failed"), many(1) + many(1, deleted=True), 0, 0),
        (job(parallelism=2, completions=5), many(1) + many(1, deleted=True, held=False), 1, 0),
        (
            job(parallelism=2, completions=5, podReplacementPolicy="Failed"),
            many(1) + many(1, deleted=True, held=False),
            0,
            0,
        ),
    ],
)
def test_how_many_pods_are_made_and_go(the_job: Object, pods: list[Object], create: int, delete: int) -> None:
    plan = make_plan(the_job, pods)
    assert plan.finished is None
    assert (len(plan.create), len(plan.delete)) == (create, delete)


def test_a_deletion_that_does_not_show_yet_is_one() -> None:
    pods = many(3)
    assert not make_plan(job(parallelism=2, completions=9), pods, deleted={pods[0]["metadata"]["uid"]}).delete
    plan = make_plan(job(parallelism=3, completions=9), pods, deleted={pods[0]["metadata"]["uid"]})
    assert len(plan.create) == 1


@pytest.mark.parametrize(
    ("the_job", "pods", "ending"),
    [
        (job(backoffLimit=0), many(1, "Failed"), LIMIT_REACHED),
        (job(backoffLimit=1), many(1, "Failed"), None),
        (job(backoffLimit=2, status={"failed": 2}), many(1, "Failed"), LIMIT_REACHED),
        (job(backoffLimit=1, status={"failed": 1, "uncountedTerminatedPods": {"failed": ["x"]}}), [], LIMIT_REACHED),
        (job(backoffLimit=0), many(1, deleted=True), LIMIT_REACHED),
        (job(backoffLimit=0, podReplacementPolicy="Failed"), many(1, deleted=True), None),
        (job(backoffLimit=0, podReplacementPolicy="Failed"), many(1, deleted=True, node=""), LIMIT_REACHED),
        (job(activeDeadlineSeconds=60, status={"startTime": rfc3339(NOW - 60)}), many(1), TOO_LATE),
        (job(activeDeadlineSeconds=61, status={"startTime": rfc3339(NOW - 60)}), many(1), None),
        (job(activeDeadlineSeconds=60, suspend=True, status={"startTime": rfc3339(NOW - 60)}), [], None),
        (
            indexed(3, backoffLimitPerIndex=0, maxFailedIndexes=1),
            [pod("Failed", 0), pod("Failed", 1), pod("Running", 2)],
            FinishedCondition("Failed", "MaxFailedIndexesExceeded", TOO_MANY),
        ),
        (
            indexed(3, backoffLimitPerIndex=0),
            [pod("Failed", 0), pod("Succeeded", 1), pod("Succeeded", 2)],
            FinishedCondition("Failed", "FailedIndexes", "Job has failed indexes"),
        ),
        (indexed(3, backoffLimitPerIndex=0), [pod("Failed", 0), pod("Succeeded", 1), pod("Running", 2)], None),
        (
            indexed(3, successPolicy={"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}),
            [pod("Succeeded", 0), pod("Running", 1)],
            FinishedCondition("Complete", "SuccessPolicy", "Matched rules at index 0"),
        ),
    ],
)
def test_how_a_job_ends(the_job: Object, pods: list[Object], ending: FinishedCondition | None) -> None:
    plan = make_plan(the_job, pods, backoff=JobBackoff())
    assert plan.finished == ending
    if ending is not None:
        assert not plan.create
        assert all(one["status"]["phase"] == "Running" for one in plan.delete)


@pytest.mark.parametrize(("limit", "restarts", "ends"), [(0, 0, False), (0, 1, True), (3, 2, False), (3, 3, True)])
def test_restarts_where_the_pod_is_count_as_well(limit: int, restarts: int, ends: bool) -> None:
    the_job = job(backoffLimit=limit)
    the_job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    assert (make_plan(the_job, [pod(restarts=restarts)]).finished is not None) is ends


def test_what_was_said_stands() -> None:
    said = {"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": "Matched"}
    the_job = job(backoffLimit=0, status={"conditions": [said]})
    assert make_plan(the_job, many(1, "Failed")).finished == FinishedCondition("Complete", "SuccessPolicy", "Matched")
    said = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
    the_job = job(status={"conditions": [said]})
    assert make_plan(the_job, many(1, "Succeeded")).finished == FinishedCondition("Failed", "DeadlineExceeded", "late")


def test_the_deadline_is_when_to_look_again() -> None:
    assert make_plan(job(activeDeadlineSeconds=90), []).requeue_at == NOW + 90
    started = job(activeDeadlineSeconds=90, status={"startTime": rfc3339(NOW - 30)})
    assert make_plan(started, []).requeue_at == NOW + 60
    assert make_plan(job(), []).requeue_at is None


def test_indexes_are_made_in_order_and_once() -> None:
    the_job = indexed(6, parallelism=3, status={"completedIndexes": "0", "succeeded": 1})
    plan = make_plan(the_job, [pod("Succeeded", 2), pod("Running", 3)])
    assert plan.create == (1, 4)
    twins = [pod("Running", 1, uid="a"), pod("Pending", 1, uid="b", node=""), pod("Running", 9), pod("Running", None)]
    plan = make_plan(indexed(6), twins)
    assert uids(list(plan.delete))[-1] == "b"
    assert len(plan.delete) == 3


def test_with_the_replacement_policy_an_index_waits_for_its_pod_to_end() -> None:
    pods = [pod("Running", 0, deleted=True, held=False)]
    assert make_plan(indexed(2), pods).create == (0, 1)
    assert make_plan(indexed(2, podReplacementPolicy="Failed"), pods).create == (1,)


@pytest.mark.parametrize(
    ("failures", "ended", "wait"),
    [(0, 0, 0), (1, 0, 10), (1, 4, 6), (1, 11, 0), (2, 0, 20), (4, 0, 80), (7, 0, 600), (100, 0, 600)],
)
def test_the_wait_doubles_with_every_failure(failures: int, ended: int, wait: int) -> None:
    known = JobBackoff(failures - 1, NOW - LONG_AGO) if failures else JobBackoff()
    pods = [pod("Failed", ended=ended)] if failures else []
    plan = make_plan(job(backoffLimit=200), pods, backoff=known)
    assert plan.requeue_at == (NOW + wait if wait else None)
    assert len(plan.create) == (0 if wait else 1)


def test_what_nobody_remembers_is_read_from_the_pods() -> None:
    pods = [pod("Failed", ended=70, held=False), pod("Succeeded", ended=50, held=False)]
    pods += [pod("Failed", ended=30, held=False), pod("Failed", ended=5)]
    found = job_state(job(completions=9, status={"failed": 2, "succeeded": 1}), pods, set())
    assert found.backoff == JobBackoff(2, NOW - 5)
    assert found.failed == 3


def test_a_success_ends_the_row() -> None:
    before = JobBackoff(5, NOW - 100)
    assert before.with_finished([pod("Succeeded", ended=3)], [pod("Failed", ended=4)]) == JobBackoff()
    assert before.with_finished([pod("Succeeded", ended=3)], [pod("Failed", ended=2)]) == JobBackoff(1, NOW - 2)
    assert before.with_finished([], []) == before
    assert finish_time(pod("Running", deleted=True)) == NOW
    unready = [{"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(NOW - 7)}]
    assert (
        finish_time(pod("Failed", conditions=unready) | {"status": {"phase": "Failed", "conditions": unready}})
        == NOW - 7
    )


def test_each_index_waits_for_itself() -> None:
    the_job = indexed(3, backoffLimitPerIndex=3)
    pods = [pod("Failed", 0, ended=5, annotations={INDEX_FAILURES_ANNOTATION: "1"}), pod("Failed", 1, ended=12)]
    plan = make_plan(the_job, pods)
    assert plan.create == (1, 2)
    assert plan.requeue_at == NOW + 15
    assert make_plan(the_job, [*pods[:1], pod("Running", 1), pod("Running", 2)]).create == ()


RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}},
    {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
    {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1]}},
]


@pytest.mark.parametrize(
    ("code", "conditions", "action", "counts"),
    [
        (42, [], "FailJob", True),
        (42, [{"type": "DisruptionTarget", "status": "True"}], "Ignore", False),
        (42, [{"type": "DisruptionTarget", "status": "False"}], "FailJob", True),
        (3, [], "FailIndex", True),
        (7, [], "Count", True),
        (1, [], "", True),
        (0, [], "", True),
    ],
)
def test_rules_about_failed_pods(code: int, conditions: list[Object], action: str, counts: bool) -> None:
    verdict = match_pod_failure_policy(
        job(podFailurePolicy={"rules": RULES}), pod("Failed", code=code, conditions=conditions)
    )
    assert (verdict.action, verdict.is_counted) == (action, counts)


def test_a_rule_fails_the_job_and_says_why() -> None:
    failed = pod("Failed", code=42, name="j-x")
    assert make_plan(job(podFailurePolicy={"rules": RULES}), [failed]).finished == FinishedCondition(
        "Failed",
        "PodFailurePolicy",
        "Container c for pod default/j-x failed with exit code 42 matching FailJob rule at index 1",
    )
    rule = {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]}
    failed = pod("Failed", name="j-x", conditions=[{"type": "ConfigIssue", "status": "True"}])
    assert make_plan(job(podFailurePolicy={"rules": [rule]}), [failed]).finished.message == (
        "Pod default/j-x has condition ConfigIssue matching FailJob rule at index 0"
    )


def test_an_ignored_failure_is_none_and_an_index_can_fail_at_once() -> None:
    the_job = indexed(2, backoffLimitPerIndex=5, podFailurePolicy={"rules": RULES})
    disrupted = pod("Failed", 0, ended=99, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    found = job_state(the_job, [disrupted, pod("Failed", 1, code=3)], set())
    assert found.failed == 1
    assert str(found.failed_indexes) == "1"
    assert decide(the_job, found, NOW).create == (0,)
    made = new_pod(the_job, {}, 0, disrupted)["metadata"]["annotations"]
    assert (made[INDEX_FAILURES_ANNOTATION], made[IGNORED_INDEX_FAILURES_ANNOTATION]) == ("0", "1")
    assert new_pod(the_job, {}, 0, pod("Failed", 0))["metadata"]["annotations"][INDEX_FAILURES_ANNOTATION] == "1"
    assert new_pod(the_job, {}, 0, None)["metadata"]["annotations"][INDEX_FAILURES_ANNOTATION] == "0"


def test_a_made_pod() -> None:
    made = new_pod(job(), {"uid": "job"}, None, None)
    assert made["metadata"]["generateName"] == "j-"
    assert made["metadata"]["finalizers"] == [TRACKING_FINALIZER]
    assert made["spec"] == job()["spec"]["template"]["spec"]
    the_job = indexed(9, metadata={"name": "n" * 60})
    made = new_pod(the_job, {}, 7, None)
    assert made["metadata"]["generateName"] == "n" * 55 + "-7-"
    assert (
        made["metadata"]["labels"][COMPLETION_INDEX_ANNOTATION]
        == made["metadata"]["annotations"][COMPLETION_INDEX_ANNOTATION]
        == "7"
    )
    assert made["spec"]["hostname"] == "n" * 60 + "-7"
    (variable,) = made["spec"]["containers"][0]["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{COMPLETION_INDEX_ANNOTATION}']"
    assert "env" not in the_job["spec"]["template"]["spec"]["containers"][0], "the Job's own template is untouched"


@pytest.mark.parametrize(
    ("rule", "succeeded", "met"),
    [
        ({"succeededIndexes": "0-2"}, "0-1", False),
        ({"succeededIndexes": "0-2"}, "0-2,7", True),
        ({"succeededIndexes": "0-2", "succeededCount": 2}, "1-2", True),
        ({"succeededIndexes": "0-2", "succeededCount": 2}, "2-9", False),
        ({"succeededCount": 3}, "4-5", False),
        ({"succeededCount": 3}, "4-6", True),
    ],
)
def test_rules_about_success(rule: Object, succeeded: str, met: bool) -> None:
    the_job = indexed(10, successPolicy={"rules": [rule]})
    said = match_success_policy(the_job, IndexSet.parse(succeeded, 10))
    assert said == ("Matched rules at index 0" if met else None)


@pytest.mark.parametrize(
    ("text", "completions", "written"),
    [("1,3-5,7", 10, "1,3-5,7"), ("0,1", 10, "0,1"), ("0-2,3", 10, "0-3"), ("1,3-9", 5, "1,3,4"), ("x,2,4-y", 9, "2")],
)
def test_indexes_are_read_and_written(text: str, completions: int, written: str) -> None:
    assert str(IndexSet.parse(text, completions)) == written
    assert IndexSet.parse("", 9).total == 0


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 70))
def test_indexes_are_sets(one: set[int], other: set[int], count: int) -> None:
    first, second = IndexSet.from_indexes(one), IndexSet.from_indexes(other)
    assert IndexSet.parse(str(first), 100) == first
    assert {index for index in range(70) if index in first | second} == one | other
    assert first.total == len(one)
    assert first.intersection_size(second) == len(one & other)
    assert first.first_absent(count, 50) == [index for index in range(50) if index not in one][:count]
