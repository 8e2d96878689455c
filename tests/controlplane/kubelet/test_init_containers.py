"""Tests of init containers: sequential runs and restart backoff."""

from __future__ import annotations

from typing import Any

from shoal.clock import rfc3339
from shoal.controlplane.kubelet.container_runtime import predict_outcome
from shoal.controlplane.kubelet.decide import decide_pod
from shoal.controlplane.kubelet.init_containers import current_init_container
from shoal.controlplane.kubelet.stages import default_stages
from shoal.kinds.core.pod.printer import summarize_pod
from shoal.objects.conditions import get_condition
from tests.controlplane.kubelet.samples import NOW, pod, ready_node

Object = dict[str, Any]


def container(name: str, *command: str, **more: object) -> Object:
    return {"name": name, "image": "busybox", **({"command": list(command)} if command else {}), **more}


class Kubelet:
    """Looks at one pod whenever it has changed or wants to be looked at."""

    def __init__(self, obj: Object) -> None:
        self.pod, self.now, self.writes = obj, NOW, 0

    def until(self, now: float) -> str:
        """What kubectl shows then."""
        while True:
            initial = current_init_container(self.pod, predict_outcome)
            found = decide_pod(
                self.pod,
                ready_node(),
                default_stages(),
                outcome=predict_outcome(self.pod) if initial is None else None,
                init_container=initial,
                address="10.0.0.1",
                now=self.now,
                now_rfc3339=rfc3339(self.now),
            )
            if found.status is not None:
                self.pod, self.writes = {**self.pod, "status": found.status}, self.writes + 1
            elif found.requeue_at is not None and found.requeue_at <= NOW + now:
                self.now = found.requeue_at
            else:
                self.now = NOW + now
                return summarize_pod(self.pod).reason

    def initial(self, index: int) -> Object:
        found: Object = self.pod["status"]["initContainerStatuses"][index]
        return found


def test_what_takes_no_time_takes_no_write() -> None:
    mine = Kubelet(pod(initContainers=[container("a"), container("b", "true"), container("c", "setup", "--all")]))
    assert mine.until(0) == "Running"
    assert mine.writes == 1
    assert [mine.initial(index)["ready"] for index in range(3)] == [True, True, True]


def test_one_after_another_beside_a_sidecar() -> None:
    side = container("side", "sleep", "1000", restartPolicy="Always")
    mine = Kubelet(pod(initContainers=[container("a", "sleep", "5"), side, container("b", "sleep", "3")]))
    assert mine.until(4) == "Init:0/3"
    assert "running" in mine.initial(0)["state"]
    assert mine.initial(1)["state"] == mine.initial(2)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert mine.pod["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert mine.pod["status"]["podIP"] == "10.0.0.1"
    said = get_condition(mine.pod, "Initialized") or {}
    assert (said["status"], said["reason"]) == ("False", "ContainersNotInitialized")
    assert said["message"] == "containers with incomplete status: [a side b]"
    assert mine.until(7) == "Init:2/3"
    assert mine.initial(0)["state"]["terminated"]["reason"] == "Completed"
    assert "running" in mine.initial(1)["state"]
    assert (get_condition(mine.pod, "Initialized") or {})["message"] == "containers with incomplete status: [b]"
    assert mine.until(8) == "Running"
    assert (get_condition(mine.pod, "Initialized") or {})["status"] == "True"
    assert mine.pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] == rfc3339(NOW + 8)
    assert mine.writes == 5, "a start and an end of each, and the pod"


def test_a_failure_is_tried_again_later_and_later() -> None:
    mine = Kubelet(pod(initContainers=[container("a", "sh", "-c", "sleep 2; exit 7"), container("b")]))
    assert mine.until(1) == "Init:0/2"
    assert mine.until(2) == "Init:CrashLoopBackOff"
    assert mine.initial(0)["lastState"]["terminated"]["exitCode"] == 7
    assert mine.until(11) == "Init:CrashLoopBackOff"
    assert (mine.until(12), mine.initial(0)["restartCount"]) == ("Init:0/2", 1)
    assert mine.until(14 + 19) == "Init:CrashLoopBackOff"
    assert (mine.until(14 + 20), mine.initial(0)["restartCount"]) == ("Init:0/2", 2)


def test_a_failure_of_what_is_not_to_be_restarted_is_that_of_the_pod() -> None:
    side = container("side", restartPolicy="Always")
    mine = Kubelet(pod(initContainers=[side, container("a", "false"), container("b")], restartPolicy="Never"))
    assert mine.until(0) == "Init:Error"
    assert mine.pod["status"]["phase"] == "Failed"
    assert mine.initial(1)["state"]["terminated"]["exitCode"] == 1
    assert "terminated" in mine.initial(0)["state"]
    assert mine.initial(2)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert mine.until(600) == "Init:Error"


def test_an_init_container_that_never_ends() -> None:
    mine = Kubelet(pod(initContainers=[container("a", "sleep", "infinity")]))
    assert mine.until(100_000) == "Init:0/1"
    assert mine.writes == 1


def test_an_annotation_decides_for_the_whole_pod() -> None:
    assert Kubelet(pod("fail", initContainers=[container("a", "sleep", "5")])).until(0) == "Error"


def test_what_always_runs_is_started_again() -> None:
    mine = Kubelet(pod(containers=[container("c", "sleep", "5")]))
    assert mine.until(4) == "Running"
    assert mine.until(5) == "CrashLoopBackOff"
    (status,) = mine.pod["status"]["containerStatuses"]
    assert status["lastState"]["terminated"]["reason"] == "Completed"
    assert mine.until(15) == "Running"
    (status,) = mine.pod["status"]["containerStatuses"]
    assert status["restartCount"] == 1
    assert mine.until(20 + 19) == "CrashLoopBackOff"
    assert mine.until(20 + 20) == "Running"


def test_what_ran_for_long_is_forgiven() -> None:
    mine = Kubelet(pod(containers=[container("c", "sleep", "1000")]))
    for turn in range(4):
        assert mine.until(turn * 1010 + 1000) == "CrashLoopBackOff"
        assert mine.until((turn + 1) * 1010) == "Running"
