"""Tests of the ReplicaSet decision: number of pods, deletion order and status."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.clock import rfc3339
from shoal.controlplane.podcontrol.rank import pods_to_delete
from shoal.controlplane.podcontrol.template import pod_from_template
from shoal.controlplane.replicasets.decide import BURST_REPLICAS, plan, replica_set_status, split_active
from shoal.kinds.core.pod.status import is_available, seconds_to_next_available

Object = dict[str, Any]
NOW, STAMP = 1_700_000_000.0, "2023-11-14T22:13:20Z"


def ago(seconds: int) -> str:
    return rfc3339(NOW - seconds)


def pod(
    uid: str, *, node: str = "n", phase: str = "Running", ready: int | None = 600, age: int = 600, **more: Any
) -> Object:
    """`ready` and `age` are seconds ago; ready None: it is not."""
    condition = {"type": "Ready", "status": "False" if ready is None else "True", "lastTransitionTime": ago(ready or 0)}
    metadata = {"name": uid, "uid": uid, "creationTimestamp": ago(age), "labels": {"app": "web"}, **more}
    restarts = metadata.pop("restarts", 0)
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": [condition],
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
        },
    }


def replica_set(replicas: int = 3, **more: Any) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template, **more}
    return {"metadata": {"name": "web", "uid": "r", "generation": 4}, "spec": spec, "status": {}}


@pytest.mark.parametrize(
    ("kept", "goes"),
    [
        (pod("assigned"), pod("unassigned", node="")),
        (pod("running"), pod("pending", phase="Pending")),
        (pod("running"), pod("unknown", phase="Unknown")),
        (pod("unknown", phase="Unknown"), pod("pending", phase="Pending")),
        (pod("ready"), pod("unready", ready=None)),
        (pod("dear", annotations={"controller.kubernetes.io/pod-deletion-cost": "10"}), pod("cheap")),
        (pod("alone", node="quiet"), pod("crowded")),
        (pod("long ready", ready=5000), pod("just ready", ready=5)),
        (pod("steady"), pod("restarting", restarts=3)),
        (pod("old", age=5000), pod("young", age=5)),
    ],
    ids=lambda one: one["metadata"]["name"],
)
def test_whose_loss_costs_least_goes_first(kept: Object, goes: Object) -> None:
    related = [pod("other"), kept, goes]
    assert pods_to_delete([kept, goes], related, 1, NOW) == [goes]
    assert pods_to_delete([goes, kept], related, 1, NOW) == [goes]


def test_a_cost_that_is_no_number_is_none() -> None:
    odd = pod("a", annotations={"controller.kubernetes.io/pod-deletion-cost": "much"})
    assert pods_to_delete([odd, pod("b", ready=None)], [], 1, NOW)[0]["metadata"]["name"] == "b"


def test_pods_of_about_one_age_are_chosen_by_uid() -> None:
    pods = [pod("b", age=600), pod("a", age=601)]
    assert pods_to_delete(pods, [], 1, NOW)[0]["metadata"]["uid"] == "a"


@given(st.integers(0, 1200), st.integers(0, 1200))
def test_as_many_as_are_missing_or_too_many(replicas: int, there: int) -> None:
    pods = [pod(str(number)) for number in range(there)]
    todo = plan(replica_set(replicas), pods, pods, NOW)
    assert todo.create == min(max(replicas - there, 0), BURST_REPLICAS)
    assert len(todo.delete) == min(max(there - replicas, 0), BURST_REPLICAS)


def test_one_that_is_being_deleted_makes_and_deletes_nothing() -> None:
    going = replica_set(3)
    going["metadata"]["deletionTimestamp"] = STAMP
    assert plan(going, [], [], NOW).create == 0
    assert plan(going, [pod(str(n)) for n in range(5)], [], NOW).delete == ()


def test_who_counts() -> None:
    pods = [
        pod("a"),
        pod("b", phase="Failed"),
        pod("c", deletionTimestamp=STAMP),
        pod("d", phase="Succeeded", deletionTimestamp=STAMP),
        pod("e"),
    ]
    active, terminating = split_active(pods, {"e"})
    assert [one["metadata"]["uid"] for one in active] == ["a"]
    assert [one["metadata"]["uid"] for one in terminating] == ["c", "e"]


def test_the_status() -> None:
    pods = [pod("a", ready=60), pod("b", ready=5), pod("c", ready=None), pod("d", labels={"app": "other"})]
    found = replica_set_status(replica_set(4, minReadySeconds=30), pods, [pod("e")], None, NOW, STAMP)
    assert found == {
        "replicas": 4,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 2,
        "terminatingReplicas": 1,
        "observedGeneration": 4,
    }
    assert replica_set_status(replica_set(0), [], [], None, NOW, STAMP) == {
        "replicas": 0,
        "terminatingReplicas": 0,
        "observedGeneration": 4,
    }


def test_a_failure_is_a_condition_until_it_is_over() -> None:
    failed = replica_set_status(replica_set(3), [pod("a")], [], RuntimeError("quota"), NOW, STAMP)
    assert failed["conditions"] == [
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": "quota",
            "lastTransitionTime": STAMP,
        }
    ]
    obj = {**replica_set(3), "status": failed}
    assert replica_set_status(obj, [pod("a")], [], RuntimeError("another"), NOW, "later") == failed
    assert "conditions" not in replica_set_status(obj, [pod("a")], [], None, NOW, "later")
    many = replica_set_status(replica_set(0), [pod("a")], [], RuntimeError("no"), NOW, STAMP)
    assert many["conditions"][0]["reason"] == "FailedDelete"


def test_availability_comes_with_time() -> None:
    assert is_available(pod("a", ready=0), 0, NOW)
    assert not is_available(pod("a", ready=9), 10, NOW)
    assert is_available(pod("a", ready=10), 10, NOW)
    assert not is_available(pod("a", ready=None), 0, NOW)
    pods = [pod("a", ready=3), pod("b", ready=7), pod("c", ready=60), pod("d", ready=None)]
    assert seconds_to_next_available(pods, 10, NOW) == 3
    assert seconds_to_next_available(pods, 0, NOW) is None
    assert seconds_to_next_available([pod("c", ready=60)], 10, NOW) is None


def test_a_pod_from_the_template() -> None:
    owner = replica_set()
    owner["spec"]["template"]["metadata"] |= {"annotations": {"a": "b"}, "creationTimestamp": None}
    made = pod_from_template(owner, {"name": "web"})
    assert made["metadata"] == {
        "labels": {"app": "web"},
        "annotations": {"a": "b"},
        "generateName": "web-",
        "ownerReferences": [{"name": "web"}],
    }
    assert made["spec"] == {"containers": []}
