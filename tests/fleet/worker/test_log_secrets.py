"""Where the log of a hosted cluster is: in a namespace of the hub of its own, until its ManagedCluster is deleted."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.clock import SystemClock
from shoal.fleet.migration.log_gc import LogGarbageCollector
from shoal.fleet.resources import LEASES, MANAGED_CLUSTERS, NAMESPACES, SECRETS
from shoal.fleet.worker.fence.decide import FROZEN_ANNOTATION
from shoal.fleet.worker.registration.controller import WorkerRegistration
from shoal.fleet.worker.replication import hub_log
from shoal.fleet.worker.replication.decide import segment_secret
from shoal.kinds.fleet import cluster_log, infrav1, migration
from shoal.kinds.fleet.cluster_log import LogKey
from shoal.objects.errors import NotFound
from tests.fleet.worker.fleets import CONFIG_MAPS, Fleet, condition, config_map, eventually, fleet, phase

Object = dict[str, Any]
pytestmark = pytest.mark.anyio
LOGS = cluster_log.NAMESPACE
WRITE = "shoal.fleet.worker.replication.controller.hub_log.write_segment"


async def secrets(made: Fleet, namespace: str) -> list[str]:
    return sorted(each["metadata"]["name"] for each in (await made.hub.list_all(SECRETS, namespace))[0])


async def create(made: Fleet, namespace: str) -> str:
    body = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "ManagedCluster",
        "metadata": {"name": "east"},
        "spec": {"nodes": 0, "onWorkerLost": "Move"},
    }
    created = await made.hub.create(MANAGED_CLUSTERS, body, namespace)
    return str(created["metadata"]["uid"])


def prefix(namespace: str, uid: str) -> str:
    return f"{namespace}.east.{uid}.1."


async def logged(made: Fleet, begins: str) -> list[str]:
    return [name for name in await secrets(made, LOGS) if name.startswith(begins)]


async def gone(made: Fleet, namespace: str) -> bool:
    try:
        await made.hub.get(MANAGED_CLUSTERS, "east", namespace)
    except NotFound:
        return True
    return False


async def write_as_an_earlier_release(hub: Client, log: LogKey, number: int, content: bytes) -> None:
    """Beside the ManagedCluster, which owns it."""
    secret = segment_secret(log, number, content)
    managed = await hub.get(MANAGED_CLUSTERS, log.cluster, log.namespace)
    owner = {key: managed[key] for key in ("apiVersion", "kind")} | {"name": log.cluster, "uid": log.uid}
    metadata = {
        "name": log.legacy_secret_name(number),
        "labels": {cluster_log.SECRET_TYPE: log.cluster},
        "ownerReferences": [owner],
    }
    await hub.create(SECRETS, {**secret, "metadata": metadata}, log.namespace)


async def test_namespaces_of_users_have_kubeconfigs_only_and_logs_of_one_name_do_not_mix(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1") as made:
        await made.hub.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        first, other = await create(made, "default"), await create(made, "team")
        await eventually(lambda: logged(made, prefix("default", first)))
        await eventually(lambda: logged(made, prefix("team", other)))
        for namespace in ("default", "team"):
            await eventually(lambda at=namespace: secrets(made, at))  # type: ignore[misc]
            assert await secrets(made, namespace) == ["east-kubeconfig"]

        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await eventually(lambda: gone(made, "default"))
        second = await create(made, "default")
        await eventually(lambda: logged(made, prefix("default", second)))

        async def only_the_current() -> bool:
            found = await secrets(made, LOGS)
            return all(name.startswith((prefix("default", second), prefix("team", other))) for name in found)

        await eventually(only_the_current)
        assert await logged(made, prefix("team", other)), "that of the other namespace is left alone"

        for namespace in ("default", "team"):
            await made.hub.delete(MANAGED_CLUSTERS, "east", namespace)

        async def nothing_left() -> bool:
            return not (await secrets(made, LOGS) or await secrets(made, "default") or await secrets(made, "team"))

        await eventually(nothing_left)


@asynccontextmanager
async def collecting(made: Fleet) -> AsyncIterator[None]:
    controller = LogGarbageCollector(made.hub, SystemClock()).controller
    task = asyncio.create_task(controller.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_hub_that_was_stopped_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1") as made:
        await made.create("w1", nodes=0, onWorkerLost="Move")
        await made.backed_up("w1")
        log = await made.log_key()
        # The hub is stopped before it deletes anything, and starts later.
        await made.hub_server._controllers.stop()
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await eventually(lambda: gone(made, "default"))
        left = await logged(made, prefix("default", log.uid))
        assert left
        current = await create(made, "default")
        kept = segment_secret(log._replace(uid=current), 1, b"x")
        await made.hub.create(SECRETS, kept, LOGS)
        person_s: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{prefix('default', log.uid)}9"},
        }
        await made.hub.create(SECRETS, person_s, LOGS)
        async with collecting(made):

            async def cleaned() -> bool:
                return await secrets(made, LOGS) == sorted([kept["metadata"]["name"], person_s["metadata"]["name"]])

            await eventually(cleaned)


async def test_a_log_of_an_earlier_release_is_continued_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        with monkeypatch.context() as earlier:
            earlier.setattr(WRITE, write_as_an_earlier_release)
            await made.create("w1", nodes=0, onWorkerLost="Move")
            await made.inside("w1").create(CONFIG_MAPS, config_map("one"), "default")
            managed = await made.backed_up("w1")
            assert await secrets(made, LOGS) == []
            last = managed["status"]["backup"]["last"]
            await made.stop("w1")
        before = [name for name in await secrets(made, "default") if "-log-" in name]
        assert len(before) >= last

        # Upgraded: what it writes now follows, and when its base is whole, the log beside the ManagedCluster is gone.
        await made.start("w1")
        log = await made.log_key()

        async def replaced() -> bool:
            return await secrets(made, "default") == ["east-kubeconfig"] and bool(await made.segments())

        await eventually(replaced)
        numbers = [int(name.rpartition(".")[2]) for name in await made.segments()]
        assert min(numbers) > last, "no number is in both places"
        assert set(await made.segments()) == {log.secret_name(number) for number in numbers}


async def test_a_worker_restores_what_one_of_an_earlier_release_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        with monkeypatch.context() as earlier:
            earlier.setattr(WRITE, write_as_an_earlier_release)
            await made.create("w1", nodes=0, onWorkerLost="Move")
            await made.inside("w1").create(CONFIG_MAPS, config_map("one"), "default")
            managed = await made.backed_up("w1")
            await made.stop("w1")
        # Upgraded, and killed before the hub learned of the base in the new place: it is in the log all the same.
        log, backup = await made.log_key(), managed["status"]["backup"]
        last = await newest(made, log, backup["last"])
        moved = await made.hub.get(SECRETS, log.legacy_secret_name(last), "default")
        await made.hub.create(SECRETS, segment_secret(log, last, base64.b64decode(moved["data"]["log"])), LOGS)
        await made.hub.delete(SECRETS, log.legacy_secret_name(last), "default")
        await made.move("w2")
        await made.until(lambda obj: phase(obj) == "Running" and condition(obj, "Restored").get("status") == "True")
        assert (await made.inside("w2").get(CONFIG_MAPS, "one", "default"))["kind"] == "ConfigMap"

        async def only_the_second_epoch() -> bool:
            found = await made.segments()
            second = log._replace(epoch=2).secret_name(0)[:-1]
            in_place = bool(found) and all(name.startswith(second) for name in found)
            return in_place and await secrets(made, "default") == ["east-kubeconfig"]

        await eventually(only_the_second_epoch)


async def newest(made: Fleet, log: LogKey, number: int) -> int:
    names = await secrets(made, "default")
    while log.legacy_secret_name(number + 1) in names:
        number += 1
    return number


async def test_the_hub_keeps_the_namespace(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        before = await made.hub.get(NAMESPACES, LOGS)
        await made.hub.delete(NAMESPACES, LOGS)

        async def there_again() -> bool:
            with suppress(NotFound):
                found = await made.hub.get(NAMESPACES, LOGS)
                return bool(found["metadata"]["uid"] != before["metadata"]["uid"])
            return False

        await eventually(there_again)


async def test_the_hub_knows_the_release_of_a_worker_before_there_is_a_log_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that was upgraded while a cluster leaves it."""
    async with fleet(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=0)
        await made.hub_server._controllers.stop()
        await made.stop("w1")
        earlier = {"metadata": {"annotations": {infrav1.LOG_NAMESPACE_ANNOTATION: None}}}
        await made.hub.merge_patch(LEASES, "worker-w1", earlier, "shoal-system")
        move = {"from": "w1", "to": "w2", "reason": "Drain", "since": "2026-01-01T00:00:00Z"}
        await made.change(lambda managed: {**managed["status"], "move": move})
        announced: list[bool] = []
        late, renew, write = asyncio.Event(), WorkerRegistration._renew_lease, hub_log.write_segment

        async def renew_late(self: WorkerRegistration) -> None:
            await late.wait()
            await renew(self)

        async def write_observed(hub: Client, log: LogKey, number: int, content: bytes) -> None:
            lease = await made.hub.get(LEASES, "worker-w1", "shoal-system")
            announced.append(infrav1.has_log_namespace(lease))
            await write(hub, log, number, content)

        monkeypatch.setattr(WorkerRegistration, "_renew_lease", renew_late)
        monkeypatch.setattr(WRITE, write_observed)
        await made.start("w1")

        async def frozen() -> bool:
            copy = await made.root("w1").get(MANAGED_CLUSTERS, "east", "default")
            return FROZEN_ANNOTATION in copy["metadata"]["annotations"]

        await eventually(frozen)
        for _ in range(100):
            await asyncio.sleep(0.01)
        late.set()
        await made.until(migration.is_final_backup_shipped)
        assert announced
        assert all(announced)
