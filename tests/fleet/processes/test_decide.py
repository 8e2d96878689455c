"""Decisions about a Worker's process, case by case; data is only deleted when nothing is hosted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.processes.decide import (
    CLAIM,
    LONGEST_PAUSE,
    RELEASE,
    REMOVE,
    START,
    STEADY_SECONDS,
    STOP,
    Decision,
    Said,
    claimed,
    decide,
    failures_after,
    pause,
    released,
    told,
)
from shoal.fleet.processes.interface import Here
from shoal.kinds import fleet
from shoal.kinds.joining import EXPELLED

Object = dict[str, Any]

NOW = "2026-11-16T03:00:00Z"
PLACE, UID = "here", "uid-1"
DELETING: Object = {"deletionTimestamp": NOW}
HELD: Object = {"finalizers": [fleet.WORKER_FINALIZER, fleet.PROCESS_FINALIZER]}
FREE: Object = {"finalizers": [fleet.PROCESS_FINALIZER]}
STORED = {fleet.STORE: "s"}
MINE = {fleet.SUPERVISOR: PLACE}
THEIRS = {fleet.SUPERVISOR: "there"}
FRESH = Here(directory="/w/one")
DATA = Here(directory="/w/one", owner=UID)
RUNNING = Here(pid=7, since=1000.0, directory="/w/one", owner=UID)


def worker(annotations: Object | None = None, spec: Object | None = None, **metadata: Any) -> Object:
    named = {"name": "one", "namespace": "shoal-system", "uid": UID, "generation": 2, "resourceVersion": "5"}
    made = {"infrastructure": "process", "provides": ["embedded"], **(spec or {})}
    return {"metadata": {**named, "annotations": annotations or {}, **metadata}, "spec": made}


def reason(decision: Decision) -> str:
    return decision.said.reason if decision.said is not None else "-"


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
        (worker(), PLACE, Here(owner="another"), "", "DirectoryTaken"),
        (worker(), PLACE, Here(owner=""), "", "DirectoryTaken"),
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
        (worker(MINE), PLACE, Here(owner="another"), "", "DirectoryTaken"),
        (worker(MINE), PLACE, Here(owner=UID, occupant=9), "", "DirectoryInUse"),
        (worker(MINE | STORED), PLACE, RUNNING, "", "ProcessRunning"),
        (worker(MINE, {"infrastructure": "kind"}), PLACE, RUNNING, "", "ProcessRunning"),
        (worker(MINE | {EXPELLED: "true"}), PLACE, RUNNING, STOP, "Expelled"),
        (worker(MINE | {EXPELLED: "true"}), PLACE, DATA, "", "Expelled"),
        (worker(MINE | STORED, **DELETING, **HELD), PLACE, RUNNING, "", "ProcessRunning"),
        (worker(MINE | STORED, **DELETING, **HELD), PLACE, DATA, START, "-"),
    ],
)
def test_every_case(obj: Object, place: str, here: Here, act: str, why: str) -> None:
    found = decide(obj, place, here, None, 1001.0, 20.0)
    assert (found.act, reason(found)) == (act, why)


@pytest.mark.parametrize(
    ("obj", "place", "here", "hosted", "act", "why"),
    [
        (worker(THEIRS), PLACE, FRESH, None, CLAIM, "-"),
        (worker(THEIRS), PLACE, Here(owner="another"), None, "", "SupervisorSilent"),
        (worker(THEIRS), "", FRESH, None, "", "SupervisorSilent"),
        (worker(THEIRS | STORED), PLACE, FRESH, None, "", "SupervisorSilent"),
        (worker(THEIRS | STORED, **DELETING, **HELD), PLACE, FRESH, None, "", "SupervisorSilent"),
        (worker(THEIRS | STORED, **DELETING, **FREE), PLACE, FRESH, 1, "", "SupervisorSilent"),
        (worker(THEIRS | STORED, **DELETING, **FREE), PLACE, FRESH, 0, RELEASE, "-"),
        (worker(THEIRS | STORED, **DELETING, **FREE), "", FRESH, 0, RELEASE, "-"),
    ],
)
def test_the_hub_that_has_it_is_silent(
    obj: Object, place: str, here: Here, hosted: int | None, act: str, why: str
) -> None:
    found = decide(obj, place, here, hosted, 1001.0, 0.0)
    assert (found.act, reason(found)) == (act, why)
    waits = decide(obj, place, here, hosted, 1001.0, 7.0)
    assert waits == Decision(again=7.0), "it has its time first"


@pytest.mark.parametrize(
    ("here", "hosted", "act"),
    [
        (RUNNING, 0, STOP),
        (DATA, 0, REMOVE),
        (FRESH, 0, RELEASE),
        (Here(owner="another"), 0, RELEASE),
        (Here(owner=UID, occupant=9), 0, ""),
        (RUNNING, 1, ""),
        (DATA, 1, START),
    ],
)
def test_a_deleted_worker_goes_step_by_step_when_it_hosts_nothing(here: Here, hosted: int, act: str) -> None:
    obj = worker(MINE | STORED, **DELETING, **FREE)
    assert decide(obj, PLACE, here, hosted, 1001.0).act == act


@given(
    annotations=st.fixed_dictionaries({}, optional={fleet.SUPERVISOR: st.sampled_from([PLACE, "there"]), **{
        key: st.just("x") for key in (fleet.STORE, EXPELLED)
    }}),
    metadata=st.fixed_dictionaries({}, optional={
        "deletionTimestamp": st.just(NOW),
        "finalizers": st.lists(st.sampled_from([fleet.WORKER_FINALIZER, fleet.PROCESS_FINALIZER]), unique=True),
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
    act = decide(obj, PLACE, Here(pid, 1000.0, failures, "x", "/w", owner, occupant), hosted, 1000.1, left).act
    if act in (REMOVE, RELEASE):
        assert (hosted, pid) == (0, 0)
        assert "deletionTimestamp" in metadata
        assert fleet.WORKER_FINALIZER not in metadata.get("finalizers", ())
        assert annotations[fleet.SUPERVISOR] == PLACE or (act, left) == (RELEASE, 0.0)
    if act == REMOVE:
        assert (owner, occupant) == (UID, 0)
    if act == START:
        assert (pid, occupant, annotations[fleet.SUPERVISOR]) == (0, 0, PLACE)
        assert owner in (None, UID)


def test_it_is_started_again_after_a_growing_pause() -> None:
    assert [pause(n) for n in (0, 1, 2, 3)] == [0.0, 0.5, 1.0, 2.0]
    assert pause(50) == LONGEST_PAUSE
    failed = Here(since=1000.0, failures=2, ended="exit code 1: error: no", directory="/w/one", owner=UID)
    waits = decide(worker(MINE), PLACE, failed, None, 1000.25)
    assert (waits.act, waits.again) == ("", 0.75)
    assert waits.said == Said("False", "ProcessExited", "exit code 1: error: no; it is started again")
    assert decide(worker(MINE), PLACE, failed, None, 1001.0).act == START
    assert failures_after(3, STEADY_SECONDS - 1) == 4
    assert failures_after(3, STEADY_SECONDS) == 1


def test_what_went_wrong_is_kept_until_it_has_run_for_a_while() -> None:
    obj = worker(MINE)
    exited = Decision("", Said("False", "ProcessExited", "exit code 1"))
    obj["status"] = told(obj, exited, NOW)
    assert [error["message"] for error in obj["status"]["errors"]] == ["exit code 1"]
    assert told(obj, exited, NOW) is None, "the same is not said twice"
    obj["status"] = told(obj, decide(obj, PLACE, RUNNING, None, 1001.0), NOW)
    assert len(obj["status"]["errors"]) == 1
    obj["status"] = told(obj, decide(obj, PLACE, RUNNING, None, 1000.0 + STEADY_SECONDS), NOW)
    assert obj["status"]["errors"] == []
    (said,) = obj["status"]["conditions"]
    assert (said["type"], said["status"], said["observedGeneration"]) == ("Supervised", "True", 2)
    assert said["message"] == "process 7 on /w/one"
    assert told({**obj, "spec": {"infrastructure": "kind"}}, Decision("", Said("")), NOW) == {
        "errors": [],
        "conditions": [],
    }


def test_claims_and_finalizers_are_compare_and_swap() -> None:
    obj = worker(finalizers=["theirs"])
    claim = claimed(obj, PLACE)["metadata"]
    assert claim == {
        "resourceVersion": "5",
        "annotations": {fleet.SUPERVISOR: PLACE},
        "finalizers": ["theirs", fleet.PROCESS_FINALIZER],
    }
    assert released(worker(finalizers=claim["finalizers"]))["metadata"] == {
        "resourceVersion": "5",
        "finalizers": ["theirs"],
    }
