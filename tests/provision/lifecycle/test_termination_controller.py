"""Node termination on a fake clock: eviction order, and what delays the instance."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import GroupVersionResource
from shoal.clock import rfc3339
from shoal.objects.conditions import condition_is
from shoal.objects.duration import parse_time
from shoal.objects.errors import NotFound
from shoal.provision.lifecycle.termination import controller as termination
from shoal.provision.metrics import (
    NODECLAIMS_DISRUPTED,
    NODECLAIMS_TERMINATED,
    NODES_DRAINED,
    NODES_TERMINATED,
    PODS_DRAINED,
    PODS_EVICTION_REQUESTS,
)
from shoal.provision.state import NODE_CLAIMS, NODES
from tests.provision.lifecycle.objects import names
from tests.provision.lifecycle.stage import CLUSTER, Object, Stage, stage

ATTACHMENTS = GroupVersionResource("storage.k8s.io", "v1", "volumeattachments", namespaced=False)
DAEMON = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]
}
CRITICAL: Any = {"priorityClassName": "system-node-critical"}


async def all_asked(on: Stage, *wanted: str) -> list[Object]:
    async def look() -> list[Object]:
        found = await on.going()
        return found if names(found) == sorted(wanted) else []

    return await on.until(look, step=0.5)


async def asked(on: Stage, name: str) -> Object:
    """Whoever else is: time goes on while it is waited for."""

    async def look() -> Object | None:
        return next((pod for pod in await on.going() if pod["metadata"]["name"] == name), None)

    found = await on.until(look, step=0.5)
    assert found is not None
    return found


@pytest.mark.anyio
async def test_pods_leave_in_order_then_the_machine_goes_then_the_node(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        drained = PODS_DRAINED.value(CLUSTER, reason="Forceful Termination")
        ended = [NODECLAIMS_TERMINATED.value(CLUSTER, nodepool="", capacity_type="spot", zone="a")]
        ended += [NODES_TERMINATED.value(CLUSTER, nodepool="", zone="a"), NODES_DRAINED.value(CLUSTER, nodepool="")]
        _, node = await on.ready()
        await on.pod("critical-daemon", node, metadata=DAEMON, **CRITICAL)
        await on.pod("critical", node, priorityClassName="system-cluster-critical")
        await on.pod("daemon", node, metadata=DAEMON)
        await on.pod("plain", node)
        await on.pod("tolerant", node, tolerations=[{"operator": "Exists"}])
        await on.delete()
        for name in ("plain", "daemon", "critical", "critical-daemon"):
            (pod,) = await all_asked(on, name)
            assert on.cloud.machines, "the machine is there while pods are"
            await on.reap(pod)
        marked = await on.client.get(NODES, node["metadata"]["name"])
        assert {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"} in marked["spec"]["taints"]
        label = "node.kubernetes.io/exclude-from-external-load-balancers"
        assert marked["metadata"]["labels"][label] == "karpenter"
        await on.until(on.all_gone, step=0.5)
        assert sorted(await on.until(lambda: _all(on, "Evicted", 4))) == ["Evicted pod: Forceful Termination"] * 4
        assert PODS_DRAINED.value(CLUSTER, reason="Forceful Termination") == drained + 4
        now = [NODECLAIMS_TERMINATED.value(CLUSTER, nodepool="", capacity_type="spot", zone="a")]
        now += [NODES_TERMINATED.value(CLUSTER, nodepool="", zone="a"), NODES_DRAINED.value(CLUSTER, nodepool="")]
        assert now == [each + 1 for each in ended]


async def _all(on: Stage, reason: str, count: int) -> list[str]:
    found = await on.events(reason)
    return found if len(found) == count else []


@pytest.mark.anyio
async def test_a_deleted_node_takes_its_claim_along_and_is_drained_all_the_same(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        _, node = await on.ready()
        await on.pod("plain", node)
        await on.client.delete(NODES, node["metadata"]["name"])
        (pod,) = await all_asked(on, "plain")
        assert "deletionTimestamp" in (await on.client.get(NODE_CLAIMS, "one"))["metadata"]
        await on.reap(pod)
        await on.until(on.all_gone, step=0.5)


@pytest.mark.anyio
async def test_nobody_leaves_in_less_than_five_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "MIN_DRAIN_SECONDS", 5.0)
    async with stage(tmp_path) as on:
        _, node = await on.ready()
        await on.delete()
        await on.when("one", "Drained", "Unknown")
        # A scheduler that had not seen the taint.
        await on.pod("late", node)
        (pod,) = await all_asked(on, "late")
        await on.reap(pod)
        on.clock.step(1)
        await asyncio.sleep(0.05)
        assert on.cloud.machines
        await on.until(on.all_gone, step=1.0)


@pytest.mark.anyio
async def test_a_budget_holds_a_pod_until_the_grace_of_its_node_ends(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        refused = PODS_EVICTION_REQUESTS.value(CLUSTER, code="429")
        claim, node = await on.ready(terminationGracePeriod="300s")
        await on.pod("held", node, grace=60, metadata={"labels": {"app": "held"}})
        await on.pod("precious", node, grace=10, metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
        await on.pod("last", node, grace=30, **CRITICAL)
        await on.budget("held", {"app": "held"})
        began = on.clock.now()
        await on.delete()
        until = rfc3339(began + 300)
        said = await on.until(lambda: on.events("TerminationGracePeriodExpiring"))
        assert set(said) == {f"All pods will be deleted by {until}"}
        claim = await on.client.get(NODE_CLAIMS, "one")
        assert claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"] == until

        async def failing() -> bool:
            found = await on.events("FailedDraining")
            return any("pod default/held: " in each for each in found)

        await on.until(failing)
        on.clock.step(238)
        await asyncio.sleep(0.05)
        assert await on.going() == []
        on.clock.step(3)
        held = await asked(on, "held")
        assert held["metadata"]["deletionGracePeriodSeconds"] <= 60
        on.clock.step(30)
        await asked(on, "last")
        on.clock.step(20)
        precious = await asked(on, "precious")
        assert (parse_time(precious["metadata"]["deletionTimestamp"]) or 0.0) <= began + 301
        (event, *_) = await on.until(lambda: on.events("Disrupted"))
        assert until in event
        assert on.cloud.machines
        for pod in await on.going():
            await on.reap(pod)
        await on.until(on.all_gone, step=0.5)
        assert PODS_EVICTION_REQUESTS.value(CLUSTER, code="429") > refused


@pytest.mark.anyio
async def test_a_pod_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        _, node = await on.ready()
        await on.pod("stuck", node)
        await on.delete()
        await all_asked(on, "stuck")
        on.clock.step(80)
        await asyncio.sleep(0.05)
        assert on.cloud.machines
        on.clock.step(15)
        await on.until(on.all_gone, step=0.5)


@pytest.mark.anyio
@pytest.mark.parametrize("grace", [None, "60s"])
async def test_volumes_are_detached_before_the_machine_goes(tmp_path: Path, grace: str | None) -> None:
    async with stage(tmp_path) as on:
        _, node = await on.ready(**({"terminationGracePeriod": grace} if grace else {}))
        source = {"persistentVolumeName": "data"}
        spec = {"attacher": "csi.example.com", "nodeName": node["metadata"]["name"], "source": source}
        body = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": "data"},
            "spec": spec,
        }
        await on.client.create(ATTACHMENTS, body)
        await on.delete()

        async def waiting() -> bool:
            return await on.reason("one", "VolumesDetached") == "AwaitingVolumeDetachment"

        await on.until(waiting, step=0.5)
        (said,) = await on.until(lambda: on.events("AwaitingVolumeDetachment"))
        assert said == "Awaiting deletion of bound volumeattachments (data)"
        assert condition_is(await on.client.get(NODE_CLAIMS, "one"), "Drained")
        assert on.cloud.machines
        if grace is None:
            await on.client.delete(ATTACHMENTS, "data")
        else:
            on.clock.step(60)
        await on.until(on.all_gone, step=0.5)


@pytest.mark.anyio
async def test_a_machine_that_takes_its_time_is_waited_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        claim, node = await on.ready()
        on.cloud.slow = True
        await on.delete()
        found = await on.when("one", "InstanceTerminating")
        assert condition_is(found, "Drained")
        assert condition_is(found, "VolumesDetached")
        assert not await on.gone(NODES, node["metadata"]["name"])
        on.cloud.machines.clear()
        on.cloud.tell(claim["metadata"]["name"])
        await on.until(on.all_gone)


@pytest.mark.anyio
async def test_a_machine_that_vanished_takes_its_claim_along_unless_its_node_lives(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        before = _garbage()
        _, node = await on.ready()
        await on.pod("plain", node)
        on.cloud.machines.clear()
        on.cloud.tell("one")
        on.clock.step(300)
        await asyncio.sleep(0.05)
        assert not await on.gone(NODE_CLAIMS, "one"), "a kubelet reports: the provider is wrong"
        await on.report(node["metadata"]["name"], "False")
        await on.until(on.all_gone, step=0.5)
        assert await on.going() == [], "nobody is asked to leave a machine that is not there"
        assert _garbage() == before + 1


@pytest.mark.anyio
async def test_a_machine_nobody_told_of_is_missed_within_two_minutes(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        before = _garbage()
        _, node = await on.ready()
        await on.report(node["metadata"]["name"], "False")
        on.clock.step(10)
        await asyncio.sleep(0.05)
        on.cloud.machines.clear()
        await on.until(on.all_gone, step=5.0)
        assert _garbage() == before + 1


def _garbage() -> float:
    return NODECLAIMS_DISRUPTED.value(CLUSTER, reason="garbage_collected", nodepool="", capacity_type="spot")


@pytest.mark.anyio
async def test_a_machine_that_is_going_takes_its_claim_along(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        claim, _ = await on.ready()
        on.cloud.slow = True
        await on.cloud.delete(CLUSTER, claim)
        on.cloud.slow = False
        on.cloud.tell("one")
        await on.until(on.all_gone, step=0.5)


@pytest.mark.anyio
async def test_a_node_whose_claim_is_nowhere_is_drained_and_goes(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        _, node = await on.ready()
        await on.pod("plain", node)
        on.cloud.machines.clear()
        await on.client.merge_patch(NODE_CLAIMS, "one", {"metadata": {"finalizers": None}})
        await _deleted(on, "one")
        await on.client.delete(NODES, node["metadata"]["name"])
        (pod,) = await all_asked(on, "plain")
        await on.reap(pod)
        await on.until(on.all_gone, step=0.5)


async def _deleted(on: Stage, name: str) -> None:
    """Without the loop putting its finalizer back in between."""

    async def look() -> Any:
        try:
            await on.client.delete(NODE_CLAIMS, name)
            await on.client.merge_patch(NODE_CLAIMS, name, {"metadata": {"finalizers": None}})
        except NotFound:
            return True
        return await on.gone(NODE_CLAIMS, name)

    await on.until(look)


@pytest.mark.anyio
async def test_an_ill_node_is_replaced_unless_too_many_are(tmp_path: Path) -> None:
    async with stage(tmp_path, repair=True) as on:
        for name in ("one", "two", "three"):
            _, node = await on.ready(name)
        await on.pod("held", node, grace=600, metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
        for name in ("two", "three"):
            await on.report(f"node-{name}", "False")
        on.clock.step(601)
        said = await on.until(lambda: on.events("NodeRepairBlocked"))
        assert set(said) == {"more than 20% nodes are unhealthy in the cluster"}
        assert len(on.cloud.machines) == 3
        await on.report("node-two", "True")
        on.clock.step(301)
        (pod,) = await all_asked(on, "held")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 1, "nothing is left of its node's patience"
        await on.reap(pod)
        await on.until(lambda: on.gone(NODE_CLAIMS, "three"), step=0.5)
        assert len(on.cloud.machines) == 2
