"""ReplicationControllers in a running server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.controlplane.replicationcontrollers.controller import selector_of
from tests.controlplane.simulated_nodes import events, simulated_cluster
from tests.controlplane.workloads import PODS, Object, condition, pods, status_of, template
from tests.serving import Cluster, Server

CONTROLLERS = "/api/v1/namespaces/default/replicationcontrollers"
WEB = f"{CONTROLLERS}/web"


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = simulated_cluster(server, "n")
    yield cluster
    cluster.close()


def controller(replicas: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"app": "web"}, "template": template()},
    }


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({"app": "web"}, {"app": "web", "more": "x"}, True),
        ({"app": "web"}, {"app": "db"}, False),
        ({}, {"app": "web"}, False),
        (None, {}, False),
        ({"app": "not a label"}, {"app": "not a label"}, False),
    ],
)
def test_a_plain_map_selects(selector: object, labels: dict[str, str], matches: bool) -> None:
    assert selector_of({"spec": {"selector": selector}}).matches(labels) is matches


def test_pods_are_made_counted_and_taken_away(cluster: Cluster) -> None:
    made = cluster.post(CONTROLLERS, controller(3)).ok()
    cluster.eventually(lambda: status_of(cluster, WEB).get("availableReplicas") == 3)
    assert status_of(cluster, WEB) == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "observedGeneration": 1,
    }
    version = cluster.get(WEB).ok()["metadata"]["resourceVersion"]
    reference = pods(cluster)[0]["metadata"]["ownerReferences"][0]
    assert (reference["apiVersion"], reference["kind"]) == ("v1", "ReplicationController")
    assert reference["uid"] == made["metadata"]["uid"]
    cluster.eventually(lambda: len(events(cluster, "ReplicationController")) == 3)
    assert cluster.get(WEB).ok()["metadata"]["resourceVersion"] == version, "nothing is written again and again"
    cluster.patch(f"{WEB}/scale", {"spec": {"replicas": 1}}).ok()
    cluster.eventually(lambda: len(pods(cluster)) == 1 and status_of(cluster, WEB)["replicas"] == 1)
    name = pods(cluster)[0]["metadata"]["name"]
    cluster.patch(f"{PODS}/{name}", {"metadata": {"labels": {"app": "other"}}}).ok()
    cluster.eventually(lambda: "ownerReferences" not in cluster.get(f"{PODS}/{name}").ok()["metadata"])
    cluster.eventually(lambda: len(pods(cluster)) == 2)
    cluster.delete(f"{WEB}?propagationPolicy=Background").ok()
    cluster.eventually(lambda: [pod["metadata"]["name"] for pod in pods(cluster)] == [name])


def test_what_the_quota_refuses_is_told(cluster: Cluster) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    cluster.post("/api/v1/namespaces/default/resourcequotas", quota).ok()
    cluster.post(CONTROLLERS, controller(3)).ok()
    cluster.eventually(lambda: condition(cluster.get(WEB).ok(), "ReplicaFailure").get("reason") == "FailedCreate")
    cluster.eventually(lambda: "FailedCreate" in dict(events(cluster, "ReplicationController")))
    assert "exceeded quota: few" in dict(events(cluster, "ReplicationController"))["FailedCreate"]
    cluster.patch(f"{WEB}/scale", {"spec": {"replicas": 2}}).ok()
    cluster.eventually(lambda: not condition(cluster.get(WEB).ok(), "ReplicaFailure"))
