"""Tables of the small decisions: stations of a NodeClaim, what a pool says, which empty nodes may go."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.kinds.karpenter import is_ephemeral, pool_hash, seconds
from shoal.objects.conditions import condition_is, get_condition
from shoal.provision.cloudprovider import Instance
from shoal.provision.emptiness.decide import allowed, consolidate_after, may_be_disrupted, occupants
from shoal.provision.lifecycle.decide import (
    cordon_patch,
    is_overdue,
    launch_labels,
    launched,
    out_of_patience,
    patience,
    registration_patch,
    to_drain,
    uninitialized,
    with_condition,
)
from shoal.provision.nodepools.decide import class_problem, hash_patch, invalid, with_conditions
from tests.provision.hosted import Object, node_class, node_pool, pod

NOW = 1_700_000_000.0
STAMP = rfc3339(NOW)
TAINT = {"key": "team", "effect": "NoSchedule"}
AGENT = {"key": "agent", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


def claim(*true: str, age: float = 0.0, **spec: Any) -> Object:
    metadata = {"name": "c", "uid": "u", "labels": {"team": "blue"}, "creationTimestamp": rfc3339(NOW - age)}
    found: Object = {"metadata": metadata, "spec": {"requirements": [], **spec}, "status": {}}
    for condition in true:
        found = with_condition(found, condition, "True", STAMP)
    return found


def node(*taints: Object, ready: bool = True, labels: dict[str, str] | None = None) -> Object:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"conditions": conditions, "allocatable": {"cpu": "2", "memory": "8Gi"}}
    return {"metadata": {"name": "n", "labels": labels or {}}, "spec": {"taints": list(taints)}, "status": status}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0s", 0.0), ("1h30m", 5400.0), ("90s", 90.0), ("Never", None), ("", None), ("soon", None), ("5", None)],
)
def test_durations(text: str, wanted: float | None) -> None:
    assert seconds(text) == wanted


def test_ready_follows_from_the_three_stations() -> None:
    assert get_condition(claim("Launched"), "Ready") is not None
    assert condition_is(claim("Launched"), "Ready", "Unknown")
    assert condition_is(claim("Launched", "Registered", "Initialized"), "Ready")
    failed = with_condition(claim("Launched"), "Registered", "False", STAMP, "Broken", "no")
    assert condition_is(failed, "Ready", "False")
    whole = claim("Launched", "Registered", "Initialized")
    assert with_condition(whole, "Initialized", "True", STAMP) is whole, "nothing changes, nothing is written"


def test_a_launch_records_the_machine_and_keeps_the_users_labels() -> None:
    instance = Instance("p://1", {"team": "red", "zone": "a"}, {"cpu": 2000}, {"cpu": 1900})
    found = launched(claim(), instance, STAMP)
    assert found["status"]["providerID"] == "p://1"
    assert (found["status"]["capacity"], found["status"]["allocatable"]) == ({"cpu": "2"}, {"cpu": "1900m"})
    assert launch_labels(claim(), instance) == {"zone": "a"}


@pytest.mark.parametrize(
    ("true", "age", "wanted"),
    [
        ((), 299, ""),
        ((), 300, "launch"),
        (("Launched",), 300, ""),
        (("Launched",), 900, "registration"),
        (("Launched", "Registered"), 9000, ""),
    ],
)
def test_patience_has_an_end(true: tuple[str, ...], age: float, wanted: str) -> None:
    assert is_overdue(claim(*true, age=age), NOW) == wanted


def test_patience_is_counted_from_the_beginning() -> None:
    assert patience(claim(age=100), NOW) == 200
    assert patience(claim("Launched", age=100), NOW) == 800
    assert patience(claim("Launched", "Registered"), NOW) is None


def test_registration_gives_a_node_its_labels_and_taints_once() -> None:
    mine = claim(taints=[TAINT], startupTaints=[AGENT])
    patch = registration_patch(mine, node(UNREGISTERED, NOT_READY))
    assert patch is not None
    assert patch["metadata"]["labels"] == {"team": "blue", "karpenter.sh/registered": "true"}
    assert patch["spec"]["taints"] == [NOT_READY, TAINT, AGENT]
    owner = patch["metadata"]["ownerReferences"]
    registered = node(labels=patch["metadata"]["labels"])
    registered["metadata"]["ownerReferences"] = owner
    assert registration_patch(mine, registered) is None, "a taint that was taken off later does not come back"


@pytest.mark.parametrize(
    ("found", "spec", "reason"),
    [
        (node(ready=False), {}, "NodeNotReady"),
        (
            node(AGENT),
            {"startupTaints": [AGENT]},
            "StartupTaintsExist",
        ),
        (node(NOT_READY), {}, "KnownEphemeralTaintsExist"),
        (node(), {"resources": {"requests": {"example.com/gpu": "1"}}}, "ResourceNotRegistered"),
        (node(TAINT), {"resources": {"requests": {"cpu": "1"}}}, None),
    ],
)
def test_what_keeps_a_node_from_being_initialised(found: Object, spec: Object, reason: str | None) -> None:
    missing = uninitialized(claim("Launched", "Registered", **spec), found)
    assert (missing[0] if missing is not None else None) == reason


def test_the_taints_of_a_starting_node_go_by_themselves() -> None:
    assert is_ephemeral(UNREGISTERED)
    assert is_ephemeral(NOT_READY)
    assert not is_ephemeral(TAINT)


def test_a_cordon_is_made_once() -> None:
    patch = cordon_patch(node(TAINT))
    assert patch is not None
    assert patch["spec"]["taints"] == [TAINT, {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    done = node(*patch["spec"]["taints"], labels=patch["metadata"]["labels"])
    assert cordon_patch(done) is None


def test_who_has_to_leave_before_the_machine_does() -> None:
    def named(name: str, **metadata: Any) -> Object:
        found = pod(name)
        found["metadata"] |= metadata
        return found

    daemon = named("daemon", ownerReferences=[{"kind": "DaemonSet", "controller": True}])
    stuck = named("stuck", deletionTimestamp=rfc3339(NOW - 61))
    going = named("going", deletionTimestamp=rfc3339(NOW + 10))
    ended = named("ended") | {"status": {"phase": "Succeeded"}}
    tolerant = pod("tolerant", tolerations=[{"operator": "Exists"}])
    found = to_drain([named("plain"), daemon, stuck, going, ended, tolerant], NOW)
    assert [each["metadata"]["name"] for each in found] == ["plain", "going"]
    assert [each["metadata"]["name"] for each in occupants([named("plain"), daemon, going, ended])] == ["plain"]


def test_a_termination_grace_period_ends() -> None:
    mine = claim(terminationGracePeriod="30s")
    mine["metadata"]["deletionTimestamp"] = rfc3339(NOW - 29)
    assert not out_of_patience(mine, NOW)
    assert out_of_patience(mine, NOW + 1)
    assert not out_of_patience(claim(), NOW + 1e9)


def expression(key: str, operator: str = "In", *values: str, **more: Any) -> Object:
    return {"key": key, "operator": operator, "values": list(values), **more}


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        (expression("topology.kubernetes.io/zone", "In", "a"), ""),
        (expression("node.cluster.x-k8s.io/pool", "In", "a"), ""),
        (expression("example.com/team", "Exists"), ""),
        (expression("kubernetes.io/hostname", "In", "a"), 'label "kubernetes.io/hostname" is restricted'),
        (expression("karpenter.sh/nodepool", "In", "a"), 'label "karpenter.sh/nodepool" is restricted'),
        (expression("karpenter.sh/other", "In", "a"), 'label domain "karpenter.sh" is restricted'),
        (expression("x.kubernetes.io/y", "In", "a"), 'label domain "kubernetes.io" is restricted'),
        (expression("example.com/x", "In"), "key example.com/x with operator In must have a value defined"),
        (expression("example.com/x", "Gt", "many"), "operator Gt wants one whole number, not ['many']"),
        (expression("example.com/x", "In", "a", minValues=2), "'minValues' must have at least that many values"),
    ],
)
def test_what_is_wrong_with_a_pool(requirement: Object, said: str) -> None:
    found = invalid(node_pool(requirements=[requirement]))
    assert said in found
    assert bool(said) == bool(found)


def test_a_pool_speaks_for_its_class() -> None:
    ready = node_class() | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    unready = node_class() | {"status": {"conditions": [{"type": "Ready", "status": "False", "message": "why"}]}}
    assert class_problem(node_pool(), ready) is None
    assert class_problem(node_pool(), unready) == ("NodeClassNotReady", "why")
    assert class_problem(node_pool(), None) == ("NodeClassNotFound", "NodeClass 'default' not found on cluster")
    other = node_pool(template={"nodeClassRef": {"group": "example.com", "kind": "Other", "name": "x"}})
    problem = class_problem(other, ready)
    assert problem is not None
    assert problem[0] == "NodeClassNotSupported"
    found = with_conditions(node_pool(), ready, {"nodes": 2, "cpu": 6000}, STAMP)
    assert condition_is(found, "Ready")
    assert found["status"]["resources"] == {"cpu": "6", "nodes": "2"}
    assert with_conditions(found, ready, {"nodes": 2, "cpu": 6000}, STAMP) is found


def test_the_hash_of_a_pool_leaves_out_its_requirements() -> None:
    one = node_pool()
    assert pool_hash(one) == pool_hash(node_pool(requirements=[expression("x", "Exists")], weight=3))
    assert pool_hash(one) != pool_hash(node_pool(template={"taints": [TAINT]}))
    patch = hash_patch(one)
    assert patch is not None
    one["metadata"]["annotations"] = patch["metadata"]["annotations"]
    assert hash_patch(one) is None


@pytest.mark.parametrize(
    ("budgets", "total", "going", "wanted"),
    [
        (None, 10, 0, 1),
        (None, 11, 0, 2),
        (None, 5, 1, 0),
        ([{"nodes": "30%"}], 10, 0, 3),
        ([{"nodes": "0"}], 10, 0, 0),
        ([{"nodes": "100%"}], 10, 4, 6),
        ([{"nodes": "10"}, {"nodes": "4", "reasons": ["Empty"]}, {"nodes": "1", "reasons": ["Drifted"]}], 100, 0, 4),
        ([{"nodes": "some"}], 10, 0, 0),
        ([], 10, 0, 10),
        ([{"nodes": "0", "schedule": "@daily", "duration": "1h"}], 10, 0, 0),
    ],
)
def test_budgets(budgets: list[Object] | None, total: int, going: int, wanted: int) -> None:
    pool = node_pool(disruption={"consolidateAfter": "0s", **({"budgets": budgets} if budgets is not None else {})})
    claims = [claim("Initialized") for _ in range(total)]
    for each in claims[:going]:
        each["metadata"]["deletionTimestamp"] = STAMP
    assert allowed(pool, claims, 0) == wanted
    assert allowed(pool, claims, 100) == 0, "nodes that are not ready count as going"


def test_what_may_be_disrupted() -> None:
    assert may_be_disrupted(claim("Initialized"), node())
    assert not may_be_disrupted(claim("Launched"), node())
    kept = node()
    kept["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    assert not may_be_disrupted(claim("Initialized"), kept)
    assert consolidate_after(node_pool(disruption={"consolidateAfter": "Never"})) is None
    assert consolidate_after(node_pool()) == 0.0
