"""Pods whose ConfigMaps and Secrets are missing wait as upstream's do, and start when they appear."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.clock import rfc3339
from shoal.controlplane.kubelet.container_runtime import predict_outcome
from shoal.controlplane.kubelet.decide import KubeletDecision, decide_pod
from shoal.controlplane.kubelet.informers import PODS
from shoal.controlplane.kubelet.init_containers import current_init_container
from shoal.controlplane.kubelet.pod_sources import PodSource, SourceErrors, check_delay, source_errors, sources_of
from shoal.controlplane.kubelet.source_checks import RESOURCES
from shoal.controlplane.kubelet.stages import default_stages
from shoal.runtime.event_recorder import EVENTS
from tests.controlplane.kubelet.samples import NOW, pod, ready_node
from tests.controlplane.kubelet.test_kubelet import create, node, node_is, pod_is
from tests.controlplane.kubelet.test_kubelet import pod as bound_pod
from tests.controlplane.world import World, world

Object = dict[str, Any]
MAP, SECRET = PodSource("ConfigMap", "m"), PodSource("Secret", "s")


def reference(field: str, name: str = "m", **more: Any) -> Object:
    """An environment variable."""
    return {"name": "V", "valueFrom": {field: {"name": name, "key": "k", **more}}}


def container(name: str = "c", *env: Object, **more: Any) -> Object:
    return {"name": name, "image": "nginx:1", "env": list(env), **more}


@pytest.mark.parametrize(
    ("env", "keys", "message"),
    [
        ({"env": [reference("configMapKeyRef")]}, {MAP: None}, 'configmap "m" not found'),
        ({"env": [reference("configMapKeyRef")]}, {MAP: frozenset()}, "couldn't find key k in ConfigMap default/m"),
        ({"env": [reference("configMapKeyRef")]}, {MAP: frozenset("k")}, ""),
        ({"env": [reference("configMapKeyRef", optional=True)]}, {MAP: None}, ""),
        ({"env": [reference("configMapKeyRef", optional=True)]}, {MAP: frozenset()}, ""),
        ({"env": [reference("secretKeyRef", "s")]}, {SECRET: None}, 'secret "s" not found'),
        ({"env": [reference("secretKeyRef", "s")]}, {SECRET: frozenset()}, "couldn't find key k in Secret default/s"),
        ({"envFrom": [{"configMapRef": {"name": "m"}}]}, {MAP: None}, 'configmap "m" not found'),
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, {SECRET: None}, 'secret "s" not found'),
        ({"envFrom": [{"secretRef": {"name": "s", "optional": True}}]}, {SECRET: None}, ""),
        ({"envFrom": [{"configMapRef": {"name": "m"}}]}, {MAP: frozenset()}, ""),
    ],
)
def test_environments(env: Object, keys: dict[PodSource, frozenset[str] | None], message: str) -> None:
    mine = pod(containers=[{"name": "c", "image": "nginx:1", **env}])
    assert sources_of(mine) == keys.keys()
    assert source_errors(mine, keys).containers == ({"c": message} if message else {})


@pytest.mark.parametrize(
    ("volume", "keys", "message"),
    [
        ({"configMap": {"name": "m"}}, {MAP: None}, 'configmap "m" not found'),
        ({"configMap": {"name": "m", "optional": True}}, {MAP: None}, ""),
        (
            {"configMap": {"name": "m", "items": [{"key": "k"}]}},
            {MAP: frozenset()},
            "references non-existent config key: k",
        ),
        ({"secret": {"secretName": "s"}}, {SECRET: None}, 'secret "s" not found'),
        ({"secret": {"secretName": "s", "items": [{"key": "k"}]}}, {SECRET: frozenset("k")}, ""),
        (
            {"secret": {"secretName": "s", "items": [{"key": "k"}]}},
            {SECRET: frozenset()},
            "references non-existent secret key: k",
        ),
        ({"projected": {"sources": [{"secret": {"name": "s"}}]}}, {SECRET: None}, 'secret "s" not found'),
        ({"emptyDir": {}}, {}, ""),
    ],
)
def test_volumes(volume: Object, keys: dict[PodSource, frozenset[str] | None], message: str) -> None:
    mine = pod(volumes=[{"name": "v", **volume}])
    assert sources_of(mine) == keys.keys()
    assert source_errors(mine, keys).volumes == ({"v": message} if message else {})


def decide(mine: Object, errors: SourceErrors, now: float = NOW) -> KubeletDecision:
    init = current_init_container(mine, predict_outcome)
    return decide_pod(
        mine,
        ready_node(),
        default_stages(),
        outcome=None if init else predict_outcome(mine),
        init_container=init,
        errors=errors,
        address="10.0.0.1",
        now=now,
        now_rfc3339=rfc3339(now),
    )


def states(status: Object, field: str = "containerStatuses") -> dict[str, str]:
    """The reason of what waits, otherwise the state."""
    found = {each["name"]: each["state"] for each in status[field]}
    return {
        name: state["waiting"]["reason"] if "waiting" in state else next(iter(state)) for name, state in found.items()
    }


def test_only_containers_that_lack_something_wait() -> None:
    mine = pod(containers=[container("good"), container("bad", reference("configMapKeyRef"))])
    decision = decide(mine, source_errors(mine, {MAP: None}))
    status = decision.status or {}
    assert (status["phase"], decision.waits_for) == ("Pending", "incomplete")
    assert states(status) == {"good": "running", "bad": "CreateContainerConfigError"}
    assert status["containerStatuses"][1]["state"]["waiting"]["message"] == 'configmap "m" not found'
    again = decide({**mine, "status": status}, source_errors(mine, {MAP: None}), NOW + 5)
    assert (again.status, again.requeue_at) == (None, NOW + 7.5)
    healed = decide({**mine, "status": status}, source_errors(mine, {MAP: frozenset("k")}), NOW + 5).status or {}
    assert (healed["phase"], states(healed)) == ("Running", {"good": "running", "bad": "running"})
    assert healed["containerStatuses"][0] == {**status["containerStatuses"][0]}, "it was not restarted"


def test_no_container_starts_without_the_volumes() -> None:
    init = [container("i", command=["sleep", "5"])]
    mine = pod(volumes=[{"name": "v", "configMap": {"name": "m"}}], initContainers=init)
    decision = decide(mine, source_errors(mine, {MAP: None}))
    status = decision.status or {}
    assert (status["phase"], decision.waits_for) == ("Pending", "unmounted")
    assert states(status) == {"c": "ContainerCreating"}
    assert states(status, "initContainerStatuses") == {"i": "PodInitializing"}


def test_an_init_container_waits_when_it_is_its_turn() -> None:
    init = [container("first", command=["sleep", "5"]), container("second", reference("secretKeyRef", "s"))]
    mine = pod(initContainers=init)
    errors = source_errors(mine, {SECRET: None})
    status = decide(mine, errors).status or {}
    assert states(status, "initContainerStatuses") == {"first": "running", "second": "PodInitializing"}
    mine["status"] = status
    mine["status"] = decide(mine, source_errors(mine, {SECRET: None}), NOW + 5).status
    status = decide(mine, source_errors(mine, {SECRET: None}), NOW + 6).status or {}
    assert states(status, "initContainerStatuses") == {"first": "terminated", "second": "CreateContainerConfigError"}
    assert states(status) == {"c": "PodInitializing"}


def test_checks_become_rarer() -> None:
    assert [check_delay(elapsed) for elapsed in (0, 2, 10, 60, 3600)] == [1, 1, 5, 30, 30]


@pytest.mark.anyio
async def test_a_pod_starts_when_its_secret_and_config_map_appear(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node())
        await given.eventually(node_is(client))
        volumes = [{"name": "v", "secret": {"secretName": "s"}}]
        mounts = [{"name": "v", "mountPath": "/v"}]
        needy = container("c", reference("configMapKeyRef"), volumeMounts=mounts)
        await create(client, bound_pod(containers=[needy], volumes=volumes), bound_pod("free"))
        await given.eventually(pod_is(client, "Running", "free"))
        await given.eventually(waits(given, client, "ContainerCreating"))
        await given.eventually(
            is_told(client, "FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "s" not found')
        )
        await client.create(RESOURCES["Secret"], {"metadata": {"name": "s"}}, "default")
        await given.eventually(waits(given, client, "CreateContainerConfigError"))
        await given.eventually(is_told(client, "Failed", 'Error: configmap "m" not found'))
        await client.create(RESOURCES["ConfigMap"], {"metadata": {"name": "m"}, "data": {"k": "v"}}, "default")
        await given.eventually(runs(given, client))
        await client.delete(RESOURCES["ConfigMap"], "m", "default")
        given.clock.step(60)
        assert await runs(given, client)(), "what runs does not need it any more"


def waits(given: World, client: Client, reason: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        given.clock.step(0.1)
        status = (await client.get(PODS, "p", "default"))["status"]
        return states(status) == {"c": reason} if status.get("containerStatuses") else False

    return look


def runs(given: World, client: Client) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        given.clock.step(0.1)
        return await pod_is(client, "Running")()

    return look


def is_told(client: Client, reason: str, message: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        events, _ = await client.list_all(EVENTS, "default")
        return (reason, message) in {(each["reason"], each["message"]) for each in events}

    return look
