"""Tests of PodDisruptionBudgets in a running server and of the evictions they allow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client, GroupVersionResource
from tests.controlplane.workloads import DEPLOYMENTS, LONG_AGO, PODS, Object, condition, deployment, pods, until
from tests.controlplane.world import world
from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, fresh_cluster, widget, widget_definition

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
EVENTS = "/api/v1/namespaces/default/events"
VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def budget(**spec: Any) -> Object:
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


def status(cluster: Cluster) -> Object:
    found: Object = cluster.get(f"{BUDGETS}/web").ok()["status"]
    return found


def numbers(cluster: Cluster) -> tuple[int, ...]:
    found = status(cluster)
    return tuple(found[name] for name in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"))


def evict(cluster: Cluster, name: str) -> Any:
    return cluster.post(f"{PODS}/{name}/eviction", {"metadata": {"name": name}})


def test_a_share_of_what_a_deployment_wants(cluster: Cluster) -> None:
    cluster.post(BUDGETS, budget(maxUnavailable="30%")).ok()
    cluster.eventually(lambda: status(cluster).get("observedGeneration") == 1)
    assert numbers(cluster) == (0, 0, 0, 0)
    cluster.post(DEPLOYMENTS, deployment(10)).ok()
    until(cluster, lambda: numbers(cluster) == (10, 7, 10, 3))
    assert condition({"status": status(cluster)}, "DisruptionAllowed")["reason"] == "SufficientPods"
    cluster.patch(f"{BUDGETS}/web", {"spec": {"maxUnavailable": None, "minAvailable": "100%"}}).ok()
    cluster.eventually(lambda: numbers(cluster) == (10, 10, 10, 0))
    assert status(cluster)["observedGeneration"] == 2


def test_evictions_spend_the_budget_and_no_more(cluster: Cluster) -> None:
    cluster.post(BUDGETS, budget(minAvailable=7)).ok()
    cluster.post(DEPLOYMENTS, deployment(10)).ok()
    until(cluster, lambda: numbers(cluster) == (10, 7, 10, 3))
    names = [pod["metadata"]["name"] for pod in pods(cluster)]

    def one(name: str) -> int:
        client = Cluster(cluster.server, cluster.name)
        try:
            return int(evict(client, name).status)
        finally:
            client.close()

    with ThreadPoolExecutor(5) as together:
        answers = sorted(together.map(one, names))
    assert answers == [201] * 3 + [429] * 7
    cluster.eventually(lambda: numbers(cluster)[2:] == (7, 0))
    ready = next(p["metadata"]["name"] for p in pods(cluster) if condition(p, "Ready").get("status") == "True")
    said = evict(cluster, ready)
    assert (said.status, said["message"]) == (429, VIOLATED)
    assert said["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget web needs 7 healthy pods and has 7 currently"}
    ]
    until(cluster, lambda: numbers(cluster) == (10, 7, 10, 3))
    assert "disruptedPods" not in status(cluster)


def test_an_unhealthy_pod_goes_when_it_costs_nothing(cluster: Cluster) -> None:
    for name, ready in (("a", "True"), ("b", "False")):
        pod = {
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        cluster.post(PODS, pod).ok()
        conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": LONG_AGO}]
        cluster.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": conditions}}).ok()
    cluster.post(BUDGETS, budget(minAvailable=2)).ok()
    cluster.eventually(lambda: status(cluster).get("observedGeneration") == 1)
    assert evict(cluster, "b").status == 429
    cluster.patch(f"{BUDGETS}/web", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}).ok()
    assert evict(cluster, "b").status == 201
    assert evict(cluster, "a").status == 429


def test_an_eviction_may_name_the_revision_it_means(cluster: Cluster) -> None:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
    cluster.post(PODS, {"metadata": {"name": "a"}, "spec": spec}).ok()

    def asked(revision: str) -> Any:
        options = {"preconditions": {"resourceVersion": revision}}
        return cluster.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": options})

    wrong = asked("1")
    assert (wrong.status, wrong["reason"]) == (409, "Conflict")
    assert "The object might have been modified" in wrong["message"]
    assert asked(cluster.get(f"{PODS}/a").ok()["metadata"]["resourceVersion"]).status == 201


def test_the_scale_of_a_custom_controller_counts(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, widget_definition()).ok()
    owner = widget("w")
    owner["spec"]["replicas"] = 4
    made = cluster.post(WIDGETS, owner).ok()
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": made["metadata"]["uid"]}
    metadata = {"name": "a", "labels": {"app": "web"}, "ownerReferences": [{**reference, "controller": True}]}
    cluster.post(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}).ok()
    cluster.post(BUDGETS, budget(maxUnavailable="50%")).ok()
    cluster.eventually(lambda: numbers(cluster) == (4, 2, 0, 0))


def test_a_controller_without_scale_is_named(cluster: Cluster) -> None:
    owner = cluster.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "j"}}).ok()
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "j",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": "a", "labels": {"app": "web"}, "ownerReferences": [reference]}
    cluster.post(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}).ok()
    cluster.post(BUDGETS, budget(maxUnavailable=1)).ok()
    told = cluster.eventually(lambda: condition({"status": status(cluster)}, "DisruptionAllowed"))
    assert (told["reason"], told["message"]) == ("SyncFailed", "configmaps does not implement the scale subresource")
    cluster.eventually(
        lambda: "CalculateExpectedPodCountFailed" in {e["reason"] for e in cluster.get(EVENTS).ok()["items"]}
    )


@pytest.mark.anyio
async def test_an_eviction_that_came_to_nothing_is_forgotten(tmp_path: Path) -> None:
    budgets, kind = GroupVersionResource("policy", "v1", "poddisruptionbudgets"), GroupVersionResource("", "v1", "pods")
    async with world(tmp_path) as given:
        client = await given.cluster("one")

        async def read() -> Object:
            found: Object = (await client.get(budgets, "web", "default"))["status"]
            return found

        await _pod(client, kind)
        await client.create(budgets, budget(minAvailable=0), "default")
        await given.eventually(lambda: _is(read, "disruptionsAllowed", 1))
        spent = {"disruptionsAllowed": 0, "disruptedPods": {"a": "2023-11-14T22:13:20Z"}}
        await client.merge_patch(budgets, "web", {"status": spent}, "default", "status")
        await given.eventually(lambda: _is(read, "currentHealthy", 0))
        given.clock.step(125)
        await given.eventually(lambda: _is(read, "disruptionsAllowed", 1))
        assert "disruptedPods" not in await read()

        async def cleared() -> bool:
            return condition(await client.get(kind, "a", "default"), "DisruptionTarget").get("status") == "False"

        await given.eventually(cleared)


async def _pod(client: Client, kind: GroupVersionResource) -> None:
    pod = {"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await client.create(kind, pod, "default")
    conditions = [
        {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO},
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": LONG_AGO,
        },
    ]
    await client.merge_patch(kind, "a", {"status": {"phase": "Running", "conditions": conditions}}, "default", "status")


async def _is(read: Any, field: str, value: object) -> bool:
    return bool((await read()).get(field) == value)
