"""Table tests of registration health, unhealthy nodes and missing instances."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.objects.conditions import condition_is, get_condition
from shoal.provision.cloudprovider.types import Instance, RepairPolicy
from shoal.provision.lifecycle.decide import with_condition
from shoal.provision.lifecycle.garbagecollection.controller import claims_without_instance
from shoal.provision.lifecycle.nodehealth.controller import (
    UnhealthyCondition,
    is_repair_blocked,
    snake_case,
    unhealthy_condition,
)
from shoal.provision.lifecycle.registrationhealth.decide import (
    REGISTRATION_FAILED,
    OutcomeBuffer,
    add_outcome,
    failed_outcome,
    is_condition_outdated,
    is_owned_by,
    outcomes_from_status,
    with_registration_health,
)
from tests.provision.lifecycle.objects import NOW, STAMP, Object, claim, names, node

HEALTHY = "NodeRegistrationHealthy"
POLICIES = (
    RepairPolicy("Ready", "False", 600.0),
    RepairPolicy("Ready", "Unknown", 600.0),
    RepairPolicy("Bad", "True", 60),
)


def pool(generation: int = 1) -> Object:
    return {"metadata": {"name": "p", "uid": "pool", "generation": generation}, "spec": {}, "status": {}}


@pytest.mark.parametrize(
    ("outcomes", "wanted"),
    [
        ((), "Unknown"),
        ((None,), "True"),
        ((REGISTRATION_FAILED,), "Unknown"),
        ((None, REGISTRATION_FAILED), "True"),
        ((REGISTRATION_FAILED, REGISTRATION_FAILED), "False"),
        ((REGISTRATION_FAILED, REGISTRATION_FAILED, None), "False"),
        ((REGISTRATION_FAILED, REGISTRATION_FAILED, None, None, None), "True"),
        ((REGISTRATION_FAILED, None, REGISTRATION_FAILED, None), "False"),
    ],
)
def test_a_pool_is_judged_by_the_last_four_of_its_claims(outcomes: OutcomeBuffer, wanted: str) -> None:
    ring: OutcomeBuffer = ()
    for outcome in outcomes:
        ring = add_outcome(ring, outcome)
    assert condition_is(with_registration_health(pool(), ring, STAMP), HEALTHY, wanted)


def test_a_pool_says_why_its_claims_fail() -> None:
    assert failed_outcome(claim("Launched")) == ("RegistrationFailed", "Failed to register node")
    unlaunched = with_condition(claim(), "Launched", "Unknown", STAMP, "QuotaExceeded", "no more")
    assert failed_outcome(unlaunched) == ("QuotaExceeded", "no more")
    said = get_condition(with_registration_health(pool(), (failed_outcome(unlaunched),) * 2, STAMP), HEALTHY)
    assert said is not None
    assert (said["reason"], said["message"]) == ("QuotaExceeded", "no more")


def test_what_was_known_before_a_restart_is_read_from_the_status() -> None:
    assert outcomes_from_status(pool()) == ()
    good = with_registration_health(pool(), (None,), STAMP)
    assert outcomes_from_status(good) == (None,)
    assert with_registration_health(good, outcomes_from_status(good), STAMP) is good
    bad = with_registration_health(pool(), (REGISTRATION_FAILED, REGISTRATION_FAILED, None), STAMP)
    assert outcomes_from_status(bad) == (REGISTRATION_FAILED, REGISTRATION_FAILED)
    assert not is_condition_outdated(bad)
    assert is_condition_outdated(pool())
    bad["metadata"]["generation"] = 2
    assert is_condition_outdated(bad), "the pool has changed since"


def test_only_claims_of_this_very_pool_count() -> None:
    mine = claim()
    mine["metadata"]["ownerReferences"] = [{"kind": "NodePool", "uid": "pool"}]
    assert is_owned_by(mine, pool())
    mine["metadata"]["ownerReferences"][0]["uid"] = "its predecessor"
    assert not is_owned_by(mine, pool())


def ill(condition: str, status: str, since: float) -> Object:
    found = node()
    said = {"type": condition, "status": status, "lastTransitionTime": rfc3339(since)}
    others = [each for each in found["status"]["conditions"] if each["type"] != condition]
    found["status"]["conditions"] = [said, *others]
    return found


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (node(), None),
        (ill("Ready", "Unknown", NOW), UnhealthyCondition("Ready", NOW + 600)),
        (ill("Ready", "False", NOW), UnhealthyCondition("Ready", NOW + 600)),
        (ill("Bad", "True", NOW), UnhealthyCondition("Bad", NOW + 60)),
        (ill("Bad", "False", NOW), None),
        (ill("Odd", "True", NOW), None),
    ],
)
def test_what_a_node_is_ill_of(found: Object, wanted: UnhealthyCondition | None) -> None:
    assert unhealthy_condition(found, POLICIES) == wanted


@pytest.mark.parametrize(
    ("bad", "total", "wanted"),
    [(1, 1, False), (1, 3, False), (2, 3, True), (2, 10, False), (3, 10, True), (3, 11, False)],
)
def test_a_fifth_may_be_ill(bad: int, total: int, wanted: bool) -> None:
    nodes = [ill("Bad", "True", NOW)] * bad + [node()] * (total - bad)
    assert is_repair_blocked(nodes, POLICIES) is wanted


def test_conditions_as_metrics_say_them() -> None:
    assert snake_case("MemoryPressure") == "memory_pressure"


def test_claims_whose_machine_is_nowhere() -> None:
    def registered(name: str, **metadata: Any) -> Object:
        found = claim("Launched", "Registered")
        found["metadata"] |= {"name": name, **metadata}
        found["status"]["providerID"] = f"p://{name}"
        return found

    young = claim("Launched")
    young["status"]["providerID"] = "p://young"
    others = registered("others")
    others["spec"]["nodeClassRef"] = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"}
    claims = [
        *(registered(name) for name in ("there", "gone", "going", "alive")),
        registered("ending", deletionTimestamp=STAMP),
        young,
        others,
    ]
    instances = [Instance("p://there", {}, {}, {}), Instance("p://going", {}, {}, {}, deleting=True)]
    nodes = {"alive": [node()], "gone": [node(ready=False)]}
    found = claims_without_instance(claims, instances, lambda each: nodes.get(each["metadata"]["name"], []))
    assert names(found) == ["gone", "going"]
