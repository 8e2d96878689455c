"""Tests of the scheduler's API calls: the pods it handles, its requests, and its reaction to failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest

from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.controlplane.scheduler.controller import Scheduler
from shoal.controlplane.scheduler.round import BATCH
from shoal.objects.errors import Conflict
from tests.controlplane.scheduler.objects import bound, node, pod, seen

Object = dict[str, Any]
BINDING = "POST /clusters/east/api/v1/namespaces/default/pods/{}/binding"
STATUS = "PATCH /clusters/east/api/v1/namespaces/default/pods/{}/status"


class Wire:
    """Notes what is sent; `answers` are for the next requests of a path."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Object]] = []
        self.answers: dict[str, list[int]] = {}

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        line = f"{method} {path}"
        self.sent.append((line, orjson.loads(body)))
        status = (self.answers.get(line) or [200]).pop(0)
        if not status:
            raise Unreachable("no answer")
        reason = "Conflict" if status == 409 else "NotFound" if status == 404 else "Unknown"
        return status, {}, orjson.dumps({"kind": "Status", "code": status, "reason": reason, "message": "so it is"})

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        raise Unreachable("no watch")

    async def close(self) -> None: ...

    def lines(self) -> list[str]:
        lines = [line for line, _ in self.sent]
        self.sent.clear()
        return lines


def scheduler(wire: Wire, profile: str = "cluster", *, informed: bool = True) -> Scheduler:
    made = Scheduler(Client(wire), FakeClock())
    made.sources.clusters.objects["", "", "east"] = {"metadata": {"name": "east"}, "spec": {"profile": profile}}
    for reflector in (made.sources.pods, made.sources.nodes, made.sources.clusters):
        reflector.synced = informed
    return made


def see(made: Scheduler, *objects: Object | None, key: str = "") -> None:
    """None: the pod of that name is gone."""
    for each in objects:
        if each is None:
            made.sources._pod(("east", "default", key), None)
            continue
        name = each["metadata"]["name"]
        if each["kind"] == "Node":
            made.sources._node(("east", "", name), each)
        else:
            made.sources._pod(("east", "default", name), each)


async def test_a_binding_names_the_pod_by_uid() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, node("n"), seen(pod("p")))
    assert await made.reconcile("east") is None
    assert wire.sent == [
        (
            BINDING.format("p"),
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "p", "namespace": "default", "uid": "uid-p"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
            },
        )
    ]
    wire.sent.clear()
    await made.reconcile("east")
    assert wire.sent == [], "it is assumed to be there"


@pytest.mark.parametrize("profile", ["hub", "other"])
async def test_only_hosted_clusters_are_scheduled(profile: str) -> None:
    wire = Wire()
    made = scheduler(wire, profile)
    see(made, node("n"), seen(pod("p")))
    assert await made.reconcile("east") is None
    assert wire.sent == []


async def test_nothing_is_decided_before_everything_was_seen() -> None:
    wire = Wire()
    made = scheduler(wire, informed=False)
    see(made, node("n", cpu="500m"), seen(pod("p")))
    await made.reconcile("east")
    assert wire.sent == []
    see(made, bound(pod("q"), "n"))
    for reflector in (made.sources.pods, made.sources.nodes, made.sources.clusters):
        reflector.synced = True
    made.informed()
    assert await made.loop.queue.take() == "east"
    await made.reconcile("east")
    assert wire.lines() == [STATUS.format("p")]


async def test_a_binding_that_fails_is_tried_again_and_holds_nobody_up() -> None:
    wire = Wire()
    wire.answers[BINDING.format("p")] = [409, 0, 200]
    made = scheduler(wire)
    see(made, node("n", cpu="1"), seen(pod("p")), seen(pod("q")))
    with pytest.raises(Conflict):
        await made.reconcile("east")
    assert wire.lines() == [BINDING.format("p"), BINDING.format("q")]
    with pytest.raises(Unreachable):
        await made.reconcile("east")
    await made.reconcile("east")
    assert wire.lines() == [BINDING.format("p"), BINDING.format("p")]


async def test_a_refusal_that_could_not_be_written_is_written_later() -> None:
    wire = Wire()
    wire.answers[STATUS.format("p")] = [500, 200]
    made = scheduler(wire)
    see(made, seen(pod("p")))
    with pytest.raises(Exception, match="so it is"):
        await made.reconcile("east")
    await made.reconcile("east")
    await made.reconcile("east")
    assert wire.lines() == [STATUS.format("p"), STATUS.format("p")]


async def test_a_pod_that_went_needs_no_word() -> None:
    wire = Wire()
    wire.answers[STATUS.format("p")] = [404]
    made = scheduler(wire)
    see(made, seen(pod("p")))
    assert await made.reconcile("east") is None


