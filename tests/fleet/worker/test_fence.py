"""A worker that does not reach its hub stops writing by its own clock, and continues when the hub has confirmed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.fleet.resources import LEASES, MANAGED_CLUSTERS
from shoal.fleet.worker.fence.decide import HELD_ANNOTATION
from tests.fleet.worker.fleets import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    MACHINES,
    PODS,
    Fleet,
    config_map,
    deployment,
    eventually,
    fleet,
    phase,
    refused,
)

Object = dict[str, Any]
pytestmark = pytest.mark.anyio

ACCOUNTS_TOKEN = "/clusters/default.east/api/v1/namespaces/default/serviceaccounts/default/token"


async def written(inside: Client, name: str) -> bool:
    return not await _fails(inside.create(CONFIG_MAPS, config_map(name), "default"))


async def _fails(write: Any) -> bool:
    try:
        await write
    except Exception:
        return True
    return False


def lose(made: Fleet, worker: str) -> None:
    """The line is cut, and the time of a lease passes."""
    made.lines[worker].cut()
    made.clocks[worker].added += 41


async def test_writes_end_with_the_lease_and_reads_go_on(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1") as made:
        managed = await made.create("w1", nodes=1, onWorkerLost="Move")
        assert managed["status"]["held"]["worker"] == "w1"
        assert managed["status"]["held"]["epoch"] == 1
        lease = await made.hub.get(LEASES, "worker-w1", "shoal-system")
        assert lease["metadata"]["annotations"]["shoal.dev/fences"] == "true"
        await made.create("w1", "west", nodes=0)
        inside, beside = made.inside("w1"), made.inside("w1", "default.west")
        await inside.create(CONFIG_MAPS, config_map("one", a="b"), "default")
        await inside.create(DEPLOYMENTS, deployment("web", 2), "default")

        async def up() -> bool:
            found, _ = await inside.list_all(PODS, "default")
            return len([pod for pod in found if (pod["status"].get("phase")) == "Running"]) == 2

        await eventually(up)
        lose(made, "w1")
        why = "cluster default.east is read-only: its worker has not reached the hub for 40 s and may no longer own it"
        one = await inside.get(CONFIG_MAPS, "one", "default")
        attempts = [
            inside.create(CONFIG_MAPS, config_map("two"), "default"),
            inside.update(CONFIG_MAPS, {**one, "data": {"a": "c"}}),
            inside.merge_patch(CONFIG_MAPS, "one", {"data": {"a": "c"}}, "default"),
            inside.apply(
                CONFIG_MAPS, {**config_map("one", a="d"), "metadata": {"name": "one", "namespace": "default"}}, "m"
            ),
            inside.delete(CONFIG_MAPS, "one", "default"),
            inside.delete_all(CONFIG_MAPS, "default"),
            inside.merge_patch(DEPLOYMENTS, "web", {"spec": {"replicas": 9}}, "default", "scale"),
            inside.merge_patch(DEPLOYMENTS, "web", {"status": {"replicas": 9}}, "default", "status"),
            made.root("w1").delete(
                MACHINES, (await made.root("w1").list_all(MACHINES, "default"))[0][0]["metadata"]["name"], "default"
            ),
        ]
        for attempt in attempts:
            error = await refused(attempt)
            assert (error.status_code, error.status_reason, error.message) == (503, "ServiceUnavailable", why)
            assert error.retry_after == 5
        assert (await inside.get(CONFIG_MAPS, "one", "default"))["data"] == {"a": "b"}
        assert len((await inside.list_all(PODS, "default"))[0]) == 2
        await beside.create(CONFIG_MAPS, config_map("two"), "default")
        token = await inside.request("POST", ACCOUNTS_TOKEN, body={"kind": "TokenRequest", "spec": {}})
        assert token["status"]["token"], "a token stores nothing"
        held = moving_held(await made.get())
        made.lines["w1"].mend()
        await eventually(lambda: written(inside, "three"))
        assert moving_held(await made.get()) != held, "the hub was asked, and has confirmed it"


def moving_held(managed: Object) -> Object:
    found: Object = managed["status"]["held"]
    return found


async def test_who_starts_again_asks_first(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1") as made:
        await made.create("w1", nodes=0, onWorkerLost="Move")
        await made.inside("w1").create(CONFIG_MAPS, config_map("one"), "default")
        await made.stop("w1")
        await made.start("w1", cut=True)
        inside = made.inside("w1")
        error = await refused(inside.create(CONFIG_MAPS, config_map("two"), "default"))
        assert "its worker has not reached the hub" in error.message
        await inside.get(CONFIG_MAPS, "one", "default")
        made.lines["w1"].mend()
        await eventually(lambda: written(inside, "two"))


async def test_who_was_given_to_another_meanwhile_is_never_confirmed(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1") as made:
        await made.create("w1", nodes=0, onWorkerLost="Move")
        inside = made.inside("w1")
        await made.backed_up("w1")
        made.lines["w1"].cut()
        await inside.create(CONFIG_MAPS, config_map("not-shipped"), "default")
        lose(made, "w1")
        await made.move("w9")
        made.lines["w1"].mend()

        async def closed() -> bool:
            error = await refused(inside.create(CONFIG_MAPS, config_map("two"), "default"))
            return error.message == "cluster default.east is read-only: the hub has assigned it to worker w9"

        await eventually(closed)
        await asyncio.sleep(0.5)
        assert await closed()
        assert (await inside.get(CONFIG_MAPS, "kube-root-ca.crt", "default"))["kind"] == "ConfigMap"
        assert "held" not in (await made.get())["status"]
        await made.root("w1").get(MANAGED_CLUSTERS, "east", "default")

        # The other one never had it, and it comes back: nothing was lost.
        await made.move("w1")
        managed = await made.until(lambda obj: phase(obj) == "Running" and "held" in obj["status"])
        assert (managed["status"]["epoch"], managed["status"]["restoreFrom"]["epoch"]) == (3, 1)
        await inside.get(CONFIG_MAPS, "not-shipped", "default")
        await eventually(lambda: written(inside, "two"))


async def test_stay_takes_the_fence_down_and_the_word_back_first(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1") as made:
        await made.create("w1", nodes=0, onWorkerLost="Move")
        await made.backed_up("w1")
        inside, root = made.inside("w1"), made.root("w1")
        assert HELD_ANNOTATION in (await root.get(MANAGED_CLUSTERS, "east", "default"))["metadata"]["annotations"]
        await made.hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"onWorkerLost": "Stay"}}, "default")

        async def taken_back() -> bool:
            notes = (await root.get(MANAGED_CLUSTERS, "east", "default"))["metadata"]["annotations"]
            return HELD_ANNOTATION not in notes and not await made.segments()

        await eventually(taken_back)
        status = (await made.get())["status"]
        assert "held" not in status
        assert "backup" not in status
        lose(made, "w1")
        await inside.create(CONFIG_MAPS, config_map("two"), "default")
