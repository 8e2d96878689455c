"""Decisions about a Worker's process, case by case; data is only deleted when nothing is hosted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.workerprocesses.decide import (
    CLAIM,
    LONGEST_PAUSE,
    RELEASE,
    REMOVE,
    STABLE_SECONDS,
    START,
    STOP,
    ProcessDecision,
    SupervisedCondition,
    claim_patch,
    decide,
    failures_after,
    release_patch,
    restart_delay,
    supervised_status,
)
from shoal.fleet.workerprocesses.interface import ProcessState
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.worker_join import EXPELLED_ANNOTATION

Object = dict[str, Any]

NOW = "2026-11-16T03:00:00Z"
PLACE, UID = "here", "uid-1"
DELETING: Object = {"deletionTimestamp": NOW}
HELD: Object = {"finalizers": [infrav1.WORKER_FINALIZER, infrav1.PROCESS_FINALIZER]}
FREE: Object = {"finalizers": [infrav1.PROCESS_FINALIZER]}
STORED = {infrav1.STORE_ANNOTATION: "s"}
MINE = {infrav1.SUPERVISOR_ANNOTATION: PLACE}
THEIRS = {infrav1.SUPERVISOR_ANNOTATION: "there"}
FRESH = ProcessState(directory="/w/one")
DATA = ProcessState(directory="/w/one", owner_uid=UID)
RUNNING = ProcessState(pid=7, changed_at=1000.0, directory="/w/one", owner_uid=UID)


def worker(annotations: Object | None = None, spec: Object | None = None, **metadata: Any) -> Object:
    named = {"name": "one", "namespace": "shoal-system", "uid": UID, "generation": 2, "resourceVersion": "5"}
    made = {"infrastructure": "process", "provides": ["embedded"], **(spec or {})}
    return {"metadata": {**named, "annotations": annotations or {}, **metadata}, "spec": made}


def reason(decision: ProcessDecision) -> str:
    return decision.condition.reason if decision.condition is not None else "-"


@pytest.mark.parametrize(
    ("obj", "place", "here", "act", "why"),
    [
        (worker(), PLACE, FRESH, CLAIM, "-"),
        (worker(), PLACE, DATA, CLAIM, "-"),
        (worker(), "", FRESH, "", "NoWorkerProcesses"),
        (worker(namespace="default"), PLACE, FRESH, "", "WrongNamespace"),
        (worker(MINE, namespace="default"), PLACE, RUNNING, "", "WrongNamespace"),
        (worker(MINE, namespace="default", **DELETING, **FREE), PLACE, RUNNING, "", ""),
        (worker(STORED), PLACE, FRESH, "", "JoinedFromElsewhere"),
        (worker(spec={"provides": ["embedded", "kind"]}), PLACE, FRESH, "", "InfrastructureNotProvided"),
        (worker(), PLACE, ProcessState(owner_uid="another"), "", "DirectoryTaken"),
        (worker(), PLACE, ProcessState(owner_uid=""), "", "DirectoryTaken"),
        (worker(spec={"infrastructure": "kind"}), PLACE, FRESH, "", ""),
        (worker(spec={"infrastructure": "external"}), PLACE, FRESH, "", ""),
        (worker(**DELETING), PLACE, FRESH, "", ""),
        (worker(THEIRS), PLACE, FRESH, "", "-"),
        (worker(THEIRS, **DELETING), PLACE, FRESH, "", "-"),
        (worker(THEIRS), PLACE, RUNNING, STOP, "-"),
        (worker(MINE), PLACE, FRESH, START, "-"),
        (worker(MINE), PLACE, DATA, START, "-"),
        (worker(MINE | STORED), PLACE, DATA, START, "-"),
        (worker(MINE | STORED), PLACE, FRESH, "", "DirectoryMissing"),
        (worker(MINE), PLACE, ProcessState(owner_uid="another"), "", "DirectoryTaken"),
        (worker(MINE), PLACE, ProcessState(owner_uid=UID, foreign_pid=9), "", "DirectoryInUse"),
        (worker(MINE | STORED), PLACE, RUNNING, "", "ProcessRunning"),
        (worker(MINE, {"infrastructure": "kind"}), PLACE, RUNNING, "", "ProcessRunning"),
        (worker(MINE | {EXPELLED_ANNOTATION: "true"}), PLACE, RUNNING, STOP, "Expelled"),
        (worker(MINE | {EXPELLED_ANNOTATION: "true"}), PLACE, DATA, "", "Expelled"),
        (worker(MINE | STORED, **DELETING, **HELD), PLACE, RUNNING, "", "ProcessRunning"),
        (worker(MINE | STORED, **DELETING, **HELD), PLACE, DATA, START, "-"),
    ],
)
def test_every_case(obj: Object, place: str, here: ProcessState, act: str, why: str) -> None:
    found = decide(obj, place, here, None, 1001.0, 20.0)
    assert (found.action, reason(found)) == (act, why)


@pytest.mark.parametrize(
    ("obj", "place", "here", "hosted", "act", "why"),
    [
        (worker(THEIRS), PLACE, FRESH, None, CLAIM, "-"),
        (worker(THEIRS), PLACE, ProcessState(owner_uid="another"), None, "", "SupervisorSilent"),
        (worker(THEIRS), "", FRESH, None, "", "SupervisorSilent"),
        (worker(THEIRS | STORED), PLACE, FRESH, None, "", "SupervisorSilent"),
        (worker(THEIRS | STORED, **DELETING, **HELD), PLACE, FRESH, None, "", "SupervisorSilent"),
        (worker(THEIRS | STORED, **DELETING, **FREE), PLACE, FRESH, 1, "", "SupervisorSilent"),
        (worker(THEIRS | STORED, **DELETING, **FREE), PLACE, FRESH, 0, RELEASE, "-"),
        (worker(THEIRS | STORED, **DELETING, **FREE), "", FRESH, 0, RELEASE, "-"),
    ],
)
def test_the_hub_that_has_it_is_silent(
    obj: Object, place: str, here: ProcessState, hosted: int | None, act: str, why: str
) -> None:
    found = decide(obj, place, here, hosted, 1001.0, 0.0)
    assert (found.action, reason(found)) == (act, why)
    waits = decide(obj, place, here, hosted, 1001.0, 7.0)
    assert waits == ProcessDecision(requeue_after=7.0), "it has its time first"


@pytest.mark.parametrize(
    ("here", "hosted", "act"),
    [
        (RUNNING, 0, STOP),
        (DATA, 0, REMOVE),
        (FRESH, 0, RELEASE),
        (ProcessState(owner_uid="another"), 0, RELEASE),
        (ProcessState(owner_uid=UID, foreign_pid=9), 0, ""),
        (RUNNING, 1, ""),
        (DATA, 1, START),
    ],
)
def test_a_deleted_worker_goes_step_by_step_when_it_hosts_nothing(here: ProcessState, hosted: int, act: str) -> None:
    obj = worker(MINE | STORED, **DELETING, **FREE)
    assert decide(obj, PLACE, here, hosted, 1001.0).action == act


@given(
    annotations=st.fixed_dictionaries({}, optional={infrav1.SUPERVISOR_ANNOTATION: st.sampled_from([PLACE,
    "there"]), **{
        key: st.just("x") for key in (infrav1.STORE_ANNOTATION, EXPELLED_ANNOTATION)
    }}),
    metadata=st.fixed_dictionaries({}, optional={
        "deletionTimestamp": st.just(NOW),
        "finalizers": st.lists(st.sampled_from([infrav1.WORKER_FINALIZER, infrav1.PROCESS_FINALIZER]), unique=True),
    }),
    pid=st.sampled_from([0, 7]),
    owner=st.sampled_from([None, "", UID, "another"]),
    occupant=st.sampled_from([0, 9]),
    hosted=st.sampled_from([None, 0, 1]),
    failures=st.integers(0, 3),
    left=st.sampled_from([0.0, 9.0]),
)  # fmt: skip
def test_data_is_removed_only_where_nothing_is_hosted(
    annotations: Object,
    metadata: Object,
    pid: int,
    owner: str | None,
    occupant: int,
    hosted: int | None,
    failures: int,
    left: float,
) -> None:
    obj = worker(annotations, **metadata)
    act = decide(
        obj, PLACE, ProcessState(pid, 1000.0, failures, "x", "/w", owner, occupant), hosted, 1000.1, left
    ).action
    if act in (REMOVE, RELEASE):
        assert (hosted, pid) == (0, 0)
        assert "deletionTimestamp" in metadata
        assert infrav1.WORKER_FINALIZER not in metadata.get("finalizers", ())
        assert annotations[infrav1.SUPERVISOR_ANNOTATION] == PLACE or (act, left) == (RELEASE, 0.0)
    if act == REMOVE:
        assert (owner, occupant) == (UID, 0)
    if act == START:
        assert (pid, occupant, annotations[infrav1.SUPERVISOR_ANNOTATION]) == (0, 0, PLACE)
        assert owner in (None, UID)


def test_it_is_started_again_after_a_growing_pause() -> None:
    assert [restart_delay(n) for n in (0, 1, 2, 3)] == [0.0, 0.5, 1.0, 2.0]
    assert restart_delay(50) == LONGEST_PAUSE
    failed = ProcessState(
        changed_at=1000.0, failures=2, exit_message="exit code 1: error: no", directory="/w/one", owner_uid=UID
    )
    waits = decide(worker(MINE), PLACE, failed, None, 1000.25)
    assert (waits.action, waits.requeue_after) == ("", 0.75)
    assert waits.condition == SupervisedCondition("False", "ProcessExited", "exit code 1: error: no; restarting")
    assert decide(worker(MINE), PLACE, failed, None, 1001.0).action == START
    assert failures_after(3, STABLE_SECONDS - 1) == 4
    assert failures_after(3, STABLE_SECONDS) == 1


def test_what_went_wrong_is_kept_until_it_has_run_for_a_while() -> None:
    obj = worker(MINE)
    exited = ProcessDecision("", SupervisedCondition("False", "ProcessExited", "exit code 1"))
    obj["status"] = supervised_status(obj, exited, NOW)
    assert [error["message"] for error in obj["status"]["errors"]] == ["exit code 1"]
    assert supervised_status(obj, exited, NOW) is None, "the same is not said twice"
    obj["status"] = supervised_status(obj, decide(obj, PLACE, RUNNING, None, 1001.0), NOW)
    assert len(obj["status"]["errors"]) == 1
    obj["status"] = supervised_status(obj, decide(obj, PLACE, RUNNING, None, 1000.0 + STABLE_SECONDS), NOW)
    assert obj["status"]["errors"] == []
    (said,) = obj["status"]["conditions"]
    assert (said["type"], said["status"], said["observedGeneration"]) == ("Supervised", "True", 2)
    assert said["message"] == "process 7 on /w/one"
    assert supervised_status(
        {**obj, "spec": {"infrastructure": "kind"}}, ProcessDecision("", SupervisedCondition("")), NOW
    ) == {
        "errors": [],
        "conditions": [],
    }


def test_claims_and_finalizers_are_compare_and_swap() -> None:
    obj = worker(finalizers=["theirs"])
    claim = claim_patch(obj, PLACE)["metadata"]
    assert claim == {
        "resourceVersion": "5",
        "annotations": {infrav1.SUPERVISOR_ANNOTATION: PLACE},
        "finalizers": ["theirs", infrav1.PROCESS_FINALIZER],
    }
    assert release_patch(worker(finalizers=claim["finalizers"]))["metadata"] == {
        "resourceVersion": "5",
        "finalizers": ["theirs"],
    }