async def test_another_reason_is_told_after_a_pause() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, seen(pod("p")))
    await made.reconcile("east")
    wire.sent.clear()
    see(made, node("n", cpu="1m"))
    assert await made.reconcile("east") == 1.0
    assert wire.sent == []
    assert isinstance(made._clock, FakeClock)
    made._clock.step(1.0)
    await made.reconcile("east")
    ((line, body),) = wire.sent
    assert line == STATUS.format("p")
    assert body == {
        "metadata": {"uid": "uid-p"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient cpu.",
                    "observedGeneration": 1,
                }
            ]
        },
    }


async def test_a_cluster_that_went_is_forgotten() -> None:
    made = scheduler(Wire())
    see(made, node("n"), seen(pod("p", nodeSelector={"a": "b"})))
    made.seen_cluster(("", "", "east"), None)
    made.sources._node(("east", "", "n"), None)
    made.sources._pod(("east", "default", "p"), None)
    assert made.homes == {}


async def test_others_are_told_to_go_and_the_pod_where_it_will_be() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, node("n", cpu="500m"), bound(pod("low"), "n"))
    see(made, seen(pod("high", priority=10)))
    made.sources._later["poddisruptionbudgets"].synced = True
    await made.reconcile("east")
    victim, gone, told = wire.sent
    assert victim[0] == STATUS.format("low")
    (condition,) = victim[1]["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
    assert condition["reason"] == "PreemptionByScheduler"
    assert condition["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    assert gone == ("DELETE /clusters/east/api/v1/namespaces/default/pods/low", {"preconditions": {"uid": "uid-low"}})
    assert told[0] == STATUS.format("high")
    assert told[1]["status"]["nominatedNodeName"] == "n"
    wire.sent.clear()
    await made.reconcile("east")
    assert wire.sent == []
    see(made, None, key="low")
    await made.reconcile("east")
    assert wire.lines() == [BINDING.format("high")]


async def test_an_eviction_that_fails_is_tried_again() -> None:
    wire = Wire()
    wire.answers[STATUS.format("low")] = [500, 200]
    made = scheduler(wire)
    see(made, node("n", cpu="500m"), bound(pod("low"), "n"), seen(pod("high", priority=10)))
    made.sources._later["poddisruptionbudgets"].synced = True
    with pytest.raises(Exception, match="so it is"):
        await made.reconcile("east")
    wire.sent.clear()
    await made.reconcile("east")
    assert wire.lines() == [STATUS.format("low"), "DELETE /clusters/east/api/v1/namespaces/default/pods/low"]


async def test_a_claim_is_told_the_node_before_the_pod_is_bound() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, node("n"), seen(pod("p", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])))
    assert await made.reconcile("east") is None
    assert wire.sent == [], "nothing is known of claims yet"
    for later in made.sources._later.values():
        later.synced = True
    late = {"metadata": {"name": "late"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    claim: Object = {"metadata": {"namespace": "default", "name": "data"}, "spec": {"storageClassName": "late"}}
    made.sources._other("storageclasses", ("east", "", "late"), late)
    made.sources._other("persistentvolumeclaims", ("east", "default", "data"), claim)
    await made.reconcile("east")
    ((line, body),) = wire.sent
    assert line == "PATCH /clusters/east/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert body == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}
    wire.sent.clear()
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {"metadata": {**claim["metadata"], "annotations": annotations}, "spec": {"volumeName": "v"}}
    made.sources._other("persistentvolumeclaims", ("east", "default", "data"), claim)
    await made.reconcile("east")
    assert wire.lines() == [BINDING.format("p")]


async def test_a_home_that_comes_back_is_shown_what_was_seen_before() -> None:
    made = scheduler(Wire())
    made.sources.need("namespaces")
    made.sources._later["namespaces"].objects["east", "", "default"] = namespace = {
        "metadata": {"name": "default", "labels": {"team": "red"}}
    }
    made.sources._other("namespaces", ("east", "", "default"), namespace)
    assert made.homes == {}
    see(made, node("n"))
    assert made.homes["east"].snapshot.namespace_labels("default") == {"team": "red"}


async def test_the_next_pods_are_decided_while_bindings_are_under_way() -> None:
    """Bindings are answered only when all have been sent: with a batch at a time this would never end."""
    wire = Wire()
    number, sent = 2 * BATCH, asyncio.Event()
    made = scheduler(wire)
    see(made, node("n", cpu="1000", memory="1000Gi", pods=1000))
    answer = wire.request

    async def slow(*args: Any) -> Any:
        found = await answer(*args)
        if len(wire.sent) == number:
            sent.set()
        await asyncio.wait_for(sent.wait(), 10)
        return found

    wire.request = slow  # type: ignore
    see(made, *(seen(pod(f"p{i}")) for i in range(number)))
    await made.reconcile("east")
    assert len(wire.sent) == number
