"""The pod scheduler: one for all hosted clusters of a store. Keys are logical clusters of profile `cluster`.

It reads pods and nodes through the wildcard view and writes bindings, PodScheduled conditions and events. Decisions
are in `home` and what it uses; here is only what touches the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from zlib import crc32

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.controlplane.scheduler.home import Bind, Home, Refusal, unscheduled
from shoal.controlplane.scheduler.recorder import Recorder
from shoal.controlplane.scheduler.shape import Shapes
from shoal.kinds.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.loop import Loop

Object = dict[str, Any]

PODS = Kind("", "v1", "pods")
NODES = Kind("", "v1", "nodes", namespaced=False)
CLUSTERS = Kind(GROUP, VERSION, PLURAL, namespaced=False)

BATCH = 64
"""Pods decided before their bindings are written, all at once: the store commits them together."""


def scheduler_loops(client: Client, clock: Clock) -> list[Loop[str]]:
    return [Scheduler(client, clock).loop]


class Scheduler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.loop: Loop[str] = Loop("scheduler", clock, self.reconcile)
        self._shapes = Shapes()
        self._homes: dict[str, Home] = {}
        self._recorder = Recorder(client, clock)
        wildcard = client.at("*")
        self._pods = Reflector(wildcard, PODS, clock, self._pod, listed=self._listed)
        self._nodes = Reflector(wildcard, NODES, clock, self._node, listed=self._listed)
        self._clusters = Reflector(client.at("root"), CLUSTERS, clock, self._cluster, listed=self._listed)
        self.loop.sources += [self._pods.run, self._nodes.run, self._clusters.run, self._recorder.run]

    @property
    def _informed(self) -> bool:
        """Before everything was seen once, a node may look emptier than it is."""
        return self._pods.synced and self._nodes.synced and self._clusters.synced

    def _listed(self) -> None:
        if self._informed:
            for cluster in self._homes:
                self.loop.queue.add(cluster)

    def _cluster(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._homes.pop(key[2], None)
        elif key[2] in self._homes:
            self.loop.queue.add(key[2])

    def _node(self, key: Key, obj: Object | None) -> None:
        self._seen(key[0], lambda home: home.see_node(key[2], obj))

    def _pod(self, key: Key, obj: Object | None) -> None:
        self._seen(key[0], lambda home: home.see_pod(key[1:], obj))

    def _seen(self, cluster: str, see: Callable[[Home], bool]) -> None:
        home = self._homes.get(cluster)
        if home is None:
            home = self._homes[cluster] = Home(self._shapes, lambda name: crc32(name.encode()))
        if see(home):
            self.loop.queue.add(cluster)
        if home.empty:
            del self._homes[cluster]

    async def reconcile(self, cluster: str) -> float | None:
        home, logical = self._homes.get(cluster), self._clusters.objects.get(("", "", cluster))
        if not self._informed or home is None or logical is None or logical["spec"].get("profile") != "cluster":
            return None
        client = self._client.at(cluster)
        failures = await self._place(client, cluster, home)
        failures += await self._refuse(client, cluster, home)
        if failures:
            raise failures[0]
        return home.later(self._clock.monotonic())

    async def _place(self, client: Client, cluster: str, home: Home) -> list[Exception]:
        failures: list[tuple[Bind, Exception]] = []
        while binds := home.choose(BATCH):
            outcomes = await asyncio.gather(*(_tried(self._bind(client, cluster, bind)) for bind in binds))
            failures += [(bind, error) for bind, error in zip(binds, outcomes, strict=True) if error is not None]
        # Only now: what failed is not to be chosen again at once.
        for bind, _ in failures:
            home.not_bound(bind)
        return [error for _, error in failures]

    async def _refuse(self, client: Client, cluster: str, home: Home) -> list[Exception]:
        failures: list[Exception] = []
        refusals = home.refusals(self._clock.monotonic())
        for start in range(0, len(refusals), BATCH):
            batch = refusals[start : start + BATCH]
            outcomes = await asyncio.gather(*(_tried(self._tell(client, cluster, each)) for each in batch))
            for refusal, error in zip(batch, outcomes, strict=True):
                if error is None:
                    home.told(refusal)
                else:
                    home.not_told(refusal)
                    failures.append(error)
        return failures

    async def _bind(self, client: Client, cluster: str, bind: Bind) -> None:
        namespace, name = bind.pod.key
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": bind.pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
        await client.call("POST", client.path(PODS, name, namespace, "binding"), body=body)
        self._recorder.scheduled(cluster, bind)

    async def _tell(self, client: Client, cluster: str, refusal: Refusal) -> None:
        namespace, name = refusal.pod.key
        condition = unscheduled(refusal, rfc3339(self._clock.now()))
        body = {"metadata": {"uid": refusal.pod.uid}, "status": {"conditions": [condition]}}
        path = client.path(PODS, name, namespace, "status")
        try:
            await client.call("PATCH", path, body=body, content="application/strategic-merge-patch+json")
        except NotFound:
            return  # the watch will say so
        self._recorder.failed(cluster, refusal)


async def _tried(work: Awaitable[None]) -> Exception | None:
    try:
        await work
    except (StatusError, Unreachable) as error:
        return error
    return None
