"""Tests of the simulated kubelet's decisions for a node or pod at a given time."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.controlplane.kubelet.container_runtime import predict_outcome
from shoal.controlplane.kubelet.decide import KubeletDecision, decide_node, decide_pod
from shoal.controlplane.kubelet.stages import default_stages
from shoal.objects.conditions import get_condition
from tests.controlplane.kubelet.samples import NOW, STAMP, VERSION, ago, node, pod, ready_node

Object = dict[str, Any]
STAGES = default_stages()
ADDRESS = "10.128.0.7"


def on(obj: Object, now: float = NOW, home: Object | None = None) -> KubeletDecision:
    ending, stamp = predict_outcome(obj), rfc3339(now)
    return decide_pod(obj, home or ready_node(), STAGES, outcome=ending, address=ADDRESS, now=now, now_rfc3339=stamp)


def of(obj: Object, now: float = NOW) -> KubeletDecision:
    return decide_node(obj, STAGES, version=VERSION, address="172.16.0.9", now=now, now_rfc3339=rfc3339(now))


def after(obj: Object, now: float = NOW) -> Object:
    """The object with the status that was decided."""
    status = on(obj, now).status
    assert status is not None
    return {**obj, "status": status}


def conditions(obj: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in obj["status"]["conditions"]}


def state(obj: Object) -> Object:
    found: Object = obj["status"]["containerStatuses"][0]["state"]
    return found


# --- nodes ---


def test_a_new_node_is_ready_at_once_and_says_what_it_has() -> None:
    made = of(node())
    assert made.stage == "ready"
    assert made.status is not None
    assert conditions({"status": made.status}) == {
        "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "NetworkUnavailable": "False",
        "Ready": "True",
    }  # fmt: skip
    assert made.status["capacity"] == {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    assert made.status["allocatable"] == made.status["capacity"]
    assert made.status["nodeInfo"]["kubeletVersion"] == VERSION
    assert made.status["addresses"][0] == {"type": "InternalIP", "address": "172.16.0.9"}
    assert of({**node(), "status": made.status}, NOW + 3600) == KubeletDecision("ready"), "nothing to write twice"


def test_a_node_keeps_what_it_says_itself() -> None:
    given = node(
        capacity={"cpu": "16", "nvidia.com/gpu": "2"}, addresses=[{"type": "InternalIP", "address": "1.2.3.4"}]
    )
    given["metadata"]["labels"]["kubernetes.io/arch"] = "arm64"
    made = of(given).status
    assert made is not None
    assert (made["capacity"]["cpu"], made["allocatable"]["nvidia.com/gpu"], made["capacity"]["pods"]) == (
        "16", "2", "110",
    )  # fmt: skip
    assert made["addresses"] == given["status"]["addresses"]
    assert made["nodeInfo"]["architecture"] == "arm64"


def test_a_version_of_the_cluster_is_a_version_of_its_kubelets() -> None:
    running = {**node(), "status": of(node()).status}
    made = decide_node(running, STAGES, version="v1.37.0", address="", now=NOW, now_rfc3339=STAMP)
    assert made.status is not None
    assert made.status["nodeInfo"]["kubeletVersion"] == "v1.37.0"


def test_a_node_with_a_machine_keeps_its_kubelet_until_it_is_replaced() -> None:
    running = {**node(), "spec": {"providerID": "embedded://a/b"}, "status": of(node()).status}
    made = decide_node(running, STAGES, version="v1.37.0", address="", now=NOW, now_rfc3339=STAMP)
    assert made.status is None or made.status["nodeInfo"]["kubeletVersion"] == VERSION


def test_a_node_may_take_its_time() -> None:
    slow = node(annotations={"shoal.dev/startup-delay": "1m30s"})
    first = of(slow, NOW + 1)
    assert (first.stage, first.requeue_at) == ("starting", NOW + 90)
    assert first.status is not None
    assert get_condition({"status": first.status}, "Ready") == {
        "type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "node is starting",
        "lastHeartbeatTime": "2023-11-14T22:13:21Z", "lastTransitionTime": "2023-11-14T22:13:21Z",
    }  # fmt: skip
    waiting = {**slow, "status": first.status}
    assert of(waiting, NOW + 89) == KubeletDecision("starting", requeue_at=NOW + 90)
    assert of(waiting, NOW + 90).stage == "ready"
    assert of(node(annotations={"shoal.dev/startup-delay": "soon"})).stage == "ready"


@pytest.mark.parametrize(
    ("simulate", "kind", "status"),
    [
        ("not-ready", "Ready", "Unknown"),
        ("not-ready", "DiskPressure", "Unknown"),
        ("runtime-down", "Ready", "False"),
        ("memory-pressure", "MemoryPressure", "True"),
        ("memory-pressure", "Ready", "True"),
        ("something else", "Ready", "True"),
    ],
)
def test_troubles_of_a_node(simulate: str, kind: str, status: str) -> None:
    healthy = {**node(annotations={"shoal.dev/simulate": simulate}), "status": of(node()).status}
    decided = of(healthy, NOW + 5)
    found = get_condition({"status": decided.status or healthy["status"]}, kind)
    assert found is not None
    assert found["status"] == status
    assert (decided.status is None) == (simulate == "something else")


# --- pods that run ---


def test_one_step_from_pending_to_ready() -> None:
    decision = on(pod(initContainers=[{"name": "i", "image": "x"}]))
    assert (decision.stage, decision.force_delete, decision.requeue_at) == ("run", False, None)
    status = decision.status
    assert status is not None
    assert (status["phase"], status["podIP"], status["hostIP"], status["startTime"]) == (
        "Running", ADDRESS, "172.16.0.9", STAMP,
    )  # fmt: skip
    assert conditions({"status": status}) == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True"
    )
    [container], [first] = status["containerStatuses"], status["initContainerStatuses"]
    assert container["state"] == {"running": {"startedAt": STAMP}}
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert container["imageID"].startswith("nginx@sha256:")
    assert container["containerID"].startswith("shoal://")
    assert (first["state"]["terminated"]["reason"], first["ready"], first["started"]) == ("Completed", True, False)


def test_a_pod_that_is_as_it_should_be_is_left_alone() -> None:
    assert on(after(pod()), NOW + 3600) == KubeletDecision("run")


def test_nothing_happens_on_a_node_that_is_not_ready() -> None:
    going = pod()
    going["metadata"] |= {"deletionTimestamp": STAMP, "deletionGracePeriodSeconds": 30}
    for status in ("False", "Unknown"):
        assert on(pod(), home=ready_node(status)) == KubeletDecision()
        assert on(going, home=ready_node(status)) == KubeletDecision()
    assert on(pod(), home=node()) == KubeletDecision()


def test_sidecars_run_beside_the_others_and_end_with_them() -> None:
    side = {"name": "s", "image": "x", "restartPolicy": "Always"}
    running = after(pod(initContainers=[side], restartPolicy="Never", owner="Job"))
    assert "running" in running["status"]["initContainerStatuses"][0]["state"]
    done = after(running, NOW + 1)
    assert done["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_pod_on_the_host_network_has_the_address_of_its_node() -> None:
    assert after(pod(hostNetwork=True))["status"]["podIP"] == "172.16.0.9"


def test_readiness_gates_are_waited_for() -> None:
    gated = after(pod(readinessGates=[{"conditionType": "example.com/in"}]))
    assert (conditions(gated)["Ready"], conditions(gated)["ContainersReady"]) == ("False", "True")
    ready = get_condition(gated, "Ready")
    assert ready is not None
    assert ready["reason"] == "ReadinessGatesNotReady"
    assert ready["message"] == 'corresponding condition of pod readiness gate "example.com/in" does not exist.'
    gated["status"]["conditions"].append({"type": "example.com/in", "status": "True"})
    opened = after(gated, NOW + 5)
    assert conditions(opened)["Ready"] == "True"
    assert conditions(opened)["example.com/in"] == "True"


def test_what_somebody_else_wrote_of_readiness_is_put_right() -> None:
    running = after(pod())
    running["status"]["conditions"] = [
        {**each, "status": "False"} if each["type"] == "Ready" else each for each in running["status"]["conditions"]
    ]
    assert conditions(after(running, NOW + 5))["Ready"] == "True"


def test_a_change_of_the_spec_is_seen() -> None:
    running = after(pod())
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    running["metadata"] = {**running["metadata"], "generation": 2}
    running["spec"] = {**running["spec"], "containers": [{"name": "c", "image": "nginx:1", "resources": resources}]}
    seen = after(running, NOW + 5)["status"]
    assert seen["observedGeneration"] == 2
    assert seen["containerStatuses"][0]["resources"] == resources
    assert seen["containerStatuses"][0]["allocatedResources"] == {"cpu": "1"}
    assert seen["containerStatuses"][0]["state"] == running["status"]["containerStatuses"][0]["state"]


# --- pods that end ---


@pytest.mark.parametrize(
    ("owner", "policy", "simulate", "ends"),
    [
        ("Job", "Never", "", True),
        ("Job", "OnFailure", "", True),
        ("Job", "Always", "", False),
        ("ReplicaSet", "Always", "", False),
        ("", "Never", "", False),
        ("", "Never", "complete", True),
    ],
)
def test_who_completes(owner: str, policy: str, simulate: str, ends: bool) -> None:
    running = after(pod(simulate, owner=owner, restartPolicy=policy))
    assert on(running).requeue_at == (NOW + 1 if ends else None)
    later = on(running, NOW + 1)
    assert (later.status is not None) == ends
    if later.status is not None:
        assert later.status["phase"] == "Succeeded"
        assert later.status["containerStatuses"][0]["state"]["terminated"] == {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": STAMP,
            "finishedAt": "2023-11-14T22:13:21Z",
            "containerID": running["status"]["containerStatuses"][0]["containerID"],
        }
        ready = get_condition({"status": later.status}, "Ready")
        assert ready is not None
        assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")
        assert on({**running, "status": later.status}, NOW + 60) == KubeletDecision(), "what has ended stays so"


def test_a_job_says_how_long_it_takes() -> None:
    running = after(pod(owner="Job", restartPolicy="Never"))
    running["metadata"]["annotations"]["shoal.dev/run-for"] = "10m"
    assert on(running, NOW + 599) == KubeletDecision("run", requeue_at=NOW + 600)
    assert on(running, NOW + 600).stage == "complete-job"


@pytest.mark.parametrize(("finalizers", "status"), [([], None), (["batch.kubernetes.io/job-tracking"], "Failed")])
def test_a_deleted_pod_goes_at_once(finalizers: list[str], status: str | None) -> None:
    going = after(pod())
    going["metadata"] |= {"deletionTimestamp": STAMP, "deletionGracePeriodSeconds": 30, "finalizers": finalizers}
    decision = on(going)
    assert (decision.stage, decision.force_delete) == ("delete", True)
    assert (decision.status or {}).get("phase") == status
    going["metadata"]["deletionGracePeriodSeconds"] = 0
    assert not on(going).force_delete, "it was deleted for good already; a finalizer holds it"


def test_a_pod_may_take_all_the_time_it_was_given() -> None:
    going = after(pod("slow-stop"))
    going["metadata"] |= {"deletionTimestamp": ago(-30), "deletionGracePeriodSeconds": 30}
    assert on(going) == KubeletDecision("stopping", requeue_at=NOW + 30)
    assert on(going, NOW + 30).force_delete


def test_a_pod_that_is_given_more_time_than_it_asks_for_is_seen_ending() -> None:
    going = after(pod())
    going["metadata"] |= {"deletionTimestamp": ago(-60), "deletionGracePeriodSeconds": 60}
    assert on(going) == KubeletDecision("stopping-watched", requeue_at=NOW + 2)
    assert on(going, NOW + 2).force_delete
    going["spec"]["terminationGracePeriodSeconds"] = 60
    assert on(going).force_delete, "its own time is not waited for"


# --- alternatives ---


def test_crashes_back_off_longer_each_time() -> None:
    running, now = after(pod("crash")), NOW
    for restarts, pause in [(0, 10), (1, 20), (2, 40), (3, 80), (4, 160), (5, 300), (6, 300)]:
        assert on(running, now).requeue_at == now + 1
        crashed = after(running, now := now + 1)
        assert state(crashed) == {
            "waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
        }
        assert crashed["status"]["phase"] == "Running"
        assert crashed["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
        assert crashed["status"]["containerStatuses"][0]["restartCount"] == restarts
        assert conditions(crashed)["Ready"] == "False"
        assert on(crashed, now) == KubeletDecision("back-off", requeue_at=now + pause)
        before = running
        running = after(crashed, now := now + pause)
        assert running["status"]["containerStatuses"][0]["restartCount"] == restarts + 1
        assert (
            running["status"]["containerStatuses"][0]["containerID"]
            != before["status"]["containerStatuses"][0]["containerID"]
        )


def test_a_crash_that_is_not_to_be_repeated_fails_the_pod() -> None:
    failed = after(after(pod("crash", restartPolicy="Never")), NOW + 1)
    assert failed["status"]["phase"] == "Failed"
    assert state(failed)["terminated"]["exitCode"] == 1


def test_a_pod_fails() -> None:
    failed = after(pod("fail"))
    assert failed["status"]["phase"] == "Failed"
    assert state(failed)["terminated"]["reason"] == "Error"
    assert on(failed, NOW + 60) == KubeletDecision()


def test_a_slow_start() -> None:
    slow = pod("slow-start", initContainers=[{"name": "i", "image": "x"}])
    decision = on(slow)
    assert decision.stage == "creating"
    assert decision.requeue_at is not None
    assert NOW + 10 <= decision.requeue_at < NOW + 15
    creating = after(slow)
    assert state(creating) == {"waiting": {"reason": "ContainerCreating"}}
    assert conditions(creating)["Initialized"] == "False"
    assert "podIP" not in creating["status"]
    assert on(creating, NOW + 5) == KubeletDecision("creating", requeue_at=decision.requeue_at)
    assert conditions(after(creating, NOW + 15))["Ready"] == "True"


def test_an_image_that_cannot_be_pulled_until_it_can() -> None:
    stuck = after(pod("image-pull"))
    assert stuck["status"]["phase"] == "Pending"
    assert state(stuck)["waiting"]["reason"] == "ImagePullBackOff"
    assert on(stuck, NOW + 60) == KubeletDecision("cannot-pull")
    stuck["metadata"]["annotations"] = {}
    assert after(stuck, NOW + 60)["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.parametrize("image", ["foo:non-existent", "registry.example.com:5000/web/server:404"])
def test_some_images_nobody_has(image: str) -> None:
    mine = pod()
    mine["spec"]["containers"][0]["image"] = image
    stuck = after(mine)
    assert stuck["status"]["phase"] == "Pending"
    assert state(stuck)["waiting"]["reason"] == "ImagePullBackOff"
    stuck["spec"]["containers"][0]["image"] = "registry.example.com:404/web/server"
    assert after(stuck)["status"]["phase"] == "Running"


def test_a_pod_that_never_gets_ready() -> None:
    unready = after(pod("unready"))
    assert unready["status"]["phase"] == "Running"
    ready = get_condition(unready, "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False", "ContainersNotReady", "containers with unready status: [c]",
    )  # fmt: skip
