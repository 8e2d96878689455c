"""The scheduler's side of the API: whose pods it touches, what it sends, what it does when that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest

from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.controlplane.scheduler.controller import Scheduler
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
    made._clusters.objects["", "", "east"] = {"metadata": {"name": "east"}, "spec": {"profile": profile}}
    for reflector in (made._pods, made._nodes, made._clusters):
        reflector.synced = informed
    return made


def see(made: Scheduler, *objects: Object) -> None:
    for each in objects:
        name = each["metadata"]["name"]
        if each["kind"] == "Node":
            made._node(("east", "", name), each)
        else:
            made._pod(("east", "default", name), each)


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
    for reflector in (made._pods, made._nodes, made._clusters):
        reflector.synced = True
    made._listed()
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
    made._cluster(("", "", "east"), None)
    made._node(("east", "", "n"), None)
    made._pod(("east", "default", "p"), None)
    assert made._homes == {}
