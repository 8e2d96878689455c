"""Division of replicas and aggregation of leaf statuses: tables and properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kinds.leaves import LONGEST_LABEL, LONGEST_NAME, OWNED_BY, SHARE, leaf_name, leaf_of, renewed
from shoal.kinds.workload import ASSIGNED
from shoal.objects.names import is_dns1123_subdomain, is_valid_label_value
from shoal.placement.policy import DEFAULT, Policy
from shoal.placement.shapes import REPLICATED
from shoal.placement.sites import Site, site_of
from shoal.placement.splitter.decide import looks_at_room, split
from shoal.placement.splitter.outcome import Split
from shoal.placement.splitter.status import summed

Object = dict[str, Any]
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
    made = leaf_of(root(), cluster, REPLICATED.content(root(), size), share=size)
    made["metadata"] |= {"uid": cluster, "generation": 2, "resourceVersion": "1"}
    return {**made, "status": {"observedGeneration": 2, **status}}


def running(cluster: str, size: int, /, **status: Any) -> Object:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), size)
    done = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "done"}
    return leaf(cluster, size, **{**counts, "conditions": [done], **status})


def sizes(found: Split) -> dict[str, int]:
    return {one["metadata"]["name"]: one["spec"]["replicas"] for one in (*found.create, *found.update)}


# --- properties ---


@given(st.integers(0, 100), NAMES)
def test_a_second_look_changes_nothing(total: int, names: list[str]) -> None:
    sites = [Site(name) for name in names]
    first = split(root(total), [], [], sites, NOW)
    made = [{**one, "metadata": {**one["metadata"], "uid": "u"}} for one in first.create]
    again = split(root(total), made, [], sites, NOW)
    assert (again.create, again.update, again.delete, again.absent) == ((), (), (), ())


# --- the original's tables, and the rule about clusters that are not open ---

EAST, WEST, NORTH = Site("east"), Site("west"), Site("north")
DOWN = Site("west", ready=False, since=NOW)


NEVER_READY = [Site("east", ready=False), Site("west", ready=False, since=NOW - 301)]


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
    sites: list[Site], leaves: dict[str, int], wanted: dict[str, int], gone: list[str]
) -> None:
    found = split(root(), [leaf(cluster, size) for cluster, size in leaves.items()], [], sites, NOW)
    assert sizes(found) == wanted
    assert [one["metadata"]["name"] for one in (*found.delete, *found.absent)] == gone


@pytest.mark.parametrize(
    ("sites", "leaves", "wanted", "deleted"),
    [
        ([], {}, {}, []),
        ([Site("east", ready=False)], {}, {}, []),
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
        ([Site("west", schedulable=False), EAST], {"west": 7}, {"web--east": 3}, []),
        # Gone is gone.
        ([EAST, Site("west", until=NOW)], {"east": 5, "west": 5}, {"web--east": 10}, ["web--west"]),
        ([EAST, Site("west", until=NOW + 60)], {"east": 5, "west": 5}, {}, []),
    ],
)
def test_who_gets_what(sites: list[Site], leaves: dict[str, int], wanted: dict[str, int], deleted: list[str]) -> None:
    owned = [leaf(cluster, size) for cluster, size in leaves.items()]
    found = split(root(), owned, [], sites, NOW)
    assert sizes(found) == wanted
    assert [one["metadata"]["name"] for one in found.delete] == deleted


def test_a_cluster_that_shrinks_though_it_is_down() -> None:
    found = split(root(4), [leaf("east", 5), leaf("west", 5)], [], [EAST, DOWN], NOW)
    assert sizes(found) == {"web--east": 2, "web--west": 2}


def test_no_open_cluster_leaves_replicas_without_a_place() -> None:
    found = split(root(12), [leaf("west", 5)], [], [DOWN], NOW)
    assert (sizes(found), found.unplaced) == ({}, 7)


def test_a_leaf_of_a_cluster_nobody_knows_is_told_apart() -> None:
    found = split(root(), [leaf("east", 5), leaf("west", 5)], [], [EAST], NOW)
    assert found.delete == ()
    assert [one["metadata"]["name"] for one in found.absent] == ["web--west"]
    assert sizes(found) == {"web--east": 10}


def test_the_time_of_an_eviction_is_waited_for() -> None:
    found = split(root(), [], [], [EAST, Site("west", until=NOW + 60)], NOW)
    assert found.placed.later == 60


def test_a_leaf_that_is_going_comes_anew_when_it_is_gone() -> None:
    going = leaf("east", 3)
    going["metadata"]["deletionTimestamp"] = STAMP
    found = split(root(), [going], [], [EAST], NOW)
    assert (found.create, found.update, found.delete) == ((), (), ())


def test_a_foreign_deployment_of_the_name_is_left_alone() -> None:
    found = split(root(), [], ["web--east"], [EAST, WEST], NOW)
    assert sizes(found) == {"web--west": 10}
    assert found.taken == ("web--east",)


def test_how_a_cluster_is_read() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    obj: Object = {"metadata": {"name": "east"}, "spec": {"unschedulable": False}, "status": ready}
    assert site_of(obj) == EAST
    assert site_of({**obj, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}).ready is False
    assert site_of({**obj, "spec": {"unschedulable": True}}).schedulable is False
    assert site_of({**obj, "spec": {"evictAfter": STAMP}}).until == NOW
    assert site_of({**obj, "metadata": {"name": "east", "deletionTimestamp": STAMP}}).is_leaving(NOW)


# --- leaves ---


def test_a_leaf() -> None:
    given_root = root(labels={"team": "a"}, annotations={"note": "b", "deployment.kubernetes.io/revision": "4"})
    made = leaf_of(given_root, "east", REPLICATED.content(given_root, 4), share=4)
    assert made["metadata"]["name"] == "web--east"
    assert made["metadata"]["labels"] == {"team": "a", ASSIGNED: "east", OWNED_BY: "web"}
    assert made["metadata"]["annotations"] == {"note": "b", SHARE: "4"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "r"
    assert made["metadata"]["ownerReferences"][0]["controller"] is True
    assert made["spec"] == {**given_root["spec"], "replicas": 4}


def test_an_edited_leaf_is_put_right_and_annotations_of_others_stay() -> None:
    wanted = leaf_of(root(), "east", REPLICATED.content(root(), 4), share=4)
    there = leaf("east", 4)
    there["metadata"]["annotations"] = {"workloads.kcp.dev/problem": "p", SHARE: "4"}
    assert renewed(there, wanted) is None
    for edit in ({"labels": {**there["metadata"]["labels"], "more": "x"}}, {"labels": {ASSIGNED: "west"}}):
        put_right = renewed({**there, "metadata": {**there["metadata"], **edit}}, wanted)
        assert put_right is not None
        assert put_right["metadata"]["labels"] == wanted["metadata"]["labels"]
        assert put_right["metadata"]["annotations"] == {"workloads.kcp.dev/problem": "p", SHARE: "4"}
    scaled = renewed({**there, "spec": {**there["spec"], "replicas": 9}}, wanted)
    assert scaled is not None
    assert scaled["spec"]["replicas"] == 4


@given(st.integers(1, 253), st.integers(1, 63))
def test_names_fit(length: int, cluster: int) -> None:
    found = leaf_of(root(name="d" * length), "c" * cluster, {})
    name = found["metadata"]["name"]
    assert len(name) <= LONGEST_NAME
    assert is_dns1123_subdomain(name) == []
    for value in found["metadata"]["labels"].values():
        assert len(value) <= LONGEST_LABEL
        assert is_valid_label_value(value) == []


def test_long_names_stay_apart() -> None:
    assert leaf_name("d" * 250, "east") != leaf_name("d" * 250, "west")


# --- status ---


def condition(status: Object, kind: str) -> tuple[str, str, str]:
    found = next(one for one in status["conditions"] if one["type"] == kind)
    return found["status"], found["reason"], found["message"]


def test_the_sum_of_leaves() -> None:
    found = split(root(), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    status = summed(root(), found, 2, STAMP)
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
    assert summed({**root(), "status": status}, found, 2, "later") == status


def test_a_generation_counts_when_every_leaf_has_seen_it() -> None:
    behind = split(root(), [running("east", 5), running("west", 5, observedGeneration=1)], [], [EAST, WEST], NOW)
    assert "observedGeneration" not in summed(root(), behind, 2, STAMP)
    to_do = split(root(12), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    before = {**root(12), "status": {"observedGeneration": 2}}
    status = summed(before, to_do, 2, STAMP)
    assert status["observedGeneration"] == 2
    assert condition(status, "Progressing")[1] == "ReplicaSetUpdated"
    assert condition(status, "Available")[0] == "False"


def test_nowhere_to_go() -> None:
    empty = split(root(), [], [], [], NOW)
    status = summed(root(), empty, 0, STAMP)
    assert condition(status, "Progressing")[:2] == ("False", "NoRegisteredClusters")
    assert (status["observedGeneration"], status["unavailableReplicas"]) == (3, 10)
    down = summed(root(), split(root(), [], [], [DOWN], NOW), 1, STAMP)
    assert condition(down, "Progressing") == (
        "False",
        "NoReadyClusters",
        "None of 1 registered clusters takes the 10 replicas that have no place.",
    )
    taken = summed(root(), split(root(), [], ["web--east"], [EAST, WEST], NOW), 2, STAMP)
    assert condition(taken, "Progressing") == (
        "False",
        "LeafNameTaken",
        "Deployments that are not part of this one have the names of leaves: web--east",
    )


def test_the_worst_leaf_speaks_for_all() -> None:
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    leaves = [running("east", 5), running("west", 5, availableReplicas=3, conditions=[late, failed])]
    status = summed(root(), split(root(), leaves, [], [EAST, WEST], NOW), 2, STAMP)
    assert condition(status, "Progressing") == ("False", "ProgressDeadlineExceeded", "web--west: late")
    assert condition(status, "ReplicaFailure") == ("True", "FailedCreate", "web--west: quota")
    cured = split(root(), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    assert "ReplicaFailure" not in {
        c["type"] for c in summed({**root(), "status": status}, cured, 2, "x")["conditions"]
    }


def test_more_room_is_looked_at_only_where_it_may_change_something() -> None:
    at_rest = split(root(), [running("east", 5), running("west", 5)], [], [EAST, WEST], NOW)
    assert not looks_at_room(at_rest, DEFAULT)
    assert looks_at_room(at_rest, Policy(by="Price"))
    assert looks_at_room(split(root(), [], [], [DOWN], NOW), DEFAULT), "replicas wait"
