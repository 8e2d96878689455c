"""Pod scheduler: one for all hosted clusters of a store. Keys are logical clusters of profile `cluster`.

Decisions are in `cluster_scheduler` and the modules it uses, reads in `informers`, writes in `cycle` and `binder`.
"""

from __future__ import annotations

import asyncio
from typing import Any
from zlib import crc32

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.controlplane.scheduler.home import Home
from shoal.controlplane.scheduler.metrics import PENDING
from shoal.controlplane.scheduler.round import Round
from shoal.controlplane.scheduler.shape import Shapes
from shoal.controlplane.scheduler.sources import See, Sources
from shoal.controlplane.scheduler.writing import Writer
from shoal.runtime.loop import Loop
from shoal.runtime.recorder import Recorder

Object = dict[str, Any]


def scheduler_loops(client: Client, clock: Clock) -> list[Loop[str]]:
    return [Scheduler(client, clock).loop]


class Scheduler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.loop: Loop[str] = Loop("scheduler", clock, self.reconcile)
        self.homes: dict[str, Home] = {}
        self._shapes = Shapes()
        self._recorder = Recorder(client.at, clock)
        self.sources = Sources(client, clock, self)
        self.loop.sources += [self.sources.run, self._recorder.run, self._tell_pending]

    async def _tell_pending(self) -> None:
        def read() -> list[tuple[str, dict[str, str], float]]:
            counts = [(cluster, *home.pending) for cluster, home in self.homes.items()]
            return [
                (cluster, {"queue": queue}, float(number))
                for cluster, active, resting in counts
                for queue, number in (("active", active), ("unschedulable", resting))
            ]

        with PENDING.read_by(read):
            await asyncio.Event().wait()

    def seen(self, cluster: str, see: See) -> None:
        """Handles a pod or node event."""
        home = self.homes.get(cluster)
        if home is None:
            home = self.homes[cluster] = Home(self._shapes, lambda name: crc32(name.encode()), self.sources.need)
            self.sources.introduce(cluster, home)
        if see(home):
            self.loop.queue.add(cluster)
        if home.empty:
            del self.homes[cluster]

    def seen_besides(self, cluster: str, see: See) -> None:
        """Handles events of other kinds, which matter only in clusters with pods."""
        home = self.homes.get(cluster)
        if home is not None and see(home):
            self.loop.queue.add(cluster)

    def seen_cluster(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self.homes.pop(key[2], None)
        elif key[2] in self.homes:
            self.loop.queue.add(key[2])

    def informed(self) -> None:
        for cluster in self.homes:
            self.loop.queue.add(cluster)

    async def reconcile(self, cluster: str) -> float | None:
        home, logical = self.homes.get(cluster), self.sources.clusters.objects.get(("", "", cluster))
        if not self.sources.informed or home is None or logical is None or logical["spec"].get("profile") != "cluster":
            return None
        writer = Writer(self._client, self._clock, self._recorder, cluster)
        round_ = Round(home, writer, self._clock.monotonic)
        await round_.run()
        if round_.failures:
            raise round_.failures[0]
        return home.later(self._clock.monotonic())
