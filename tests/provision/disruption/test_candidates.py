"""Disruption candidates, and what blocks the other nodes."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.provision.disruption.candidates import candidates, consolidation_eligibility, is_removable_empty
from shoal.provision.evictability import eviction_cost
from shoal.provision.pods import has_do_not_disrupt
from tests.provision.catalogue import SMALL, pod, pool
from tests.provision.disruption.fleet import NOW, Fleet, conditions, every, pdb

KEEP = "karpenter.sh/do-not-disrupt"


def annotated(value: str, started: float | None = NOW) -> dict[str, Any]:
    found = pod(labels={"app": "a"})
    found["metadata"]["annotations"] = {KEEP: value}
    found["status"] = {"phase": "Running", **({"startTime": rfc3339(started)} if started is not None else {})}
    return found


@pytest.mark.parametrize(
    "changed",
    [
        {"going": True},
        {"busy": True},
        {"nominated": True},
        {"conditions": conditions("Launched")},
        {"pool": "unknown"},
        {"annotations": {KEEP: "true"}},
        {"claim_annotations": {KEEP: "true"}},
    ],
)
def test_a_node_that_may_not_go(changed: dict[str, Any]) -> None:
    fleet = Fleet()
    fleet.add(SMALL, **changed)
    assert candidates(fleet.snapshot())[0] == []


@pytest.mark.parametrize(
    ("value", "started", "kept"),
    [
        ("true", None, True),
        ("false", NOW, False),
        ("5m", NOW - 299, True),
        ("5m", NOW - 300, False),
        ("5m", None, True),
        ("soon", NOW, False),
        ("", NOW, False),
    ],
)
def test_a_pod_is_kept_for_good_or_for_a_while(value: str, started: float | None, kept: bool) -> None:
    assert has_do_not_disrupt(annotated(value, started), NOW) == kept


def test_a_kept_pod_keeps_its_node_but_not_from_drift_that_ends_in_time() -> None:
    fleet = Fleet()
    node = fleet.add(SMALL, [annotated("true")], name="one")
    found, (note,) = candidates(fleet.snapshot())
    assert not found
    assert (note.node, note.reason) == ("one", "DisruptionBlocked")
    assert note.message.startswith('Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/')
    assert not candidates(fleet.snapshot(), eventual=True)[0]
    node.spec = {"terminationGracePeriod": "1h"}
    assert not candidates(fleet.snapshot())[0]
    assert candidates(fleet.snapshot(), eventual=True)[0]


@pytest.mark.parametrize(
    ("pdbs", "free"),
    [
        ([pdb({"app": "a"}, 1)], True),
        ([pdb({"app": "a"}, 0)], False),
        ([pdb({"app": "b"}, 0)], True),
        ([pdb({"app": "a"}, 0, "elsewhere")], True),
        ([pdb({"app": "a"}, 1), pdb({"app": "a"}, 1)], False),
        ([pdb({"app": "a"}, 0, unhealthyPodEvictionPolicy="AlwaysAllow")], False),
    ],
)
def test_pod_disruption_budgets(pdbs: list[dict[str, Any]], free: bool) -> None:
    fleet = Fleet()
    fleet.add(SMALL, [pod(labels={"app": "a"})])
    fleet.pdbs = pdbs
    assert bool(candidates(fleet.snapshot())[0]) == free


def test_an_unhealthy_pod_may_go_where_its_budget_says_so() -> None:
    sick = pod(labels={"app": "a"})
    sick["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    fleet = Fleet()
    fleet.add(SMALL, [sick])
    fleet.pdbs = [pdb({"app": "a"}, 0, unhealthyPodEvictionPolicy="AlwaysAllow")]
    assert candidates(fleet.snapshot())[0]


@pytest.mark.parametrize(
    ("annotation", "priority", "wanted"),
    [("", 0, 1.0), (str(2**27), 0, 2.0), ("x", 0, 1.0), ("", 2**25, 2.0), ("", 10**9, 10.0), (str(-(2**31)), 0, -10.0)],
)
def test_what_an_eviction_costs(annotation: str, priority: int, wanted: float) -> None:
    found = pod(priority=priority)
    found["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": annotation}
    assert eviction_cost(found) == pytest.approx(wanted)


def test_pods_of_the_node_and_ended_ones_leave_it_empty() -> None:
    daemon, ended = pod(), pod()
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    ended["status"] = {"phase": "Succeeded"}
    fleet = Fleet()
    fleet.add(SMALL, [daemon, ended])
    (found,) = candidates(fleet.snapshot())[0]
    assert found.is_empty
    assert found.pods == ()
    assert is_removable_empty(found)


@pytest.mark.parametrize(
    ("disruption", "changed", "may", "why"),
    [
        (every(), {}, True, ""),
        (every(consolidationPolicy="WhenEmptyOrUnderutilized"), {}, True, ""),
        (
            every(consolidationPolicy="WhenEmpty"),
            {},
            False,
            "has consolidation policy WhenEmpty, but node is not empty",
        ),
        (every(consolidateAfter="Never"), {}, False, "has consolidation disabled"),
        (every(), {"conditions": conditions("Initialized")}, False, ""),
    ],
)
def test_what_may_be_consolidated(disruption: Any, changed: dict[str, Any], may: bool, why: str) -> None:
    fleet = Fleet(pool(disruption=disruption))
    fleet.add(SMALL, [pod()], **changed)
    (found,) = candidates(fleet.snapshot())[0]
    yes, said = consolidation_eligibility(found)
    assert yes == may
    assert why in said
    assert bool(why) == bool(said)
