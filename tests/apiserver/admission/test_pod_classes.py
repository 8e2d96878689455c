"""What a pod gets from its PriorityClass and RuntimeClass, and when it is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"


@pytest.fixture
def cluster(still_server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(still_server, profile="cluster")
    yield cluster
    cluster.close()


def pod(name: str = "p", **spec: object) -> Object:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def priority(name: str, value: int, **more: object) -> Object:
    return {"metadata": {"name": name}, "value": value, **more}


def runtime(name: str, **more: object) -> Object:
    return {"metadata": {"name": name}, "handler": "h", **more}


def of(cluster: Cluster, obj: Object) -> tuple[object, ...]:
    spec = cluster.post(PODS, obj).ok()["spec"]
    return spec.get("priorityClassName"), spec["priority"], spec["preemptionPolicy"]


def refused(cluster: Cluster, obj: Object) -> str:
    answer = cluster.post(PODS, obj)
    assert answer.status == 403
    message = str(answer.json["message"])
    assert message.startswith('pods "p" is forbidden: ')
    return message.removeprefix('pods "p" is forbidden: ')


def test_the_classes_every_cluster_has_are_there_for_its_first_pod(cluster: Cluster) -> None:
    first = pod("first", priorityClassName="system-node-critical")
    assert of(cluster, first) == ("system-node-critical", 2_000_001_000, "PreemptLowerPriority")


def test_a_pod_has_the_priority_of_its_class(cluster: Cluster) -> None:
    assert of(cluster, pod("a")) == (None, 0, "PreemptLowerPriority")
    cluster.post(PRIORITIES, priority("high", 1000, preemptionPolicy="Never")).ok()
    assert of(cluster, pod("b", priorityClassName="high")) == ("high", 1000, "Never")
    assert of(cluster, pod("c", priorityClassName="high", priority=1000)) == ("high", 1000, "Never")
    cluster.post(PRIORITIES, priority("usual", 10, globalDefault=True)).ok()
    assert of(cluster, pod("d")) == ("usual", 10, "PreemptLowerPriority")
    critical = pod("e", priorityClassName="system-node-critical")
    assert of(cluster, critical) == ("system-node-critical", 2000001000, "PreemptLowerPriority")
    stored = cluster.get(f"{PODS}/b").ok()
    for field in ("priority", "preemptionPolicy"):
        del stored["spec"][field]
    assert cluster.put(f"{PODS}/b", stored).ok()["spec"]["priority"] == 1000, "an update that leaves it out keeps it"


def test_a_priority_is_the_classs_to_say(cluster: Cluster) -> None:
    cluster.post(PRIORITIES, priority("high", 1000)).ok()
    assert refused(cluster, pod(priorityClassName="none")) == "no PriorityClass with name none was found"
    assert refused(cluster, pod(priorityClassName="high", priority=7)) == (
        "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed "
        "1000 from the given PriorityClass name"
    )
    assert refused(cluster, pod(priorityClassName="high", preemptionPolicy="Never")) == (
        "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller "
        "computed PreemptLowerPriority from the given PriorityClass name"
    )


def test_a_pod_has_the_overhead_and_the_places_of_its_runtime(cluster: Cluster) -> None:
    tolerated = {"key": "k", "operator": "Exists"}
    scheduling = {"nodeSelector": {"kind": "vm"}, "tolerations": [tolerated]}
    cluster.post(RUNTIMES, runtime("vm", overhead={"podFixed": {"cpu": "10m"}}, scheduling=scheduling)).ok()
    spec = cluster.post(PODS, pod(runtimeClassName="vm", nodeSelector={"a": "b"}, overhead={"cpu": "0.01"})).ok()[
        "spec"
    ]
    assert spec["overhead"] == {"cpu": "10m"}
    assert spec["nodeSelector"] == {"a": "b", "kind": "vm"}
    assert tolerated in spec["tolerations"]


def test_a_runtime_has_to_be_there_and_to_agree(cluster: Cluster) -> None:
    cluster.post(RUNTIMES, runtime("plain")).ok()
    cluster.post(RUNTIMES, runtime("vm", overhead={"podFixed": {"cpu": "10m"}})).ok()
    cluster.post(RUNTIMES, runtime("here", scheduling={"nodeSelector": {"kind": "vm"}})).ok()
    assert refused(cluster, pod(runtimeClassName="none")) == 'pod rejected: RuntimeClass "none" not found'
    assert refused(cluster, pod(runtimeClassName="vm", overhead={"cpu": "1"})) == (
        "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    )
    without = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    assert refused(cluster, pod(runtimeClassName="plain", overhead={"cpu": "1"})) == without
    assert refused(cluster, pod(runtimeClassName="here", nodeSelector={"kind": "metal"})) == (
        "conflict: runtimeClass.scheduling.nodeSelector[kind] = vm; pod.spec.nodeSelector[kind] = metal"
    )


def test_a_negative_grace_period_is_one_second(cluster: Cluster) -> None:
    made = cluster.post(PODS, pod(terminationGracePeriodSeconds=-1)).ok()
    assert made["spec"]["terminationGracePeriodSeconds"] == 1
