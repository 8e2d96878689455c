"""Migration decisions in tables: lease expiry, which clusters may be migrated, and the written status."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.migration.decide import (
    LOST,
    LeaseObservation,
    MigrationObstacle,
    RestoreSource,
    cancelled_status,
    completed_status,
    has_expired,
    is_migrating,
    movable_status,
    observe_lease,
    planned_status,
    reassigned_status,
    required_silence,
    restore_source_of,
)
from shoal.fleet.migration.eviction import (
    EvictionDue,
    EvictionProgress,
    drain_budget,
    drained_status,
    evacuated_status,
    eviction_due,
    is_evacuation_approved,
    is_lost,
    too_many_lost,
    without_counts,
)
from shoal.fleet.migration.settings import MigrationSettings, parse_migration_settings
from shoal.kinds.fleet import infrav1, migration
from tests.fleet.fleets import condition

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"
HEARD = "2026-11-15T11:50:00.000000Z"
DEFAULTS = MigrationSettings()


def lease(version: str = "7", fences: bool = True, **spec: Any) -> Object:
    metadata: Object = {"name": "worker-w1", "uid": "u", "resourceVersion": version}
    if fences:
        metadata["annotations"] = {infrav1.FENCES_ANNOTATION: "true"}
    return {"metadata": metadata, "spec": {"renewTime": HEARD, "leaseDurationSeconds": 40, **spec}}


def cluster(spec: Object | None = None, generation: int = 2, **status: Any) -> Object:
    given = {"type": "Scheduled", "status": "True", "reason": "Bound", "message": "", "observedGeneration": 2}
    conditions = [given, *status.pop("conditions", ())]
    return {
        "metadata": {"name": "east", "namespace": "default", "generation": generation, "resourceVersion": "5"},
        "spec": {"onWorkerLost": "Move", "infrastructure": "embedded", **(spec or {})},
        "status": {"assignedWorker": "w1", "lastWorker": "w1", "epoch": 3, "conditions": conditions, **status},
    }


HELD = {"worker": "w1", "epoch": 3, "time": NOW}


def backup(**more: Any) -> Object:
    return {"worker": "w1", "epoch": 3, "revision": 900, "time": "2026-11-15T11:49:59Z", "complete": True, **more}


# --- silence ---


def test_a_lease_ends_by_the_hubs_own_observation_only() -> None:
    first = observe_lease(None, lease("7", renewTime="1970-01-01T00:00:00Z"), 1000.0)
    assert first == LeaseObservation("u/7", 1000.0)
    assert required_silence(lease(), DEFAULTS) == 105.0
    assert not has_expired(first, lease("7"), 1104.9, DEFAULTS)
    assert has_expired(first, lease("7"), 1105.0, DEFAULTS)
    assert observe_lease(first, lease("7"), 1104.0) is first
    assert observe_lease(first, lease("8"), 1104.0) == LeaseObservation("u/8", 1104.0)


def test_another_state_than_the_known_one_is_no_end_however_long_it_took() -> None:
    assert not has_expired(LeaseObservation("u/7", 0.0), lease("8"), 1e9, DEFAULTS)
    assert not has_expired(None, lease("7"), 1e9, DEFAULTS)
    assert not has_expired(LeaseObservation("u/7", 0.0), None, 1e9, DEFAULTS)


def test_a_lease_that_is_gone_is_silence_too_from_when_it_was_missed() -> None:
    missed = observe_lease(LeaseObservation("u/7", 0.0), None, 1000.0)
    assert missed == LeaseObservation("", 1000.0)
    assert not has_expired(missed, None, 1100.0, DEFAULTS)
    assert has_expired(missed, None, 1105.0, DEFAULTS)


@pytest.mark.parametrize(("said", "wanted"), [(40, 105.0), (10, 105.0), (600, 665.0), (None, 105.0)])
def test_a_lease_may_ask_for_more_patience_never_for_less(said: int | None, wanted: float) -> None:
    assert required_silence(lease(leaseDurationSeconds=said), DEFAULTS) == wanted


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.booleans()), max_size=30))
def test_never_within_the_patience_after_a_renewal(steps: list[tuple[float, bool]]) -> None:
    """However the hub's looks and the worker's renewals follow each other."""
    now, version, renewed, known = 0.0, 1, 0.0, None
    for pause, renews in steps:
        now += pause
        if renews:
            version, renewed = version + 1, now
        else:
            known = observe_lease(known, lease(str(version)), now)
            if has_expired(known, lease(str(version)), now, DEFAULTS):
                assert now - renewed >= 105.0


# --- who may be moved ---


@pytest.mark.parametrize(
    ("managed", "of", "wanted"),
    [
        (cluster(held=HELD, backup=backup()), lease(), {"epoch": 3, "revision": 900}),
        (cluster(held=HELD), lease(), "NoBackup"),
        (cluster(held=HELD, backup=backup(epoch=2)), lease(), "NoBackup"),
        (cluster(held=HELD, backup=backup(worker="w0")), lease(), "NoBackup"),
        (cluster(held=HELD, backup=backup(complete=False)), lease(), "BackupIncomplete"),
        (cluster(held=HELD, backup=backup(time="2026-11-15T11:40:00Z")), lease(), {"epoch": 3, "revision": 900}),
        (cluster(held=HELD, backup=backup(time="2026-11-15T11:39:59Z")), lease(), "BackupTooOld"),
        (cluster(held=HELD, backup=backup(time="what")), lease(), "BackupTooOld"),
        (cluster(held=HELD, backup=backup()), None, "BackupTooOld"),
        (cluster(held=HELD, backup=backup(time="2026-11-15T12:49:59Z")), lease(), {"epoch": 3, "revision": 900}),
        # Not held: only one that fences, and has seen no other spec, has certainly changed nothing.
        (cluster(backup=backup()), lease(), None),
        (cluster(backup=backup()), lease(fences=False), "NotHeld"),
        (cluster(generation=3, backup=backup()), lease(), "NotHeld"),
        (cluster(held={**HELD, "epoch": 2}, generation=3, backup=backup()), lease(), "NotHeld"),
        (cluster(held={**HELD, "worker": "w0"}, generation=3, backup=backup()), lease(), "NotHeld"),
        (cluster(restoreFrom={"epoch": 2, "revision": 5}), lease(), {"epoch": 2, "revision": 5}),
        (cluster({"infrastructure": "kind"}, held=HELD, backup=backup()), lease(), "InfrastructureNotMovable"),
    ],
)
def test_where_the_data_comes_from(managed: Object, of: Object | None, wanted: Any) -> None:
    found = restore_source_of(managed, of, DEFAULTS)
    if isinstance(wanted, str):
        assert isinstance(found, MigrationObstacle)
        assert found.reason == wanted
    else:
        assert found == RestoreSource(wanted)


def test_an_old_backup_says_how_old() -> None:
    found = restore_source_of(cluster(held=HELD, backup=backup(time="2026-11-15T11:30:00Z")), lease(), DEFAULTS)
    said = "the last backup was 1200 seconds old at the last heartbeat of worker w1; the limit is 600 seconds"
    assert found == MigrationObstacle("BackupTooOld", said)


# --- what is written ---


def test_nothing_of_the_old_worker_shows_through() -> None:
    told = [
        {"type": each, "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}
        for each in ("Ready", "NodesReady", "InfrastructureReady", "Upgraded", "WorkerReady", "Restored", "Movable")
    ]
    kept = {"type": "Registered", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}
    before = cluster(
        conditions=[*told, kept],
        held=HELD,
        backup=backup(final=True),
        errors=[{}],
        nodes=3,
        nodePools=[{}],
        version="v1.36.4",
        observedGeneration=2,
        phase="Unknown",
        formerWorkers=["w0"],
        move={"from": "w1", "to": "w2", "reason": "Drain", "since": NOW},
    )
    after = reassigned_status(before, "w2", LOST, RestoreSource({"epoch": 3, "revision": 900}), NOW)
    assert {each["type"] for each in after["conditions"]} == {"Scheduled", "Registered", "Moving"}
    assert {key: value for key, value in after.items() if key != "conditions"} == {
        "assignedWorker": "w2",
        "lastWorker": "w2",
        "epoch": 4,
        "phase": "Scheduled",
        "backup": backup(),
        "restoreFrom": {"epoch": 3, "revision": 900},
        "formerWorkers": ["w0", "w1"],
        "lastMove": {"from": "w1", "to": "w2", "reason": "WorkerLost", "epoch": 4, "time": NOW},
    }
    said = condition({"status": after}, "Moving")
    assert (said["status"], said["reason"], said["message"]) == (
        "True",
        "Restoring",
        "from worker w1 to w2 (WorkerLost)",
    )
    assert infrav1.phase_of({**before, "status": after}) == "Scheduled"


def test_one_that_never_began_begins_elsewhere() -> None:
    after = reassigned_status(cluster(restoreFrom={"epoch": 1, "revision": 2}), "w2", LOST, RestoreSource(None), NOW)
    assert "restoreFrom" not in after


def test_a_planned_move_asks_and_can_be_taken_back() -> None:
    stuck = {"type": "Movable", "status": "False", "reason": "NoFreeSlot", "message": "", "lastTransitionTime": NOW}
    before = cluster(backup=backup(final=True), conditions=[stuck])
    asked = {**before, "status": planned_status(before, "w2", "Drain", NOW)}
    assert infrav1.migration_target(asked) == "w2"
    assert asked["status"]["move"] == {"from": "w1", "to": "w2", "reason": "Drain", "since": NOW}
    assert not migration.is_final_backup_shipped(asked), "what was final for an earlier move is not for this one"
    assert not condition(asked, "Movable")
    assert condition(asked, "Moving")["reason"] == "Sending"
    sent = {**asked, "status": {**asked["status"], "backup": backup(final=True)}}
    assert migration.is_final_backup_shipped(sent)
    back = {**sent, "status": cancelled_status(sent, MigrationObstacle("Cancelled", "it stays"), NOW)}
    assert not infrav1.migration_target(back)
    assert "final" not in back["status"]["backup"]
    said = condition(back, "Moving")
    assert (said["status"], said["reason"], said["message"]) == ("False", "Cancelled", "it stays")
    assert back["status"]["epoch"] == 3


def test_it_is_on_its_way_until_it_is_ready() -> None:
    before = cluster()
    moved = {**before, "status": reassigned_status(before, "w2", "Drain", RestoreSource(None), NOW)}
    assert is_migrating(moved)
    assert completed_status(moved, NOW) is None
    ready = {"type": "Ready", "status": "True", "reason": "Running", "message": "", "lastTransitionTime": NOW}
    up = {**moved, "status": {**moved["status"], "conditions": [*moved["status"]["conditions"], ready]}}
    assert not is_migrating(up)
    status = completed_status(up, NOW)
    assert status is not None
    assert condition({"status": status}, "Moving")["message"] == "from worker w1 to w2"
    assert completed_status({**up, "status": status}, NOW) is None


def test_why_it_is_not_moved_is_said_once_and_taken_back() -> None:
    why = MigrationObstacle("NoBackup", "none")
    status = movable_status(cluster(), why, NOW)
    assert status is not None
    assert movable_status({**cluster(), "status": status}, why, NOW) is None
    cleared = movable_status({**cluster(), "status": status}, None, NOW)
    assert cleared is not None
    assert not condition({"status": cleared}, "Movable")
    assert movable_status(cluster(), None, NOW) is None


# --- who has to leave ---


def worker(ready: str = "True", reason: str = "Heartbeat", annotations: Object | None = None, **spec: Any) -> Object:
    told = {"type": "Ready", "status": ready, "reason": reason, "message": "", "lastTransitionTime": NOW}
    metadata = {"name": "w1", "generation": 1, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [told]}}


GONE = {"key": "gone", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("spec", "tolerations", "since", "wanted"),
    [
        ({}, [], 0.0, EvictionDue()),
        ({"unschedulable": True}, [], 0.0, EvictionDue()),
        ({"drain": True}, [], 0.0, EvictionDue("Drain")),
        ({"drain": True}, [{"operator": "Exists"}], 0.0, EvictionDue("Drain")),
        ({"taints": [GONE]}, [], 1000.0, EvictionDue("Taint")),
        ({"taints": [{"key": "gone", "effect": "NoSchedule"}]}, [], 0.0, EvictionDue()),
        ({"taints": [GONE]}, [{"key": "gone", "operator": "Exists"}], 0.0, EvictionDue()),
        (
            {"taints": [GONE]},
            [{"key": "gone", "operator": "Exists", "tolerationSeconds": 60}],
            970.0,
            EvictionDue(requeue_after=30.0),
        ),
        (
            {"taints": [GONE]},
            [{"key": "gone", "operator": "Exists", "tolerationSeconds": 60}],
            940.0,
            EvictionDue("Taint"),
        ),
        (
            {"taints": [GONE]},
            [{"key": "gone", "operator": "Exists", "tolerationSeconds": -5}],
            1000.0,
            EvictionDue("Taint"),
        ),
        (
            {"taints": [GONE]},
            [{"operator": "Exists", "tolerationSeconds": 60}, {"key": "gone", "operator": "Exists"}],
            970.0,
            EvictionDue(requeue_after=30.0),
        ),
    ],
)
def test_who_has_to_leave(spec: Object, tolerations: list[Object], since: float, wanted: EvictionDue) -> None:
    assert eviction_due(cluster({"tolerations": tolerations}), worker(**spec), {"gone=": since}, 1000.0) == wanted


def test_one_that_is_being_deleted_leaves_by_itself() -> None:
    leaving = cluster()
    leaving["metadata"]["deletionTimestamp"] = NOW
    assert eviction_due(leaving, worker(drain=True), {}, 0.0) == EvictionDue()


def test_budget() -> None:
    assert [drain_budget(worker()), drain_budget(worker(drainBudget=4))] == [1, 4]


STUCK = {f"default/c{number}": MigrationObstacle("NoFreeSlot", "no room") for number in range(5)}


@pytest.mark.parametrize(
    ("progress", "status", "reason", "message"),
    [
        (EvictionProgress(), "True", "Drained", "no ManagedCluster left to evict"),
        (EvictionProgress(remaining=1), "False", "Draining", "1 ManagedCluster is left"),
        (
            EvictionProgress(3, 1, 1),
            "False",
            "Draining",
            "3 ManagedClusters are left; 1 being transferred; 1 moved but not ready yet",
        ),
        (EvictionProgress(restoring=1), "False", "Draining", "0 ManagedClusters are left; 1 moved but not ready yet"),
        (
            EvictionProgress(5, obstacles=STUCK),
            "False",
            "Stuck",
            "5 ManagedClusters are left; "
            + "".join(f"default/c{n} waits: no room; " for n in range(3))
            + "2 more wait",
        ),
    ],
)
def test_how_far_a_drain_is(progress: EvictionProgress, status: str, reason: str, message: str) -> None:
    told = drained_status(worker(), progress, NOW)
    assert told is not None
    said = condition({"status": told}, "Drained")
    assert (said["status"], said["reason"], said["message"]) == (status, reason, message)
    again = {**worker(), "status": told}
    assert drained_status(again, progress, NOW) is None
    ended_ = drained_status(again, None, NOW)
    assert ended_ is not None
    assert not condition({"status": ended_}, "Drained")


@pytest.mark.parametrize(
    ("obj", "lost"),
    [
        (worker(), False),
        (worker("Unknown", "HeartbeatMissing"), True),
        (worker("Unknown", "NeverHeard"), False),
        ({"metadata": {"name": "w1"}}, False),
    ],
)
def test_lost(obj: Object, lost: bool) -> None:
    assert is_lost(obj) is lost


@pytest.mark.parametrize(
    ("lost", "of", "stopped"), [(1, 2, False), (1, 1, True), (2, 3, True), (2, 4, False), (3, 5, True), (1, 30, False)]
)
def test_the_line_stops_where_too_many_are_lost_at_once(lost: int, of: int, stopped: bool) -> None:
    found = too_many_lost(worker(), lost, of, 0.5)
    assert (found is not None) is stopped
    assert too_many_lost(worker(annotations={"shoal.dev/move-lost": "true"}), lost, of, 0.5) is None
    assert not is_evacuation_approved(worker(annotations={"shoal.dev/move-lost": "no"}))
    if found is not None:
        assert found.message == (
            f"{lost} of {of} workers are lost at the same time: nothing is moved. If worker w1 is gone for good, "
            "annotate it with shoal.dev/move-lost=true"
        )
        assert without_counts(found).message.startswith(
            "too many workers are lost at the same time: nothing is moved. If"
        )
        told = evacuated_status(worker("Unknown", "HeartbeatMissing"), EvictionProgress(2), found, NOW)
        assert told is not None
        assert condition({"status": told}, "Evacuated")["reason"] == "TooManyWorkersLost"


# --- settings ---


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (None, MigrationSettings()),
        ({}, MigrationSettings()),
        (
            {"grace": "0", "maxMoves": "3", "maxLostShare": "0.25"},
            MigrationSettings(grace=0.0, at_once=3, lost_share=0.25),
        ),
        (
            {"skew": "2.5", "maxBackupAge": "60", "maxFrozen": "30"},
            MigrationSettings(skew=2.5, backup_age=60, frozen=30),
        ),
    ],
)
def test_settings(data: Object | None, wanted: MigrationSettings) -> None:
    assert parse_migration_settings({"data": data} if data is not None else None) == wanted


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"grace": "soon"}, "ConfigMap shoal-system/moving: grace is not a number from 0 to 86400: 'soon'"),
        ({"grace": "-1"}, "grace is not a number"),
        ({"grace": "nan"}, "grace is not a number"),
        ({"maxLostShare": "2"}, "maxLostShare is not a number from 0 to 1"),
        ({"maxMoves": "1.5"}, "maxMoves is not a number"),
        ({"graze": "1"}, "unknown key graze; known keys: skew, grace, maxMoves"),
    ],
)
def test_settings_that_are_not_understood(data: Object, said: str) -> None:
    assert said in parse_migration_settings({"data": data}).settings_error
