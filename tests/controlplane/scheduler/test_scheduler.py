"""Tests of the pod scheduler in a running server: binding, unschedulable pods, and the events that reactivate them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.scheduler.samples import node, pod, taint
from tests.serving import Cluster, Server, fresh_cluster

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
NOBODY = "no nodes available to schedule pods"

Object = dict[str, Any]


@pytest.fixture
def hosted(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def join(cluster: Cluster, there: Object) -> None:
    cluster.post(NODES, there).ok()
    cluster.patch(f"{NODES}/{there['metadata']['name']}/status", {"status": there["status"]}).ok()


def wait_scheduled(cluster: Cluster, name: str) -> Object:
    """The pod, once it has a node."""
    found: Object = cluster.eventually(
        lambda: (one := cluster.get(f"{PODS}/{name}").ok())["spec"].get("nodeName") and one
    )
    return found


def condition(cluster: Cluster, name: str) -> Object:
    conditions = cluster.get(f"{PODS}/{name}").ok()["status"].get("conditions") or []
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def wait_unschedulable(cluster: Cluster, name: str, message: str) -> Object:
    """The condition, once it says so."""
    cluster.eventually(lambda: condition(cluster, name).get("message") == message)
    return condition(cluster, name)


def events(cluster: Cluster, name: str, reason: str) -> list[Object]:
    query = f"?fieldSelector=involvedObject.name={name},involvedObject.kind=Pod,reason={reason}"
    items: list[Object] = cluster.get(EVENTS + query).ok()["items"]
    return items


def test_a_pod_is_bound_to_the_node_that_fits(hosted: Cluster) -> None:
    join(hosted, node("small", cpu="100m"))
    join(hosted, node("large"))
    hosted.post(PODS, pod("p")).ok()
    found = wait_scheduled(hosted, "p")
    assert found["spec"]["nodeName"] == "large"
    assert condition(hosted, "p")["status"] == "True"
    (event,) = hosted.eventually(lambda: events(hosted, "p", "Scheduled"))
    assert event["message"] == "Successfully assigned default/p to large"
    assert event["type"] == "Normal"
    assert event["reportingComponent"] == "default-scheduler"
    assert event["involvedObject"]["uid"] == found["metadata"]["uid"]


def test_without_nodes_a_pod_waits_for_one(hosted: Cluster) -> None:
    hosted.post(PODS, pod("p")).ok()
    told = wait_unschedulable(hosted, "p", NOBODY)
    assert (told["status"], told["reason"], told["observedGeneration"]) == ("False", "Unschedulable", 1)
    assert told["lastTransitionTime"]
    (event,) = hosted.eventually(lambda: events(hosted, "p", "FailedScheduling"))
    assert (event["type"], event["message"]) == ("Warning", NOBODY)
    join(hosted, node("n"))
    wait_scheduled(hosted, "p")
    assert condition(hosted, "p") == {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": condition(hosted, "p")["lastTransitionTime"],
    }


def test_the_reasons_of_all_nodes_are_told_together(hosted: Cluster) -> None:
    join(hosted, node("a", cpu="100m"))
    join(hosted, node("b", taints=[taint("gpu", value="x")]))
    join(hosted, node("c", taints=[taint("gpu", value="x")]))
    hosted.post(PODS, pod("p")).ok()
    wait_unschedulable(
        hosted,
        "p",
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {gpu: x}.",
    )


@pytest.mark.parametrize(
    ("there", "wanted", "help_"),
    [
        (node("n", unschedulable=True), pod("p"), {"spec": {"unschedulable": None}}),
        (node("n", taints=[taint("t")]), pod("p"), {"spec": {"taints": None}}),
        (node("n"), pod("p", nodeSelector={"zone": "a"}), {"metadata": {"labels": {"zone": "a"}}}),
    ],
)
def test_a_node_that_changes_wakes_who_waits(hosted: Cluster, there: Object, wanted: Object, help_: Object) -> None:
    join(hosted, there)
    hosted.post(PODS, wanted).ok()
    hosted.eventually(lambda: condition(hosted, "p").get("status") == "False")
    hosted.patch(f"{NODES}/n", help_).ok()
    assert wait_scheduled(hosted, "p")["spec"]["nodeName"] == "n"


def test_a_node_that_grows_and_a_pod_that_goes_make_room(hosted: Cluster) -> None:
    join(hosted, node("n", cpu="500m"))
    for name in ("first", "second", "third"):
        hosted.post(PODS, pod(name, terminationGracePeriodSeconds=0)).ok()
        hosted.eventually(lambda name=name: condition(hosted, name))  # type: ignore[misc]
    wait_scheduled(hosted, "first")
    wait_unschedulable(hosted, "second", "0/1 nodes are available: 1 Insufficient cpu.")
    hosted.delete(f"{PODS}/first?gracePeriodSeconds=0").ok()
    wait_scheduled(hosted, "second")
    hosted.patch(f"{NODES}/n/status", {"status": {"allocatable": {"cpu": "1"}}}).ok()
    wait_scheduled(hosted, "third")


def test_a_finished_pod_makes_room(hosted: Cluster) -> None:
    join(hosted, node("n", cpu="500m"))
    hosted.post(PODS, pod("first")).ok()
    wait_scheduled(hosted, "first")
    hosted.post(PODS, pod("second")).ok()
    wait_unschedulable(hosted, "second", "0/1 nodes are available: 1 Insufficient cpu.")
    hosted.patch(f"{PODS}/first/status", {"status": {"phase": "Succeeded"}}).ok()
    wait_scheduled(hosted, "second")


def test_a_pod_that_tolerates_more_or_loses_its_gate_is_looked_at_again(hosted: Cluster) -> None:
    join(hosted, node("n", taints=[taint("t")]))
    hosted.post(PODS, pod("p", schedulingGates=[{"name": "example.com/wait"}])).ok()
    assert condition(hosted, "p")["reason"] == "SchedulingGated"
    hosted.patch(f"{PODS}/p", [{"op": "remove", "path": "/spec/schedulingGates"}], "json").ok()
    wait_unschedulable(hosted, "p", "0/1 nodes are available: 1 node(s) had untolerated taint {t: }.")
    tolerations = [*hosted.get(f"{PODS}/p").ok()["spec"].get("tolerations", []), {"key": "t", "operator": "Exists"}]
    hosted.patch(f"{PODS}/p", {"spec": {"tolerations": tolerations}}).ok()
    wait_scheduled(hosted, "p")


def test_pods_of_others_are_left_alone(hosted: Cluster) -> None:
    join(hosted, node("n"))
    hosted.post(PODS, pod("theirs", schedulerName="theirs")).ok()
    hosted.post(PODS, pod("fixed", nodeName="elsewhere")).ok()
    hosted.post(PODS, pod("ours")).ok()
    wait_scheduled(hosted, "ours")
    assert "nodeName" not in hosted.get(f"{PODS}/theirs").ok()["spec"]
    assert condition(hosted, "theirs") == {}
    assert hosted.get(f"{PODS}/fixed").ok()["spec"]["nodeName"] == "elsewhere"


def test_many_pods_fill_the_nodes_and_no_more(hosted: Cluster) -> None:
    for number in range(4):
        join(hosted, node(f"n{number}", cpu="2"))
    for number in range(20):
        hosted.post(PODS, pod(f"p{number}")).ok()

    def where() -> list[str]:
        return [one["spec"]["nodeName"] for one in hosted.get(PODS).ok()["items"] if "nodeName" in one["spec"]]

    hosted.eventually(lambda: len(where()) == 16)
    assert Counter(where()) == {f"n{number}": 4 for number in range(4)}
    waiting = [one["metadata"]["name"] for one in hosted.get(PODS).ok()["items"] if "nodeName" not in one["spec"]]
    for name in waiting:
        wait_unschedulable(hosted, name, "0/4 nodes are available: 4 Insufficient cpu.")
    assert len(waiting) == 4


def test_higher_priority_goes_first(hosted: Cluster) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    hosted.post(classes, body).ok()
    hosted.post(PODS, pod("low")).ok()
    hosted.post(PODS, pod("high", priorityClassName="high", priority=1000)).ok()
    for name in ("low", "high"):
        wait_unschedulable(hosted, name, NOBODY)
    join(hosted, node("n", cpu="500m"))
    wait_scheduled(hosted, "high")
    assert "nodeName" not in hosted.get(f"{PODS}/low").ok()["spec"]


def test_replicas_stay_apart_and_the_last_one_waits(hosted: Cluster) -> None:
    for name in ("a", "b"):
        join(hosted, node(name, labels={"kubernetes.io/hostname": name}))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for name in ("p", "q", "r"):
        hosted.post(PODS, pod(name, labels={"app": "web"}, affinity=apart)).ok()
    assert {wait_scheduled(hosted, name)["spec"]["nodeName"] for name in ("p", "q")} == {"a", "b"}
    wait_unschedulable(hosted, "r", "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
    hosted.post(PODS, pod("plain", labels={"app": "web"})).ok()
    message = "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    wait_unschedulable(hosted, "plain", message)
    hosted.delete(f"{PODS}/p?gracePeriodSeconds=0").ok()
    wait_scheduled(hosted, "r")


def test_namespaces_are_asked_by_label(hosted: Cluster) -> None:
    join(hosted, node("n", labels={"zone": "z"}))
    for name in ("red", "blue"):
        labels = {"team": name}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        hosted.post("/api/v1/namespaces", namespace).ok()
    selector = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}, **selector}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    hosted.post(PODS, pod("web", affinity=near)).ok()
    wait_unschedulable(hosted, "web", "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.")
    for name in ("red", "blue"):
        db = pod("db", labels={"app": "db"})
        db["metadata"]["namespace"] = name
        hosted.post(f"/api/v1/namespaces/{name}/pods", db).ok()
    wait_scheduled(hosted, "web")


def test_pods_spread_over_zones(hosted: Cluster) -> None:
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        join(hosted, node(name, labels={"zone": zone}))
    selector = {"matchLabels": {"app": "web"}}
    even = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]
    for number in range(6):
        hosted.post(PODS, pod(f"p{number}", labels={"app": "web"}, topologySpreadConstraints=even)).ok()
    where = Counter(wait_scheduled(hosted, f"p{number}")["spec"]["nodeName"][0] for number in range(6))
    assert where == {"a": 3, "b": 3}


def test_one_of_higher_priority_gets_the_room_of_another(hosted: Cluster) -> None:
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    hosted.post("/apis/scheduling.k8s.io/v1/priorityclasses", body).ok()
    join(hosted, node("n", cpu="500m"))
    hosted.post(PODS, pod("low")).ok()
    wait_scheduled(hosted, "low")
    hosted.post(PODS, pod("high", priorityClassName="high", priority=1000)).ok()
    leaving = hosted.eventually(
        lambda: (it := hosted.get(f"{PODS}/low").ok())["metadata"].get("deletionTimestamp") and it
    )
    reasons = {each["type"]: each.get("reason") for each in leaving["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "PreemptionByScheduler"
    waiting = hosted.eventually(
        lambda: (it := hosted.get(f"{PODS}/high").ok())["status"].get("nominatedNodeName") and it
    )
    assert waiting["status"]["nominatedNodeName"] == "n"
    (event,) = hosted.eventually(lambda: events(hosted, "low", "Preempted"))
    assert event["message"] == f"Preempted by pod {waiting['metadata']['uid']} on node n"
    assert event["related"]["name"] == "high"
    hosted.delete(f"{PODS}/low?gracePeriodSeconds=0").ok()
    assert "nominatedNodeName" not in wait_scheduled(hosted, "high")["status"]


def test_a_pod_without_its_claim_waits(hosted: Cluster) -> None:
    join(hosted, node("n"))
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    hosted.post(PODS, pod("p", volumes=volumes)).ok()
    wait_unschedulable(hosted, "p", '0/1 nodes are available: persistentvolumeclaim "data" not found.')


def test_nothing_is_written_while_nothing_changes(hosted: Cluster) -> None:
    join(hosted, node("n", cpu="100m"))
    hosted.post(PODS, pod("p")).ok()
    wait_unschedulable(hosted, "p", "0/1 nodes are available: 1 Insufficient cpu.")
    before = hosted.get(f"{PODS}/p").ok()["metadata"]["resourceVersion"]
    hosted.patch(f"{NODES}/n", {"metadata": {"annotations": {"note": "nothing of interest"}}}).ok()
    hosted.post(PODS, pod("q", cpu="50m")).ok()
    wait_scheduled(hosted, "q")
    assert hosted.get(f"{PODS}/p").ok()["metadata"]["resourceVersion"] == before


def test_after_a_restart_it_goes_on_where_it_was(tmp_path: Path) -> None:
    first = Server(tmp_path / "data")
    cluster = fresh_cluster(first, profile="cluster")
    join(cluster, node("n", cpu="1"))
    for name in ("a", "b", "c"):
        cluster.post(PODS, pod(name)).ok()
    for name in ("a", "b"):
        wait_scheduled(cluster, name)
    wait_unschedulable(cluster, "c", "0/1 nodes are available: 1 Insufficient cpu.")
    version = cluster.get(f"{PODS}/c").ok()["metadata"]["resourceVersion"]
    cluster.close()
    first.stop()
    second = Server(tmp_path / "data")
    again = Cluster(second, cluster.name)
    try:
        again.post(PODS, pod("d", cpu="", memory="")).ok()
        wait_scheduled(again, "d")
        assert again.get(f"{PODS}/c").ok()["metadata"]["resourceVersion"] == version
        again.delete(f"{PODS}/a?gracePeriodSeconds=0").ok()
        wait_scheduled(again, "c")
    finally:
        again.close()
        second.stop()


ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def join_unequal(cluster: Cluster) -> None:
    """By free capacity alone the first node would take every pod of a small Deployment."""
    for name, zone, cpu, memory in (("big", "x", "64", "256Gi"), ("a", "x", "4", "16Gi"), ("b", "y", "4", "16Gi")):
        join(cluster, node(name, cpu, memory, labels={HOST: name, ZONE: zone}))


def nodes_by_pod(cluster: Cluster, number: int) -> Counter[str] | None:
    names = [each["spec"].get("nodeName") for each in cluster.get(PODS).ok()["items"]]
    return Counter(names) if len(names) == number and all(names) else None


def test_replicas_of_a_deployment_are_kept_apart_without_constraints(hosted: Cluster) -> None:
    join_unequal(hosted)
    template = pod("web", "100m", labels={"app": "web"})
    template = {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]}
    spec = {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    hosted.post("/apis/apps/v1/namespaces/default/deployments", body).ok()
    assert hosted.eventually(lambda: nodes_by_pod(hosted, 6)) == {"big": 2, "a": 2, "b": 2}


def test_pods_of_a_service_are_kept_apart(hosted: Cluster) -> None:
    join_unequal(hosted)
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    hosted.post("/api/v1/namespaces/default/services", service).ok()
    for index in range(3):
        hosted.post(PODS, pod(f"w{index}", "100m", labels={"app": "web"})).ok()
        wait_scheduled(hosted, f"w{index}")
    assert nodes_by_pod(hosted, 3) == {"big": 1, "a": 1, "b": 1}
