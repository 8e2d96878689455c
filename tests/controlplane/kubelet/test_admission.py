"""Tests of kubelet admission: pods assigned to a node directly are rejected if they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.controlplane.kubelet.admission import Rejection, admission_failure, needs_admission, rejected_status
from shoal.controlplane.kubelet.informers import NODES, PODS
from shoal.runtime.event_recorder import EVENTS
from tests.controlplane.kubelet.samples import STAMP, node, pod
from tests.controlplane.kubelet.test_kubelet import create, node_is, pod_is
from tests.controlplane.kubelet.test_kubelet import node as simulated
from tests.controlplane.kubelet.test_kubelet import pod as bound
from tests.controlplane.world import world

Object = dict[str, Any]

ROOM = {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "10Gi", "pods": "3", "example.com/gpu": "1"}


def pod_requesting(**requests: str) -> Object:
    named = {name.replace("_", "-"): amount for name, amount in requests.items()}
    return pod(containers=[{"name": "c", "resources": {"requests": named}}])


def on_port(number: int, **more: object) -> Object:
    return pod(containers=[{"name": "c", "ports": [{"hostPort": number, **more}]}])


def failure_of(wanted: Object, *others: Object, on: Object | None = None) -> Rejection | None:
    return admission_failure(wanted, on or node(allocatable=ROOM), list(others))


def test_what_fits_is_taken() -> None:
    assert failure_of(pod_requesting(cpu="2", memory="1Gi")) is None
    assert failure_of(pod(), pod_requesting(cpu="2"), pod_requesting(cpu="2")) is None, (
        "who asks for nothing finds room"
    )
    assert failure_of(on_port(80), on_port(81)) is None


@pytest.mark.parametrize(
    ("wanted", "reason", "said"),
    [
        (pod_requesting(cpu="1500m"), "OutOfcpu", "cpu, requested: 1500, used: 1000, capacity: 2000"),
        (pod_requesting(cpu="9", memory="2Gi"), "OutOfcpu", "cpu, requested: 9000, used: 1000, capacity: 2000"),
        (
            pod_requesting(memory="2Gi"),
            "OutOfmemory",
            "memory, requested: 2147483648, used: 0, capacity: 1073741824",
        ),
        (
            pod_requesting(ephemeral_storage="11Gi"),
            "OutOfephemeral-storage",
            "ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240",
        ),
    ],
)
def test_too_little_of_a_resource(wanted: Object, reason: str, said: str) -> None:
    assert failure_of(wanted, pod_requesting(cpu="1")) == Rejection(reason, f"Node didn't have enough resource: {said}")


def test_too_many_pods_and_extended_resources() -> None:
    full = failure_of(pod(), pod(), pod(), pod())
    assert full == Rejection("OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3")
    two = pod(containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": "2"}}}])
    said = "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1"
    assert failure_of(two) == Rejection("OutOfexample.com/gpu", said)
    unknown = pod(containers=[{"name": "c", "resources": {"requests": {"example.com/elsewhere": "2"}}}])
    assert failure_of(unknown) is None, "somebody else answers for what the node does not know"


def test_ports_labels_taints_and_systems() -> None:
    taken = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    assert failure_of(on_port(80), on_port(80)) == Rejection("NodePorts", taken)
    assert failure_of(on_port(80, protocol="UDP"), on_port(80)) is None
    elsewhere = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    assert failure_of(pod(nodeSelector={"disk": "ssd"})) == Rejection("NodeAffinity", elsewhere)
    tainted = node(allocatable=ROOM)
    tainted["spec"]["taints"] = [{"key": "a", "effect": "NoSchedule"}]
    assert failure_of(pod(), on=tainted) is None, "a kubelet minds only NoExecute"
    tainted["spec"]["taints"].append({"key": "b", "effect": "NoExecute"})
    untolerated = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    assert failure_of(pod(), on=tainted) == Rejection("TaintToleration", untolerated)
    assert failure_of(pod(tolerations=[{"key": "b", "operator": "Exists"}]), on=tainted) is None
    system = "Failed to admit pod as the OS field doesn't match node OS"
    assert failure_of(pod(os={"name": "windows"})) == Rejection("PodOSNotSupported", system)


def test_who_is_looked_at() -> None:
    assert needs_admission(pod())
    scheduled, accepted, going = pod(), pod(), pod()
    scheduled["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    accepted["status"]["startTime"] = STAMP
    going["metadata"]["deletionTimestamp"] = STAMP
    assert not any(map(needs_admission, (scheduled, accepted, going)))


def test_the_status_of_one_that_is_rejected() -> None:
    mine = pod()
    mine["status"]["conditions"] = [{"type": "Ready", "status": "False"}, {"type": "mine", "status": "True"}]
    assert rejected_status(mine, Rejection("OutOfcpu", "why"), STAMP) == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: why",
        "startTime": STAMP,
        "qosClass": "BestEffort",
        "conditions": [{"type": "mine", "status": "True"}],
    }


@pytest.mark.anyio
async def test_of_many_at_once_as_many_run_as_fit(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, simulated())
        await given.eventually(node_is(client))
        container = {"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": "1"}}}
        await create(client, *(bound(f"p{number}", containers=[container]) for number in range(10)))

        async def decided() -> list[str]:
            found = [each["status"]["phase"] for each in (await client.list_all(PODS))[0]]
            return found if "Pending" not in found else []

        found = await given.eventually(decided)
        assert (found.count("Running"), found.count("Failed")) == (4, 6)

        async def told() -> bool:
            return len((await client.list_all(EVENTS, "default"))[0]) == 6

        await given.eventually(told)
        (one, *_), _ = await client.list_all(EVENTS, "default")
        assert (one["type"], one["reason"], one["source"]["component"]) == ("Warning", "OutOfcpu", "kubelet")
        await client.merge_patch(NODES, "n", {"metadata": {"labels": {"disk": "ssd"}}})
        await create(client, bound("labelled", nodeSelector={"disk": "ssd"}))
        await given.eventually(pod_is(client, "Running", "labelled"))
