"""Tests of the scheduler's API calls: the pods it handles, its requests, and its reaction to failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest

from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.controlplane.scheduler.controller import PodScheduler
from shoal.controlplane.scheduler.cycle import BATCH_SIZE, SchedulingCycle
from shoal.objects.errors import Conflict
from shoal.runtime.informer import Informer
from tests.controlplane.scheduler.samples import bound_pod, from_server, node, pod

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


def scheduler(wire: Wire, profile: str = "cluster", *, informed: bool = True) -> PodScheduler:
    made = PodScheduler(Client(wire), FakeClock())
    made.informers.clusters.objects["", "", "east"] = {"metadata": {"name": "east"}, "spec": {"profile": profile}}
    made.informers.require_kind("services")
    if informed:
        sync(made.informers.pods, made.informers.nodes, made.informers.clusters, made.informers._lazy["services"])
    return made


def sync(*informers: Informer) -> None:
    """As after a complete list."""
    for informer in informers:
        informer._synced.set()


def see(made: PodScheduler, *objects: Object | None, key: str = "") -> None:
    """None: the pod of that name is gone."""
    for each in objects:
        if each is None:
            made.informers._on_pod(("east", "default", key), None, None)
            continue
        name = each["metadata"]["name"]
        if each["kind"] == "Node":
            made.informers._on_node(("east", "", name), None, each)
        else:
            made.informers._on_pod(("east", "default", name), None, each)


async def test_a_binding_names_the_pod_by_uid() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, node("n"), from_server(pod("p")))
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
    see(made, node("n"), from_server(pod("p")))
    assert await made.reconcile("east") is None
    assert wire.sent == []


async def test_nothing_is_decided_before_everything_was_seen() -> None:
    wire = Wire()
    made = scheduler(wire, informed=False)
    see(made, node("n", cpu="500m"), from_server(pod("p")))
    await made.reconcile("east")
    assert wire.sent == []
    see(made, bound_pod(pod("q"), "n"))
    sync(made.informers.pods, made.informers.nodes, made.informers.clusters, made.informers._lazy["services"])
    made.on_sync()
    assert await made.controller.queue.get() == "east"
    await made.reconcile("east")
    assert wire.lines() == [STATUS.format("p")]


async def test_a_binding_that_fails_is_tried_again_and_holds_nobody_up() -> None:
    wire = Wire()
    wire.answers[BINDING.format("p")] = [409, 0, 200]
    made = scheduler(wire)
    see(made, node("n", cpu="1"), from_server(pod("p")), from_server(pod("q")))
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
    see(made, from_server(pod("p")))
    with pytest.raises(Exception, match="so it is"):
        await made.reconcile("east")
    await made.reconcile("east")
    await made.reconcile("east")
    assert wire.lines() == [STATUS.format("p"), STATUS.format("p")]


async def test_a_pod_that_went_needs_no_word() -> None:
    wire = Wire()
    wire.answers[STATUS.format("p")] = [404]
    made = scheduler(wire)
    see(made, from_server(pod("p")))
    assert await made.reconcile("east") is None


async def test_another_reason_is_told_after_a_pause() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, from_server(pod("p")))
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
    see(made, node("n"), from_server(pod("p", nodeSelector={"a": "b"})))
    made.handle_logical_cluster(("", "", "east"), None, None)
    made.informers._on_node(("east", "", "n"), None, None)
    made.informers._on_pod(("east", "default", "p"), None, None)
    assert made.cluster_schedulers == {}


async def test_others_are_told_to_go_and_the_pod_where_it_will_be() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, node("n", cpu="500m"), bound_pod(pod("low"), "n"))
    see(made, from_server(pod("high", priority=10)))
    sync(made.informers._lazy["poddisruptionbudgets"])
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
    see(made, node("n", cpu="500m"), bound_pod(pod("low"), "n"), from_server(pod("high", priority=10)))
    sync(made.informers._lazy["poddisruptionbudgets"])
    with pytest.raises(Exception, match="so it is"):
        await made.reconcile("east")
    wire.sent.clear()
    await made.reconcile("east")
    assert wire.lines() == [STATUS.format("low"), "DELETE /clusters/east/api/v1/namespaces/default/pods/low"]


async def test_a_claim_is_told_the_node_before_the_pod_is_bound() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, node("n"), from_server(pod("p", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])))
    assert await made.reconcile("east") is None
    assert wire.sent == [], "nothing is known of claims yet"
    sync(*made.informers._lazy.values())
    late = {"metadata": {"name": "late"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    claim: Object = {"metadata": {"namespace": "default", "name": "data"}, "spec": {"storageClassName": "late"}}
    made.informers._on_lazy_object("storageclasses", ("east", "", "late"), None, late)
    made.informers._on_lazy_object("persistentvolumeclaims", ("east", "default", "data"), None, claim)
    await made.reconcile("east")
    ((line, body),) = wire.sent
    assert line == "PATCH /clusters/east/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert body == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}
    wire.sent.clear()
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {"metadata": {**claim["metadata"], "annotations": annotations}, "spec": {"volumeName": "v"}}
    made.informers._on_lazy_object("persistentvolumeclaims", ("east", "default", "data"), None, claim)
    await made.reconcile("east")
    assert wire.lines() == [BINDING.format("p")]


async def test_a_home_that_comes_back_is_shown_what_was_seen_before() -> None:
    made = scheduler(Wire())
    made.informers.require_kind("namespaces")
    annotations = {"shoal.dev/cluster": "east"}
    namespace = {"metadata": {"name": "default", "labels": {"team": "red"}, "annotations": annotations}}
    key = ("east", "", "default")
    made.informers._lazy["namespaces"]._store.apply(key, namespace, 1)
    made.informers._on_lazy_object("namespaces", key, None, namespace)
    assert made.cluster_schedulers == {}
    see(made, node("n"))
    assert made.cluster_schedulers["east"].snapshot.namespace_labels("default") == {"team": "red"}


async def test_the_next_pods_are_decided_while_bindings_are_under_way() -> None:
    """Bindings are answered only when all have been sent: with a batch at a time this would never end."""
    wire = Wire()
    number, sent = 2 * BATCH_SIZE, asyncio.Event()
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
    see(made, *(from_server(pod(f"p{i}")) for i in range(number)))
    await made.reconcile("east")
    assert len(wire.sent) == number


async def test_a_mistake_while_bindings_are_written_assumes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()
    made = scheduler(wire)
    annotations = {"shoal.dev/cluster": "east"}
    shown = [node("n"), from_server(pod("p"))]
    for each in shown:
        each["metadata"]["annotations"] = annotations
    made.informers.nodes._store.apply(("east", "", "n"), shown[0], 1)
    made.informers.pods._store.apply(("east", "default", "p"), shown[1], 2)
    see(made, *shown)

    async def broken(*_: object) -> None:
        await asyncio.sleep(0)
        raise KeyError("a mistake")

    with monkeypatch.context() as patched:
        patched.setattr(SchedulingCycle, "_wait_for_capacity", broken)
        with pytest.raises(KeyError):
            await made.reconcile("east")
    await asyncio.sleep(0)
    wire.sent.clear()
    await made.reconcile("east")
    assert wire.lines() == [BINDING.format("p")], "it is decided again"
    made.reset()
    assert made.cluster_schedulers == {}


async def test_a_binding_that_fails_by_mistake_is_tried_again() -> None:
    wire = Wire()
    made = scheduler(wire)
    see(made, node("n"), from_server(pod("p")))
    answer = wire.request

    async def broken(*args: Any) -> Any:
        wire.request = answer  # type: ignore
        raise KeyError("a mistake")

    wire.request = broken  # type: ignore
    with pytest.raises(KeyError):
        await made.reconcile("east")
    await made.reconcile("east")
    assert wire.lines() == [BINDING.format("p")]
