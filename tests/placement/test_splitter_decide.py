"""Division of replicas and aggregation of leaf statuses: tables and properties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kinds.workload.apiresource import GVR
from shoal.kinds.workload.leaf import (
    EVACUATED_ANNOTATION,
    MAX_LABEL_LENGTH,
    MAX_NAME_LENGTH,
    OWNER_LABEL,
    SHARE_ANNOTATION,
    desired_leaf,
    leaf_name,
    new_leaf,
)
from shoal.kinds.workload.served_apis import served_apis
from shoal.kinds.workload.workloadcluster import CLUSTER_LABEL
from shoal.objects.names import is_dns1123_subdomain, is_valid_label_value
from shoal.placement.cluster_info import ClusterInfo, cluster_info_of
from shoal.placement.filter import FilteredClusters
from shoal.placement.interpreter import DIVIDED
from shoal.placement.policy import DEFAULT_POLICY, PlacementPolicy
from shoal.placement.splitter.decide import compute_changes, compute_changes_with, depends_on_capacity
from shoal.placement.splitter.leaf_changes import LeafChanges
from shoal.placement.splitter.status import deployment_status

Object = dict[str, Any]
DEPLOYMENTS = GVR("apps", "v1", "deployments")
NOW, STAMP = 1_700_000_000.0, "2023-11-14T22:13:20Z"

NAMES = st.lists(st.sampled_from([f"c{number:02}" for number in range(40)]), unique=True)


def root(replicas: int = 10, name: str = "web", **metadata: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "uid": "r", "generation": 3, **metadata},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": []}}, "strategy": {"type": "Recreate"}},
    }


def leaf(cluster: str, size: int, /, **status: Any) -> Object:
    made = new_leaf(root(), cluster, DIVIDED.leaf_content(root(), size), replicas=size)
    made["metadata"] |= {"uid": cluster, "generation": 2, "resourceVersion": "1"}
    return {**made, "status": {"observedGeneration": 2, **status}}


def running(cluster: str, size: int, /, **status: Any) -> Object:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), size)
    done = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "done"}
    return leaf(cluster, size, **{**counts, "conditions": [done], **status})


def sizes(found: LeafChanges) -> dict[str, int]:
    return {one["metadata"]["name"]: one["spec"]["replicas"] for one in (*found.create, *found.update)}


# --- properties ---


@given(st.integers(0, 100), NAMES)
def test_a_second_look_changes_nothing(total: int, names: list[str]) -> None:
    sites = [ClusterInfo(name) for name in names]
    first = compute_changes(root(total), [], [], sites, NOW)
    made = [{**one, "metadata": {**one["metadata"], "uid": "u"}} for one in first.create]
    again = compute_changes(root(total), made, [], sites, NOW)
    assert (again.create, again.update, again.delete, again.orphaned) == ((), (), (), ())


# --- the original's tables, and the rule about clusters that are not open ---

EAST, WEST, NORTH = ClusterInfo("east"), ClusterInfo("west"), ClusterInfo("north")
DOWN = ClusterInfo("west", ready=False, since=NOW)


NEVER_READY = [ClusterInfo("east", ready=False), ClusterInfo("west", ready=False, since=NOW - 301)]


@pytest.mark.parametrize(
    ("sites", "leaves", "wanted", "gone"),
    [
        pytest.param([], {}, {}, [], id="no clusters"),
        pytest.param(NEVER_READY, {}, {}, [], id="none ready"),
        # The original took the leaves away. Here they stay with none, so that their clusters are told.
        pytest.param(
            *(NEVER_READY, {"east": 5, "west": 5}, {"web--east": 0, "web--west": 0}, []), id="none ready, two leaves"
        ),
        pytest.param([EAST], {}, {"web--east": 10}, [], id="one cluster, no leaf"),
        pytest.param([EAST], {"east": 3}, {"web--east": 10}, [], id="one cluster, one leaf"),
        pytest.param([EAST, WEST], {"east": 10}, {"web--east": 5, "web--west": 5}, [], id="two clusters, one leaf"),
        pytest.param(
            *([EAST, WEST], {"east": 4, "north": 3, "west": 3}, {"web--east": 5, "web--west": 5}, ["web--north"]),
            id="two clusters, three leaves",
        ),
        pytest.param(
            *([EAST, NORTH, WEST], {}, {"web--east": 4, "web--north": 3, "web--west": 3}, []),
            id="three clusters, uneven",
        ),
    ],
)
def test_the_originals_unmerged_tables(
    sites: list[ClusterInfo], leaves: dict[str, int], wanted: dict[str, int], gone: list[str]
) -> None:
    found = compute_changes(root(), [leaf(cluster, size) for cluster, size in leaves.items()], [], sites, NOW)
    assert sizes(found) == wanted
    assert [one["metadata"]["name"] for one in (*found.delete, *found.orphaned)] == gone


@pytest.mark.parametrize(
    ("sites", "leaves", "wanted", "deleted"),
    [
        ([], {}, {}, []),
        ([ClusterInfo("east", ready=False)], {}, {}, []),
        ([EAST], {}, {"web--east": 10}, []),
        ([EAST], {"east": 10}, {}, []),
        ([EAST, WEST], {"east": 10}, {"web--east": 5, "web--west": 5}, []),
        ([EAST, WEST, NORTH], {}, {"web--east": 4, "web--north": 3, "web--west": 3}, []),
        (
            [EAST, WEST, NORTH],
            {"east": 8, "west": 1, "north": 1},
            {"web--east": 4, "web--north": 3, "web--west": 3},
            [],
        ),
        # Not heard of is not gone.
        ([EAST, DOWN], {"east": 5, "west": 5}, {}, []),
        ([EAST, DOWN, NORTH], {"east": 5, "west": 5}, {"web--east": 3, "web--north": 2}, []),
        ([EAST, DOWN], {"east": 10}, {}, []),
        ([ClusterInfo("west", schedulable=False), EAST], {"west": 7}, {"web--east": 3}, []),
        # Gone is gone.
        ([EAST, ClusterInfo("west", until=NOW)], {"east": 5, "west": 5}, {"web--east": 10}, ["web--west"]),
        ([EAST, ClusterInfo("west", until=NOW + 60)], {"east": 5, "west": 5}, {}, []),
    ],
)
def test_who_gets_what(
    sites: list[ClusterInfo], leaves: dict[str, int], wanted: dict[str, int], deleted: list[str]
) -> None:
    owned = [leaf(cluster, size) for cluster, size in leaves.items()]
    found = compute_changes(root(), owned, [], sites, NOW)
    assert sizes(found) == wanted
    assert [one["metadata"]["name"] for one in found.delete] == deleted


def test_a_cluster_that_shrinks_though_it_is_down() -> None:
    found = compute_changes(root(4), [leaf("east", 5), leaf("west", 5)], [], [EAST, DOWN], NOW)
    assert sizes(found) == {"web--east": 2, "web--west": 2}


def test_no_open_cluster_leaves_replicas_without_a_place() -> None:
    found = compute_changes(root(12), [leaf("west", 5)], [], [DOWN], NOW)
    assert (sizes(found), found.unassigned) == ({}, 7)


def test_a_leaf_of_a_cluster_nobody_knows_is_told_apart() -> None:
    found = compute_changes(root(), [leaf("east", 5), leaf("west", 5)], [], [EAST], NOW)
    assert found.delete == ()
    assert [one["metadata"]["name"] for one in found.orphaned] == ["web--west"]
    assert sizes(found) == {"web--east": 10}


def test_the_time_of_an_eviction_is_waited_for() -> None:
    found = compute_changes(root(), [], [], [EAST, ClusterInfo("west", until=NOW + 60)], NOW)
    assert found.decision.requeue_after == 60


def test_a_leaf_that_is_going_comes_anew_when_it_is_gone() -> None:
    going = leaf("east", 3)
    going["metadata"]["deletionTimestamp"] = STAMP
    found = compute_changes(root(), [going], [], [EAST], NOW)
    assert (found.create, found.update, found.delete) == ((), (), ())


@pytest.mark.parametrize(
    ("site", "status", "wanted", "gone"),
    [
        pytest.param(EAST, {"replicas": 1}, {"web--east": 0}, [], id="it runs"),
        pytest.param(EAST, {"terminatingReplicas": 1}, {"web--east": 0}, [], id="it terminates"),
        pytest.param(EAST, {}, {"web--west": 1}, ["web--east"], id="it has terminated"),
        pytest.param(
            *(replace(EAST, ready=False, since=NOW - 400), {"replicas": 1}, {"web--east": 0, "web--west": 1}, []),
            id="the cluster is lost",
        ),
        pytest.param(
            *(replace(EAST, apis=served_apis({"status": {"syncedResources": []}}, [])), {"replicas": 1}),
            *({"web--west": 1}, ["web--east"]),
            id="the kind is gone",
        ),
    ],
)
def test_an_object_that_is_recreated_does_not_run_in_two_clusters(
    site: ClusterInfo, status: Object, wanted: dict[str, int], gone: list[str]
) -> None:
    west = PlacementPolicy(cluster_names=frozenset({"west"}))
    filtered = FilteredClusters([site, WEST], west if site.ready else DEFAULT_POLICY, NOW, DEPLOYMENTS)
    found = compute_changes_with(root(1), [leaf("east", 1, **status)], frozenset(), filtered, NOW, DIVIDED)
    assert sizes(found) == wanted
    assert [one["metadata"]["name"] for one in found.delete] == gone


def test_the_surge_of_a_rollout_in_a_cluster_does_not_delay_others() -> None:
    rolling = running("east", 2, replicas=3, updatedReplicas=1)
    assert sizes(compute_changes(root(3), [rolling], [], [EAST, WEST], NOW)) == {"web--west": 1}


def test_a_foreign_deployment_of_the_name_is_left_alone() -> None:
    found = compute_changes(root(), [], ["web--east"], [EAST, WEST], NOW)
    assert sizes(found) == {"web--west": 10}
    assert found.conflicting_names == ("web--east",)


def test_how_a_cluster_is_read() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    obj: Object = {"metadata": {"name": "east"}, "spec": {"unschedulable": False}, "status": ready}
    assert cluster_info_of(obj) == EAST
    assert cluster_info_of({**obj, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}).ready is False
    assert cluster_info_of({**obj, "spec": {"unschedulable": True}}).schedulable is False
    assert cluster_info_of({**obj, "spec": {"evictAfter": STAMP}}).until == NOW
    assert cluster_info_of({**obj, "metadata": {"name": "east", "deletionTimestamp": STAMP}}).is_evicted(NOW)


# --- leaves ---


def test_a_leaf() -> None:
    given_root = root(labels={"team": "a"}, annotations={"note": "b", "deployment.kubernetes.io/revision": "4"})
    made = new_leaf(given_root, "east", DIVIDED.leaf_content(given_root, 4), replicas=4)
    assert made["metadata"]["name"] == "web--east"
    assert made["metadata"]["labels"] == {"team": "a", CLUSTER_LABEL: "east", OWNER_LABEL: "web"}
    assert made["metadata"]["annotations"] == {"note": "b", SHARE_ANNOTATION: "4"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "r"
    assert made["metadata"]["ownerReferences"][0]["controller"] is True
    assert made["spec"] == {**given_root["spec"], "replicas": 4}


def test_an_edited_leaf_is_put_right_and_annotations_of_others_stay() -> None:
    wanted = new_leaf(root(), "east", DIVIDED.leaf_content(root(), 4), replicas=4)
    there = leaf("east", 4)
    there["metadata"]["annotations"] = {"workloads.kcp.dev/problem": "p", SHARE_ANNOTATION: "4"}
    assert desired_leaf(there, wanted) is None
    for edit in ({"labels": {**there["metadata"]["labels"], "more": "x"}}, {"labels": {CLUSTER_LABEL: "west"}}):
        put_right = desired_leaf({**there, "metadata": {**there["metadata"], **edit}}, wanted)
        assert put_right is not None
        assert put_right["metadata"]["labels"] == wanted["metadata"]["labels"]
        assert put_right["metadata"]["annotations"] == {"workloads.kcp.dev/problem": "p", SHARE_ANNOTATION: "4"}
    scaled = desired_leaf({**there, "spec": {**there["spec"], "replicas": 9}}, wanted)
    assert scaled is not None
    assert scaled["spec"]["replicas"] == 4


@given(st.integers(1, 253), st.integers(1, 63))
def test_names_fit(length: int, cluster: int) -> None:
    found = new_leaf(root(name="d" * length), "c" * cluster, {})
    name = found["metadata"]["name"]
    assert len(name) <= MAX_NAME_LENGTH
    assert is_dns1123_subdomain(name) == []
    for value in found["metadata"]["labels"].values():
        assert len(value) <= MAX_LABEL_LENGTH
        assert is_valid_label_value(value) == []


def test_long_names_stay_apart() -> None:
    assert leaf_name("d" * 250, "east") != leaf_name("d" * 250, "west")


# --- status ---


def condition(status: Object, kind: str) -> tuple[str, str, str]:
    found = next(one for one in status["conditions"] if one["type"] == kind)
    return found["status"], found["reason"], found["message"]


def test_the_sum_of_leaves() -> None:
    found = compute_changes(root(), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    status = deployment_status(root(), found, 2, STAMP)
    assert {k: v for k, v in status.items() if k != "conditions"} == {
        "observedGeneration": 3,
        "replicas": 10,
        "updatedReplicas": 10,
        "readyReplicas": 10,
        "availableReplicas": 10,
    }
    assert condition(status, "Progressing") == (
        "True",
        "NewReplicaSetAvailable",
        'Deployment "web" has successfully progressed in all clusters.',
    )
    assert condition(status, "Available")[:2] == ("True", "MinimumReplicasAvailable")
    assert deployment_status({**root(), "status": status}, found, 2, "later") == status


def test_a_generation_counts_when_every_leaf_has_seen_it() -> None:
    behind = compute_changes(
        root(), [running("east", 5), running("west", 5, observedGeneration=1)], [], [EAST, WEST], NOW
    )
    assert "observedGeneration" not in deployment_status(root(), behind, 2, STAMP)
    to_do = compute_changes(root(12), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    before = {**root(12), "status": {"observedGeneration": 2}}
    status = deployment_status(before, to_do, 2, STAMP)
    assert status["observedGeneration"] == 2
    assert condition(status, "Progressing")[1] == "ReplicaSetUpdated"
    assert condition(status, "Available")[0] == "False"


def test_nowhere_to_go() -> None:
    empty = compute_changes(root(), [], [], [], NOW)
    status = deployment_status(root(), empty, 0, STAMP)
    assert condition(status, "Progressing")[:2] == ("False", "NoRegisteredClusters")
    assert (status["observedGeneration"], status["unavailableReplicas"]) == (3, 10)
    down = deployment_status(root(), compute_changes(root(), [], [], [DOWN], NOW), 1, STAMP)
    assert condition(down, "Progressing") == (
        "False",
        "NoReadyClusters",
        "10 replicas are unassigned: none of 1 registered clusters can take them.",
    )
    taken = deployment_status(root(), compute_changes(root(), [], ["web--east"], [EAST, WEST], NOW), 2, STAMP)
    assert condition(taken, "Progressing") == (
        "False",
        "LeafNameTaken",
        "Deployments that do not belong to this one have the names of its leaves: web--east",
    )


def test_the_worst_leaf_speaks_for_all() -> None:
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    leaves = [running("east", 5), running("west", 5, availableReplicas=3, conditions=[late, failed])]
    status = deployment_status(root(), compute_changes(root(), leaves, [], [EAST, WEST], NOW), 2, STAMP)
    assert condition(status, "Progressing") == ("False", "ProgressDeadlineExceeded", "web--west: late")
    assert condition(status, "ReplicaFailure") == ("True", "FailedCreate", "web--west: quota")
    cured = compute_changes(root(), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    assert "ReplicaFailure" not in {
        c["type"] for c in deployment_status({**root(), "status": status}, cured, 2, "x")["conditions"]
    }


def test_more_room_is_looked_at_only_where_it_may_change_something() -> None:
    at_rest = compute_changes(root(), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    assert not depends_on_capacity(at_rest, DEFAULT_POLICY)
    assert depends_on_capacity(at_rest, PlacementPolicy(divide_by="Price"))
    assert depends_on_capacity(compute_changes(root(), [], [], [DOWN], NOW), DEFAULT_POLICY), "replicas wait"


# --- what is not known ---

SILENT = frozenset({"west"})


def test_a_cluster_that_is_silent_has_nothing_ready() -> None:
    found = compute_changes(root(), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    status = deployment_status(root(), found, 2, STAMP, SILENT)
    counts = {"replicas": 10, "updatedReplicas": 10, "readyReplicas": 5, "availableReplicas": 5}
    assert {**counts, "unavailableReplicas": 5}.items() <= status.items()
    assert condition(status, "Available")[0] == "False"
    assert condition(status, "ClustersReporting") == (
        "False",
        "WorkloadClusterNotReporting",
        "west does not report: none of its 5 replicas is counted as ready",
    )
    heard = deployment_status({**root(), "status": status}, found, 2, "later")
    assert "ClustersReporting" not in {one["type"] for one in heard["conditions"]}
    assert heard["availableReplicas"] == 10


def test_replicas_that_left_a_silent_cluster_do_not_count_and_are_not_awaited() -> None:
    gone = running("west", 7, observedGeneration=1)
    gone["spec"]["replicas"] = 0
    gone["metadata"]["annotations"] = {SHARE_ANNOTATION: "0", EVACUATED_ANNOTATION: "true"}
    decided = compute_changes(root(), [], [], [EAST], NOW).decision
    status = deployment_status(root(), LeafChanges(decided, existing=(running("east", 10), gone)), 2, STAMP, SILENT)
    counts = {"replicas": 10, "updatedReplicas": 10, "readyReplicas": 10, "availableReplicas": 10}
    assert {**counts, "observedGeneration": 3}.items() <= status.items()
    assert "unavailableReplicas" not in status
    assert condition(status, "Progressing")[1] == "NewReplicaSetAvailable"
    assert condition(status, "ClustersReporting")[2] == (
        "west does not report: its replicas were placed elsewhere, and may still run there"
    )


def test_a_cluster_reports_unless_it_is_silent_or_has_no_syncer() -> None:
    def cluster(**conditions: str) -> Object:
        listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
        return {"metadata": {"name": "east"}, "status": {"conditions": listed}}

    parts = {"HeartbeatHealthy": "True", "SyncerReady": "True", "APIImporterReady": "False"}
    assert cluster_info_of(cluster(Ready="False", **parts)).reports
    assert not cluster_info_of(cluster(Ready="False", **parts | {"HeartbeatHealthy": "False"})).reports
    assert not cluster_info_of(cluster(Ready="Unknown")).reports
    assert cluster_info_of(cluster(Ready="True")).reports
