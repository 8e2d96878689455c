"""Pods: QoS class, grace period, updates and subresources, the printed summary, eviction."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from shoal.kinds.core.pod import pods, subresources
from shoal.kinds.core.pod.eviction import can_ignore_pdb, consume_disruption, is_unhealthy_pod_evictable
from shoal.kinds.core.pod.printer import summarize_pod
from shoal.objects.errors import TooManyRequests

Object = dict[str, Any]


def pod(container: Object | None = None, **fields: object) -> Object:
    made = {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "x:1", **(container or {})}], **fields},
    }
    pods.default_pod(made)
    pods.prepare_pod_create(made)
    return made


def update_messages(old: Object, **fields: object) -> list[str]:
    new = orjson.loads(orjson.dumps(old))
    new["spec"].update(fields)
    pods.default_pod(new)
    return [cause.message for cause in pods.validate_pod(new, old)]


ALL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"limits": ALL}, "Guaranteed"),
        ({"limits": ALL, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": ALL}, "Burstable"),
        ({"limits": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"ephemeral-storage": "1"}}, "BestEffort"),
    ],
)
def test_the_class_of_service(resources: Object, expected: str) -> None:
    assert pod({"resources": resources})["status"] == {"phase": "Pending", "qosClass": expected}


def test_a_gated_pod_says_so() -> None:
    made = pod(schedulingGates=[{"name": "g"}])
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert summarize_pod(made).reason == "SchedulingGated"


@pytest.mark.parametrize(
    ("fields", "phase", "asked", "seconds"),
    [
        ({}, "Pending", None, 0),
        ({}, "Pending", 60, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n"}, "Running", -1, 1),
        ({"nodeName": "n"}, "Succeeded", None, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Running", None, 7),
    ],
)
def test_how_long_a_deletion_waits(fields: Object, phase: str, asked: int | None, seconds: int) -> None:
    made = pod(**fields)
    made["status"]["phase"] = phase
    assert pods.grace_seconds(made, asked) == seconds


def test_an_update_may_change_little() -> None:
    old = pod(activeDeadlineSeconds=10, tolerations=[{"key": "a", "operator": "Exists"}])
    again = orjson.loads(orjson.dumps(old["spec"]["containers"]))
    assert update_messages(old, containers=[{**again[0], "image": "y:1"}]) == []
    assert update_messages(old, activeDeadlineSeconds=5) == []
    assert update_messages(old, tolerations=[*old["spec"]["tolerations"], {"key": "b", "operator": "Exists"}]) == []
    assert update_messages(old, dnsPolicy="Default") == [
        (
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
            "negative)\n"
            '- spec.dnsPolicy: "ClusterFirst"\n+ spec.dnsPolicy: "Default"\n'
        )
    ]
    assert update_messages(old, containers=again * 2) == [
        'spec.containers[1].name: Duplicate value: "c"',
        "spec.containers: Forbidden: pod updates may not add or remove containers",
    ]
    assert update_messages(old, activeDeadlineSeconds=11) == [
        "spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value"
    ]
    assert update_messages(old, tolerations=[]) == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def test_a_gated_pod_may_be_steered() -> None:
    old = pod(schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"})
    assert update_messages(old, nodeSelector={"a": "b", "c": "d"}, schedulingGates=[]) == []
    assert update_messages(old, schedulingGates=[{"name": "h"}]) == [
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'"
    ]
    assert update_messages(old, nodeSelector={})[0].startswith("spec: Forbidden: pod updates may not change")


def test_the_class_of_service_stays() -> None:
    old, new = pod(), pod()
    new["status"]["qosClass"] = "Guaranteed"
    assert [cause.message for cause in pods.validate_pod(new, old)] == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]
    del new["status"]["qosClass"]
    pods.prepare_pod_status_update(new, old)
    assert new["status"]["qosClass"] == "BestEffort"


def test_ephemeral_containers_are_only_added() -> None:
    old = pod()
    old["spec"]["ephemeralContainers"] = [{"name": "e", "image": "x:1"}]
    pods.default_pod(old)
    new = pod(dnsPolicy="Default", ephemeralContainers=[{"name": "f", "image": "x:1"}])
    subresources.keep_only_ephemeral_containers(new, old)
    assert new["spec"]["dnsPolicy"] == "ClusterFirst"
    assert [cause.message for cause in subresources.validate_ephemeral_containers(new, old)] == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed\n'
    ]


def test_a_resize_changes_cpu_and_memory_alone() -> None:
    old = pod({"resources": {"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}})

    def resized(requests: Object) -> list[str]:
        new = pod({"image": "other:1", "resources": {"requests": requests}})
        new["status"] = old["status"]
        subresources.keep_only_resources(new, old)
        assert new["spec"]["containers"][0]["image"] == "x:1"
        return [cause.message for cause in subresources.validate_resize(new, old)]

    assert resized({"cpu": "2", "ephemeral-storage": "1Gi"}) == []
    assert resized({"cpu": "2", "ephemeral-storage": "2Gi"}) == [
        "spec: Forbidden: only cpu and memory resources are mutable"
    ]
    assert resized({"ephemeral-storage": "1Gi"}) == [
        'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
    ]


def terminated_state(code: int, **more: object) -> Object:
    return {"terminated": {"exitCode": code, **more}}


RUNNING: Object = {"running": {}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, ("0/1", "Pending", "0")),
        ({"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted", "0")),
        ({"phase": "Running", "containerStatuses": [{"ready": True, "state": RUNNING}]}, ("1/1", "Running", "0")),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": terminated_state(1, finishedAt="1970-01-01T00:00:00Z"),
                    }
                ],
            },
            ("0/1", "CrashLoopBackOff", "3"),
        ),
        ({"phase": "Succeeded", "containerStatuses": [{"state": terminated_state(0, reason="Completed")}]},
         ("0/1", "Completed", "0")),
        ({"phase": "Failed", "containerStatuses": [{"state": terminated_state(2)}]}, ("0/1", "ExitCode:2", "0")),
        ({"phase": "Failed", "containerStatuses": [{"state": terminated_state(0, signal=9)}]}, ("0/1", "Signal:9",
        "0")),
        ({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": RUNNING}]}, ("0/1", "Init:0/1", "0")),
        ({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": terminated_state(1)}]},
         ("0/1", "Init:ExitCode:1", "0")),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]},
         ("0/1", "Init:ErrImagePull", "0")),
    ],
)  # fmt: skip
def test_a_pod_in_three_words(status: Object, expected: tuple[str, str, str]) -> None:
    spec: Object = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}
    found = summarize_pod({"metadata": {}, "spec": spec, "status": status})
    assert (f"{found.ready}/{found.total}", found.reason, found.restarts_text(0.0)) == expected


def test_the_last_restart_and_the_end() -> None:
    last = terminated_state(1, finishedAt="2026-01-01T00:00:00Z")
    container = {"restartCount": 2, "ready": True, "state": RUNNING, "lastState": last}
    made = {"metadata": {}, "spec": {}, "status": {"phase": "Running", "containerStatuses": [container]}}
    assert summarize_pod(made).restarts_text(1767225600 + 300) == "2 (5m ago)"
    made["metadata"] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert summarize_pod(made).reason == "Terminating"
    made["status"]["reason"] = "NodeLost"
    assert summarize_pod(made).reason == "Unknown"


def test_a_sidecar_counts_as_a_container() -> None:
    spec: Object = {"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]}
    sidecar = {"name": "s", "started": True, "ready": True, "restartCount": 1, "state": RUNNING}
    status = {"phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [{"state": RUNNING}]}
    found = summarize_pod({"metadata": {}, "spec": spec, "status": status})
    assert (found.ready, found.total, found.restarts) == (1, 2, 1)


# --- evictions ---


def budget(**status: object) -> Object:
    return {"metadata": {"name": "b", "generation": 1}, "spec": {}, "status": {"observedGeneration": 1, **status}}


def test_a_budget_is_spent() -> None:
    spent = consume_disruption(budget(disruptionsAllowed=2), "p", "now")
    assert spent["status"] == {"observedGeneration": 1, "disruptionsAllowed": 1, "disruptedPods": {"p": "now"}}
    last = consume_disruption(spent, "q", "then")
    assert last["status"]["disruptionsAllowed"] == 0
    assert last["status"]["conditions"][0]["reason"] == "InsufficientPods"
    with pytest.raises(TooManyRequests) as caught:
        consume_disruption(budget(desiredHealthy=2, currentHealthy=1), "p", "now")
    assert caught.value.causes[0].message == "The disruption budget b needs 2 healthy pods and has 1 currently"
    with pytest.raises(TooManyRequests) as caught:
        consume_disruption(budget(observedGeneration=0), "p", "now")
    assert caught.value.retry_after == 10


def test_who_needs_no_budget() -> None:
    assert can_ignore_pdb(pod())
    running = {"metadata": {}, "status": {"phase": "Running"}}
    assert not can_ignore_pdb(running)
    assert can_ignore_pdb({**running, "metadata": {"deletionTimestamp": "x"}})
    assert is_unhealthy_pod_evictable(running, budget(desiredHealthy=1, currentHealthy=1))
    assert not is_unhealthy_pod_evictable(running, budget(desiredHealthy=2, currentHealthy=1))
    assert not is_unhealthy_pod_evictable(running, budget())
    ready = {**running, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    assert not is_unhealthy_pod_evictable(ready, budget(desiredHealthy=1, currentHealthy=1))


LOST = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
NOT_READY = {"key": "node.kubernetes.io/not-ready", **LOST}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", **LOST}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"key": "x", "operator": "Exists"}], [{"key": "x", "operator": "Exists"}, NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
        ([{**NOT_READY, "tolerationSeconds": 5}], [{**NOT_READY, "tolerationSeconds": 5}, UNREACHABLE]),
        (
            [{"operator": "Exists", "effect": "NoSchedule"}],
            [{"operator": "Exists", "effect": "NoSchedule"}, NOT_READY, UNREACHABLE],
        ),
    ],
)
def test_a_pod_stays_a_while_on_a_lost_node(given: list[Object], wanted: list[Object]) -> None:
    spec: Object = {"tolerations": given}
    pods.add_default_tolerations(spec)
    assert spec["tolerations"] == wanted
    pods.add_default_tolerations(spec)
    assert spec["tolerations"] == wanted
