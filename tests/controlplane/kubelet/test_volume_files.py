"""Tests of files that containers leave for later containers, as far as scripts create and test them."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.client.reflector import Key
from shoal.clock import rfc3339
from shoal.controlplane.kubelet.decide import KubeletDecision, decide_pod
from shoal.controlplane.kubelet.stages import default_stages
from shoal.controlplane.kubelet.volume_files import VolumeFiles
from tests.controlplane.kubelet.samples import NOW, pod, ready_node

Object = dict[str, Any]

POD: Key = ("root", "default", "p")
NODE: Key = ("root", "", "n")
ONCE = "if [[ -r /data/foo-$I ]]; then exit 0; else touch /data/foo-$I; exit 42; fi"
HOST = {"hostPath": {"path": "/tmp/x"}}


def script_pod(volume: Object, uid: str = "u", script: str = ONCE, **mount: object) -> Object:
    container: Object = {"name": "c", "image": "x", "command": ["sh", "-c"], "args": [script]}
    container["env"] = [{"name": "I", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['index']"}}}]
    container["volumeMounts"] = [{"name": "v", "mountPath": "/data", **mount}]
    made = pod(restartPolicy="OnFailure", containers=[container], volumes=[{"name": "v", **volume}])
    made["metadata"] |= {"uid": uid, "labels": {"index": "7"}}
    return made


def with_restarts(obj: Object, times: int = 1) -> Object:
    return {**obj, "status": {"containerStatuses": [{"name": "c", "restartCount": times}]}}


def code(disks: VolumeFiles, obj: Object, key: Key = POD, node: Key = NODE) -> int | None:
    found = disks.container_outcome(key, node, obj)
    return found.exit_code if found is not None else None


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, HOST])
def test_a_container_that_is_started_again_finds_its_file(volume: Object) -> None:
    disks, mine = VolumeFiles(), script_pod(volume)
    assert [code(disks, mine), code(disks, mine)] == [42, 42], "asked again, it is the same run"
    assert code(disks, with_restarts(mine)) == 0


def test_a_disk_of_the_node_outlives_the_pod_and_one_of_the_pod_does_not() -> None:
    for volume, second in (({"emptyDir": {}}, 42), (HOST, 0)):
        disks = VolumeFiles()
        assert code(disks, script_pod(volume)) == 42
        disks.forget_pod(POD)
        assert code(disks, script_pod(volume, uid="w")) == second


def test_nodes_have_disks_of_their_own() -> None:
    disks = VolumeFiles()
    assert code(disks, script_pod(HOST)) == 42
    assert code(disks, script_pod(HOST, uid="w"), ("root", "default", "q"), ("root", "", "other")) == 42
    disks.forget_node(NODE)
    assert code(disks, script_pod(HOST, uid="w"), ("root", "default", "r")) == 42


@pytest.mark.parametrize(
    ("volume", "mount"),
    [
        ({"configMap": {"name": "c"}}, {}),
        ({"persistentVolumeClaim": {"claimName": "c"}}, {}),
        (HOST, {"readOnly": True}),
        (HOST, {"subPath": "a"}),
        (HOST, {"mountPath": "/other"}),
    ],
)
def test_nobody_knows_what_is_on_other_volumes(volume: Object, mount: Object) -> None:
    assert code(VolumeFiles(), script_pod(volume, **mount)) is None


def on(obj: Object, now: float) -> KubeletDecision:
    ending, stages = VolumeFiles().container_outcome(POD, NODE, obj), default_stages()
    return decide_pod(obj, ready_node(), stages, outcome=ending, address="10.0.0.1", now=now, now_rfc3339=rfc3339(now))


def with_deletion(obj: Object, grace: int) -> Object:
    going = {"deletionTimestamp": rfc3339(NOW + grace), "deletionGracePeriodSeconds": grace, "finalizers": ["a/b"]}
    return {**obj, "metadata": {**obj["metadata"], **going}}


@pytest.mark.parametrize(
    ("script", "grace", "after", "code"),
    [
        ("trap 'sleep 5; exit 7' TERM; while true; do sleep 1; done", 30, 5, 7),
        ("trap 'sleep 5; exit 7' TERM; while true; do sleep 1; done", 3, 3, 137),
        ("trap '' TERM; sleep 1000", 30, 30, 137),
        ("trap 'exit 0' TERM; sleep 1000", 30, 0, 0),
        ("sleep 1000", 30, 0, 143),
    ],
)
def test_a_container_that_traps_its_end_takes_its_time(script: str, grace: int, after: int, code: int) -> None:
    mine = script_pod(HOST, script=script)
    mine = with_deletion({**mine, "status": on(mine, NOW).status}, grace)
    if after:
        assert on(mine, NOW + after - 1) == KubeletDecision("in-the-trap", requeue_at=NOW + after)
    done = on(mine, NOW + after)
    assert done.force_delete
    assert done.status is not None
    assert done.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    assert done.status["phase"] == ("Failed" if code else "Succeeded")
    waiting = with_deletion(script_pod(HOST, script=script), grace)
    assert on(waiting, NOW).force_delete, "what never ran has nothing to trap"


def test_a_container_may_have_a_restart_policy_of_its_own() -> None:
    mine = script_pod(HOST, script="sleep 3; exit 1")
    mine["spec"]["restartPolicy"] = "Never"
    ended = on({**mine, "status": on(mine, NOW).status}, NOW + 3).status
    assert ended is not None
    assert ended["phase"] == "Failed"
    mine["spec"]["containers"][0]["restartPolicy"] = "OnFailure"
    ended = on({**mine, "status": on(mine, NOW).status}, NOW + 3).status
    assert ended is not None
    assert ended["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
