"""The load of `bench.sync`: changes on the hub at a steady rate, and how long each takes down and its status up.

It plays the people at the hub and the controllers in the clusters; both sides are watched, each by one watch for all
clusters. A change counts down when the cluster's watch shows it; then its status is written there, and counts up when
the hub's watch shows it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from shoal.client.https import HttpsTransport
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import RESTConfig

Object = dict[str, Any]
Key = tuple[str, str]
"""Cluster and object."""

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
WIDGETS = GroupVersionResource("example.com", "v1", "widgets")
ASSIGNED = "workloads.kcp.dev/cluster"
NAMESPACE = "bench"
LONGEST = 60.0
WRITERS = 32
GOODBYE_SECONDS = 0.25
"""For TLS, before the loop of the connections is closed."""


def client_at(endpoint: RESTConfig, cluster: str) -> Client:
    return Client(HttpsTransport(endpoint.server, endpoint.tls_context), endpoint.token, cluster=cluster)


@dataclass
class LatencyResult:
    down: list[float] = field(default_factory=list)
    up: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class SyncLoad:
    def __init__(self, hub: RESTConfig, members: RESTConfig, clusters: list[str], objects: int) -> None:
        self._hub, self._members = client_at(hub, "root"), client_at(members, "*")
        self._keys = [(cluster, f"w{number:03d}") for number in range(objects) for cluster in clusters]
        self._due: dict[Key, tuple[int, float]] = {}
        self._written: dict[Key, tuple[int, float]] = {}
        self._base = time.monotonic_ns() % 1_000_000_000
        """Sizes no object had before: what does not change is not told."""
        self._out: set[Key] = set()
        self._left = 0
        self._done = asyncio.Event()
        self._statuses: asyncio.Queue[tuple[Key, int]] = asyncio.Queue()
        self.measured = LatencyResult()

    async def run(self, changes: int, rate: float) -> LatencyResult:
        self._left = changes
        tasks = [
            asyncio.create_task(self._watch(self._members, self._on_downstream_event)),
            asyncio.create_task(self._watch(self._hub, self._on_status_event)),
            *(asyncio.create_task(self._answer()) for _ in range(WRITERS)),
        ]
        try:
            await asyncio.sleep(0.5)  # both watches stand
            async with asyncio.timeout(changes / rate + LONGEST):
                await self._change(changes, rate)
                await self._done.wait()
        except TimeoutError:
            self.measured.failures.append(f"{self._left} of {changes} changes were not synced back")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _close(self._hub, self._members)
        return self.measured

    async def _change(self, changes: int, rate: float) -> None:
        room = asyncio.Semaphore(WRITERS)
        began = time.perf_counter()

        async def one(key: Key, number: int, at: float) -> None:
            while key in self._out:  # one change of an object at a time: the next may not hide it
                await asyncio.sleep(0.01)
                at = max(at, time.perf_counter())
            self._out.add(key)
            async with room:
                self._due[key] = number, at
                patch = {"spec": {"size": number}}
                await self._hub.request(
                    *("PATCH", self._hub.resource_path(WIDGETS, f"{key[1]}-{key[0]}", NAMESPACE), None, patch),
                    "application/merge-patch+json",
                    metadata_only=True,
                )

        async with asyncio.TaskGroup() as group:
            for number in range(changes):
                at = began + number / rate
                await asyncio.sleep(max(0.0, at - time.perf_counter()))
                round_, place = divmod(number, len(self._keys))
                group.create_task(one(self._keys[place], self._base + round_, at))

    async def _watch(self, client: Client, told: Any) -> None:
        while True:
            async for event in client.watch(WIDGETS):
                if event["type"] == "MODIFIED":
                    told(event["object"], time.perf_counter())

    def _on_downstream_event(self, obj: Object, now: float) -> None:
        key = _key(obj)
        number, at = self._due.get(key, (0, 0.0))
        if obj["spec"]["size"] == number and number and self._written.get(key, (0, 0.0))[0] != number:
            self._written[key] = number, 0.0
            self.measured.down.append(now - at)
            self._statuses.put_nowait((key, number))

    async def _answer(self) -> None:
        while True:
            key, number = await self._statuses.get()
            cluster, name = key
            self._written[key] = number, time.perf_counter()
            client = self._members.in_cluster(cluster)
            path = client.resource_path(WIDGETS, f"{name}-{cluster}", NAMESPACE, "status")
            body = {"status": {"seen": number}}
            await client.request("PATCH", path, None, body, "application/merge-patch+json", metadata_only=True)

    def _on_status_event(self, obj: Object, now: float) -> None:
        key = _key(obj)
        number, at = self._written.get(key, (0, 0.0))
        if at and (obj.get("status") or {}).get("seen") == number:
            self._written[key] = number, 0.0
            self.measured.up.append(now - at)
            self._out.discard(key)
            self._left -= 1
            if not self._left:
                self._done.set()


def _key(obj: Object) -> Key:
    return obj["metadata"]["labels"][ASSIGNED], str(obj["metadata"]["name"]).partition("-")[0]


async def create_all(hub: RESTConfig, clusters: list[str], objects: int) -> None:
    """On the hub, labelled for their clusters."""

    def widget(cluster: str, number: int) -> Object:
        metadata = {"name": f"w{number:03d}-{cluster}", "labels": {ASSIGNED: cluster}}
        return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": 1}}

    await _create(hub, WIDGETS, [widget(cluster, number) for number in range(objects) for cluster in clusters])


async def create_maps(hub: RESTConfig, cluster: str, objects: int) -> None:
    """ConfigMaps on the hub, labelled for one cluster."""

    def config(number: int) -> Object:
        return {
            "metadata": {"name": f"c{number:05d}", "labels": {ASSIGNED: cluster}},
            "data": {"key": "value" * 20},
        }

    await _create(hub, CONFIG_MAPS, list(map(config, range(objects))))


async def _create(hub: RESTConfig, kind: GroupVersionResource, objects: list[Object]) -> None:
    client = client_at(hub, "root")
    room = asyncio.Semaphore(WRITERS)

    async def one(body: Object) -> None:
        async with room:
            await client.create(kind, body, NAMESPACE, metadata_only=True)

    async with asyncio.TaskGroup() as group:
        for body in objects:
            group.create_task(one(body))
    await _close(client)


async def _close(*clients: Client) -> None:
    for client in clients:
        await client.close()
    await asyncio.sleep(GOODBYE_SECONDS)
