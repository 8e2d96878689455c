"""Drift reasons, and the conditions of NodeClaims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.kinds.karpenter.karpenter import nodepool_hash
from shoal.objects.conditions import condition_is, get_condition
from shoal.provision.disruption.decide import decide_drift
from shoal.provision.disruption.drift import drift_reason, with_consolidatable, with_drift
from tests.provision.catalogue import MEDIUM, SIZES, SMALL, pod, pool
from tests.provision.disruption.fleet import NOW, Fleet, conditions, every, names

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
POOL = pool(labels={"team": "blue"}).node_pool


def claim(pool_object: Any = POOL, age: float = 60.0, **changed: Any) -> dict[str, Any]:
    labels = {TYPE: "small", ZONE: "a", "karpenter.sh/capacity-type": "on-demand", **changed.pop("labels", {})}
    annotations = {"karpenter.sh/nodepool-hash": nodepool_hash(pool_object), "karpenter.sh/nodepool-hash-version": "v3"}
    metadata = {
        "name": "c",
        "uid": "u",
        "labels": labels,
        "annotations": annotations | changed.pop("annotations", {}),
        "creationTimestamp": rfc3339(NOW - age),
    }
    spec = {"requirements": changed.pop("requirements", [])}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions("Launched", "Initialized")}}


def expression(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def test_a_node_as_its_pool_would_buy_it_now() -> None:
    assert drift_reason(POOL, claim(), SIZES, NOW) == ""


def test_a_changed_template_is_drift_unless_the_hash_is_of_another_version() -> None:
    changed = pool(labels={"team": "red"}).node_pool
    assert drift_reason(changed, claim(), SIZES, NOW) == "NodePoolDrifted"
    older = {"karpenter.sh/nodepool-hash-version": "v2"}
    assert drift_reason(changed, claim(annotations=older), SIZES, NOW) == ""


@pytest.mark.parametrize(
    ("wanted", "mine", "reason"),
    [
        ([expression(TYPE, "small", "medium")], {}, ""),
        ([expression(TYPE, "medium")], {}, "RequirementsDrifted"),
        ([expression(ZONE, "a", operator="NotIn")], {}, "RequirementsDrifted"),
        ([expression("kubernetes.io/arch", "amd64")], {}, ""),
        ([expression("example.com/rack", "r1", "r2")], {}, "RequirementsDrifted"),
        (
            [expression("example.com/rack", "r1", "r2")],
            {"requirements": [expression("example.com/rack", "r1", "r2")]},
            "",
        ),
        ([expression("example.com/rack", "r1")], {"labels": {"example.com/rack": "r2"}}, "RequirementsDrifted"),
    ],
)
def test_requirements(wanted: list[Any], mine: dict[str, Any], reason: str) -> None:
    asked = pool(requirements=wanted).node_pool
    assert drift_reason(asked, claim(asked, **mine), SIZES, NOW) == reason


def test_a_type_that_is_no_longer_offered_is_drift_after_an_hour() -> None:
    assert drift_reason(POOL, claim(age=3599), (MEDIUM,), NOW) == ""
    assert drift_reason(POOL, claim(age=3700), (MEDIUM,), NOW) == "InstanceTypeNotFound"
    assert drift_reason(POOL, claim(age=3700), SIZES, NOW) == ""
    assert drift_reason(POOL, claim(age=3700, labels={ZONE: "b"}), SIZES, NOW) == "InstanceTypeNotFound"
    assert drift_reason(POOL, claim(age=3700), (), NOW) == "", "nothing is known of any type"


def test_conditions_come_and_go() -> None:
    found = with_drift(claim(), "NodePoolDrifted", NOW)
    said = get_condition(found, "Drifted")
    assert said is not None
    assert (said["status"], said["reason"]) == ("True", "NodePoolDrifted")
    assert with_drift(found, "NodePoolDrifted", NOW + 9) is found
    assert get_condition(with_drift(found, "", NOW), "Drifted") is None
    after = pool(disruption=every(consolidateAfter="30s")).node_pool
    assert not condition_is(with_consolidatable(claim(), after, NOW - 29, NOW), "Consolidatable")
    rested = with_consolidatable(claim(), after, NOW - 30, NOW)
    assert condition_is(rested, "Consolidatable")
    assert get_condition(with_consolidatable(rested, after, NOW, NOW), "Consolidatable") is None
    never = pool(disruption=every(consolidateAfter="Never")).node_pool
    assert get_condition(with_consolidatable(rested, never, 0, NOW), "Consolidatable") is None


def outdated(at: float) -> list[dict[str, Any]]:
    return [*conditions("Launched", "Initialized"), *conditions("Drifted", at=at)]


def test_one_drifted_node_goes_at_a_time_empty_ones_first_then_the_oldest() -> None:
    fleet = Fleet()
    fleet.add(SMALL, [pod("1500m")], name="new", conditions=outdated(NOW - 1))
    fleet.add(SMALL, [pod("1500m")], name="old", conditions=outdated(NOW - 9))
    fleet.add(SMALL, name="bare", conditions=outdated(NOW - 5))
    fleet.add(SMALL, [pod("1500m")], name="fine")
    found = decide_drift(fleet.snapshot()).command
    assert found is not None
    assert (names(found), found.reason, found.replacements) == (["bare"], "Drifted", ())
    fleet.apply(found)
    found = decide_drift(fleet.snapshot()).command
    assert found is not None
    assert (names(found), len(found.replacements)) == (["old"], 1)
    assert "small" in found.replacements[0].types


def test_drift_waits_where_pods_would_find_no_other_place() -> None:
    fleet = Fleet(replace(pool(types=(SMALL,), disruption=every(), limits={"nodes": "1"}), usage={"nodes": 1}))
    fleet.add(SMALL, [pod("1500m")], name="one", conditions=outdated(NOW))
    found = decide_drift(fleet.snapshot())
    assert found.command is None
    assert [(note.node, note.reason) for note in found.notes] == [("one", "DisruptionBlocked")]
    assert found.notes[0].message.startswith("Not all pods would schedule, default/")
