"""Table tests of the NodeClaim lifecycle: Launched, Registered, Initialized, and liveness timeouts."""

from __future__ import annotations

import pytest

from shoal.clock import rfc3339
from shoal.kinds.karpenter.karpenter import is_ephemeral_taint
from shoal.objects.conditions import condition_is, get_condition
from shoal.provision.cloudprovider.types import Instance
from shoal.provision.lifecycle.decide import (
    inconsistencies,
    initialization_error,
    is_expired,
    is_lost,
    lacks_unregistered_taint,
    launch_backoff,
    launch_labels,
    launched_status,
    liveness_timeout,
    missing_termination_time,
    registration_patch,
    seconds_until_deadline,
    termination_time,
    truncate_message,
    with_condition,
    with_consistency,
)
from tests.provision.lifecycle.objects import NOW, STAMP, Object, claim, node

TAINT = {"key": "team", "effect": "NoSchedule"}
AGENT = {"key": "agent", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
READINESS = {"key": "readiness.k8s.io/network", "effect": "NoSchedule"}


def test_ready_follows_from_the_three_stations() -> None:
    assert get_condition(claim("Launched"), "Ready") is not None
    assert condition_is(claim("Launched"), "Ready", "Unknown")
    assert condition_is(claim("Launched", "Registered", "Initialized"), "Ready")
    failed = with_condition(claim("Launched"), "Registered", "False", STAMP, "Broken", "no")
    assert condition_is(failed, "Ready", "False")
    whole = claim("Launched", "Registered", "Initialized")
    assert with_condition(whole, "Initialized", "True", STAMP) is whole, "nothing changes, nothing is written"


def test_a_launch_records_the_machine_and_keeps_the_users_labels() -> None:
    instance = Instance("p://1", {"team": "red", "zone": "a"}, {"cpu": 2000}, {"cpu": 1900}, image="image-1")
    found = launched_status(claim(), instance, STAMP)
    assert found["status"]["providerID"] == "p://1"
    assert found["status"]["imageID"] == "image-1"
    assert (found["status"]["capacity"], found["status"]["allocatable"]) == ({"cpu": "2"}, {"cpu": "1900m"})
    assert launch_labels(claim(), instance) == {"zone": "a"}


def test_a_launch_that_fails_is_tried_again_after_a_second_and_after_a_minute_at_most() -> None:
    assert [launch_backoff(failures) for failures in (1, 2, 3, 6, 7, 8, 99)] == [1, 2, 4, 32, 60, 60, 60]
    assert truncate_message("x" * 299) == "x" * 299
    assert truncate_message("x" * 400) == "x" * 300 + "..."


@pytest.mark.parametrize(
    ("true", "age", "wanted"),
    [
        ((), 299, ""),
        ((), 300, "launch_timeout"),
        (("Launched",), 300, ""),
        (("Launched",), 899, ""),
        (("Launched",), 900, "registration_timeout"),
        (("Launched", "Registered"), 9000, ""),
    ],
)
def test_patience_has_an_end(true: tuple[str, ...], age: float, wanted: str) -> None:
    assert liveness_timeout(claim(*true, age=age), NOW) == wanted


@pytest.mark.parametrize(
    ("true", "age", "expire", "wanted"),
    [
        ((), 100, None, 200),
        (("Launched",), 100, None, 800),
        (("Launched", "Registered"), 0, None, None),
        (("Launched", "Registered"), 100, "200s", 100),
        (("Launched",), 100, "200s", 100),
        (("Launched",), 100, "Never", 800),
        (("Launched", "Registered"), 500, "200s", 0),
    ],
)
def test_when_time_alone_changes_something(
    true: tuple[str, ...], age: float, expire: str | None, wanted: float | None
) -> None:
    assert seconds_until_deadline(claim(*true, age=age, **({"expireAfter": expire} if expire else {})), NOW) == wanted


@pytest.mark.parametrize(
    ("expire", "age", "wanted"), [("30s", 29, False), ("30s", 30, True), ("Never", 1e9, False), (None, 1e9, False)]
)
def test_expiration_counts_from_the_creation_of_the_claim(expire: str | None, age: float, wanted: bool) -> None:
    assert is_expired(claim("Launched", age=age, expireAfter=expire), NOW) is wanted


def _instance(going: bool = False) -> Instance:
    return Instance("p://1", {}, {}, {}, deleting=going)


@pytest.mark.parametrize(
    ("found", "instance", "its_node", "wanted"),
    [
        (claim(), None, None, False),
        (claim("Launched"), _instance(), None, False),
        (claim("Launched"), None, None, True),
        (claim("Launched"), None, node(ready=False), True),
        (claim("Launched"), None, node(), False),
        (claim("Launched", "Registered"), _instance(going=True), node(), True),
    ],
)
def test_a_machine_is_lost(found: Object, instance: Instance | None, its_node: Object | None, wanted: bool) -> None:
    assert is_lost(found, instance, its_node) is wanted


def test_registration_gives_a_node_its_labels_and_taints_once() -> None:
    mine = claim(taints=[TAINT], startupTaints=[AGENT])
    mine["metadata"]["annotations"] = {"own": "1", "cluster.x-k8s.io/machine": "ns/m"}
    patch = registration_patch(mine, node(UNREGISTERED, NOT_READY))
    assert patch is not None
    assert patch["metadata"]["labels"] == {
        "team": "blue",
        "karpenter.sh/registered": "true",
        "karpenter.cluster.x-k8s.io/clusterapinodeclass": "default",
    }
    assert patch["metadata"]["annotations"] == {"own": "1"}
    assert patch["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    assert patch["spec"]["taints"] == [NOT_READY, TAINT, AGENT]
    registered = node(labels=patch["metadata"]["labels"])
    registered["metadata"] |= {key: patch["metadata"][key] for key in ("ownerReferences", "annotations", "finalizers")}
    assert registration_patch(mine, registered) is None, "a taint that was taken off later does not come back"


def test_taints_of_a_node_whose_provider_manages_them_are_left_alone() -> None:
    found = node(UNREGISTERED, labels={"karpenter.sh/do-not-sync-taints": "true"})
    patch = registration_patch(claim(taints=[TAINT]), found)
    assert patch is not None
    assert patch["spec"]["taints"] == [], "but for the one that says it is not registered"


def test_a_node_should_come_with_the_taint_that_keeps_pods_away() -> None:
    assert lacks_unregistered_taint(node())
    assert not lacks_unregistered_taint(node(UNREGISTERED))
    assert not lacks_unregistered_taint(node(labels={"karpenter.sh/registered": "true"}))


@pytest.mark.parametrize(
    ("found", "spec", "reason"),
    [
        (node(ready=False), {}, "NodeNotReady"),
        (node(AGENT), {"startupTaints": [AGENT]}, "StartupTaintsExist"),
        (node(NOT_READY), {}, "KnownEphemeralTaintsExist"),
        (node(READINESS), {}, "KnownEphemeralTaintsExist"),
        (node(), {"resources": {"requests": {"example.com/gpu": "1"}}}, "ResourceNotRegistered"),
        (node(gpu="0"), {"resources": {"requests": {"example.com/gpu": "1"}}}, "ResourceNotRegistered"),
        (node(), {"resources": {"requests": {"example.com/gpu": "0"}}}, None),
        (node(TAINT), {"resources": {"requests": {"cpu": "1"}}}, None),
    ],
)
def test_what_keeps_a_node_from_being_initialised(found: Object, spec: Object, reason: str | None) -> None:
    missing = initialization_error(claim("Launched", "Registered", **spec), found)
    assert (missing[0] if missing is not None else None) == reason


def test_the_taints_of_a_starting_node_go_by_themselves() -> None:
    assert all(is_ephemeral_taint(taint) for taint in (UNREGISTERED, NOT_READY, READINESS))
    assert not is_ephemeral_taint(TAINT)


def test_a_node_smaller_than_what_was_bought_is_told_of() -> None:
    mine = claim("Launched", "Registered", "Initialized", resources={"requests": {"cpu": "1", "memory": "1Gi"}})
    mine["status"]["capacity"] = {"cpu": "4", "memory": "8Gi", "example.com/gpu": "1"}
    assert inconsistencies(mine, node()) == ["expected 4 of resource cpu, but found 2 (50.0% of expected)"]
    assert inconsistencies(mine, node(cpu="3600m")) == [], "a tenth less is nothing"
    wrong = with_consistency(mine, node(), STAMP)
    said = get_condition(wrong, "ConsistentStateFound")
    assert said is not None
    assert (said["status"], said["reason"]) == ("False", "ConsistencyCheckFailed")
    assert condition_is(with_consistency(wrong, node(cpu="4"), STAMP), "ConsistentStateFound")
    young = claim("Launched", "Registered")
    assert with_consistency(young, node(), STAMP) is young


def test_the_end_of_patience_is_written_down_once() -> None:
    mine = claim(terminationGracePeriod="30s")
    assert missing_termination_time(mine) is None, "it is not going"
    mine["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert missing_termination_time(mine) == NOW + 30
    mine["metadata"]["annotations"] = {"karpenter.sh/nodeclaim-termination-timestamp": rfc3339(NOW + 5)}
    assert missing_termination_time(mine) is None, "repair may have said it before"
    assert termination_time(mine) == NOW + 5
    assert termination_time(claim()) is None
