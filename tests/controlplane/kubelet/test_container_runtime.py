"""Tests of predicted container outcomes and their effect on pods."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.controlplane.kubelet.container_runtime import predict_outcome
from shoal.controlplane.kubelet.decide import KubeletDecision, decide_pod
from shoal.controlplane.kubelet.shell.interpreter import FOREVER
from shoal.controlplane.kubelet.stages import default_stages
from tests.controlplane.kubelet.samples import NOW, pod, ready_node

Object = dict[str, Any]


def command_pod(*words: str, policy: str = "Never", **container: object) -> Object:
    only = {"name": "c", "image": "x", "command": list(words), **container}
    return pod(restartPolicy=policy, containers=[only])


@pytest.mark.parametrize(
    ("words", "seconds", "code"),
    [
        (["sleep", "30"], 30, 0),
        (["/bin/sleep", "2m"], 120, 0),
        (["sleep", "infinity"], FOREVER, 0),
        (["true"], 0, 0),
        (["/bin/false"], 0, 1),
        (["sh", "-c", "exit 42"], 0, 42),
        (["/bin/sh", "-c", "echo hello world; sleep 5; exit 3; sleep 7"], 5, 3),
        (["bash", "-c", "sleep 1 && sleep 2\nsleep 3"], 6, 0),
        (["sh", "-c", "false && sleep 100 && exit 9; sleep 4"], 4, 0),
        (["sh", "-c", "sleep 4; false"], 4, 1),
    ],
)
def test_plain_commands_are_understood(words: list[str], seconds: float, code: int) -> None:
    found = predict_outcome(command_pod(*words))
    assert found is not None
    assert (found.seconds, found.exit_code) == (seconds, code)


@pytest.mark.parametrize(
    "words",
    [
        ["nginx"], ["sleep"], ["sleep", "1", "2"], ["sleep", "x"], ["sleep", "-1"], ["exit", "1"], ["sh"],
        ["sh", "-c", ""], ["sh", "-c", "exit $RANDOM"], ["sh", "-c", "if true; then exit 1"],
        ["sh", "-c", "sleep 5 &"], ["sh", "-c", "sleep 5 | cat"], ["sh", "-c", "exit 1 'unfinished"],
        ["sh", "-c", "echo $HOME; exit 1"], ["sh", "-c", "sleep 1 > /dev/null"], ["sh", "-c", "exit 256"],
        ["sh", "-x", "sleep 1"],
    ],
)  # fmt: skip
def test_nothing_is_guessed_about_others(words: list[str]) -> None:
    assert predict_outcome(command_pod(*words)) is None


def test_only_a_single_container_is_asked_and_of_those_always_restarted_what_ends() -> None:
    restarted = predict_outcome(command_pod("false", policy="Always"))
    assert restarted is not None
    assert restarted.exit_code == 1
    assert predict_outcome(command_pod("sleep", "infinity", policy="Always")) is None
    two = command_pod("true")
    two["spec"]["containers"].append({"name": "d", "image": "x", "command": ["true"]})
    assert predict_outcome(two) is None
    pausing = predict_outcome(command_pod(image="registry.k8s.io/pause:3.10"))
    assert pausing is not None
    assert pausing.seconds == FOREVER
    assert predict_outcome(command_pod(image="registry.k8s.io/pauses:3.10")) is None
    args = command_pod(args=["sleep", "3"])
    found = predict_outcome(args)
    assert found is not None
    assert found.seconds == 3


def on(obj: Object, now: float = NOW) -> KubeletDecision:
    ending, stages = predict_outcome(obj), default_stages()
    return decide_pod(
        obj, ready_node(), stages, outcome=ending, address="10.128.0.7", now=now, now_rfc3339=rfc3339(now)
    )


def after(obj: Object, now: float = NOW) -> Object:
    status = on(obj, now).status
    assert status is not None
    return {**obj, "status": status}


def terminated_state(obj: Object) -> Object:
    found: Object = obj["status"]["containerStatuses"][0]["state"]["terminated"]
    return found


def test_a_pod_ends_when_and_as_its_command_does() -> None:
    mine = after(command_pod("sh", "-c", "sleep 20; exit 42"))
    assert mine["status"]["phase"] == "Running"
    waiting = on(mine, NOW + 19)
    assert (waiting.status, waiting.requeue_at) == (None, NOW + 20)
    mine = after(mine, NOW + 20)
    assert (mine["status"]["phase"], terminated_state(mine)["exitCode"], terminated_state(mine)["reason"]) == (
        "Failed",
        42,
        "Error",
    )
    good = after(after(command_pod("true")))
    assert (good["status"]["phase"], terminated_state(good)["exitCode"], terminated_state(good)["reason"]) == (
        "Succeeded",
        0,
        "Completed",
    )


def test_the_pod_of_a_job_runs_as_long_as_its_command_says() -> None:
    mine = command_pod("sleep", "1000000")
    mine["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]
    mine = after(mine)
    assert on(mine, NOW + 3600).status is None
    mine["metadata"]["annotations"] = {"shoal.dev/run-for": "5s"}
    assert after(mine, NOW + 5)["status"]["phase"] == "Succeeded"


def test_what_fails_is_tried_again_with_growing_pauses() -> None:
    mine = after(after(command_pod("false", policy="OnFailure")))
    status = mine["status"]["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert on(mine, NOW + 9).requeue_at == NOW + 10
    mine = after(mine, NOW + 10)
    assert mine["status"]["containerStatuses"][0]["restartCount"] == 1
    mine = after(mine, NOW + 10)
    assert on(mine, NOW + 29).requeue_at == NOW + 30


def test_a_pod_is_not_ready_before_somebody_looks() -> None:
    probe = {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 20}
    mine = after(command_pod(policy="Always", readinessProbe=probe))
    status = mine["status"]
    assert (status["phase"], status["containerStatuses"][0]["ready"]) == ("Running", False)
    assert on(mine, NOW + 19).requeue_at == NOW + 20
    mine = after(mine, NOW + 20)
    assert mine["status"]["containerStatuses"][0]["ready"] is True
    assert on(mine, NOW + 40) == KubeletDecision("pass-probe")


def test_a_pod_does_not_live_longer_than_it_may() -> None:
    mine = pod(activeDeadlineSeconds=30)
    mine = after(mine, NOW)
    assert on(mine, NOW + 29).requeue_at == NOW + 30
    mine = after(mine, NOW + 30)
    assert (mine["status"]["phase"], mine["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert mine["status"]["message"] == "Pod was active on the node longer than the specified deadline"
