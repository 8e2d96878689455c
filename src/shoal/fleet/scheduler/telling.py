"""Reports why ManagedClusters are unschedulable, and creates Workers where auto-creation is allowed.

The first reason is reported at once. When the reason changes later, for many ManagedClusters at a time and at every
change of a Worker, updates are rate limited: bindings go first.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scheduler.decide import waiting, why
from shoal.fleet.scheduler.growth import Setting, grow, setting
from shoal.fleet.scheduler.ledger import Ledger, Record
from shoal.fleet.scheduler.waiting import Line, WaitingRoom
from shoal.kinds import fleet
from shoal.objects.errors import AlreadyExists, StatusError
from shoal.runtime.loop import Loop

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

REST_SECONDS = 0.2
"""Minimum interval between two passes over changed reasons. A pass is also followed by a pause ten times as long as the
pass took.
"""
AT_ONCE = 200
"""The most statuses that are updated after one pass."""


class ReasonTeller:
    def __init__(self, client: Client, clock: Clock, ledger: Ledger, room: WaitingRoom) -> None:
        self._client, self._clock, self._ledger, self._room = client, clock, ledger, room
        self._changed = asyncio.Event()
        self.loop: Loop[Key] = Loop("fleet-waiting", clock, self.reconcile)
        self.loop.sources.append(self._follow)
        self.growing: Loop[str] = Loop("fleet-auto-workers", clock, self._create, workers=1)
        self._wanted: dict[str, Object] = {}
        """Workers to create, by name."""
        fields = f"metadata.namespace={fleet.NAMESPACE},metadata.name={fleet.AUTO_WORKERS}"
        self._setting = Reflector(client, CONFIG_MAPS, clock, self._setting_changed, fields=fields, listed=self.look)
        self.growing.sources.append(self._setting.run)

    def tell(self, record: Record) -> None:
        if record.told is None:
            self.loop.queue.add(record.key)

    def look(self) -> None:
        """Schedules a pass over the reasons of blocked ManagedClusters."""
        if self._room.anybody_stuck:
            self._changed.set()

    def _setting_changed(self, key: Key, obj: Object | None) -> None:
        for line in self._room.closed():
            line.version = -1
        self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            began, left = self._clock.monotonic(), AT_ONCE
            for line in self._room.closed():
                if line.version != self._ledger.version:
                    self._look_again(line)
                for record in line.members.values():
                    if left and record.told is not line.because:
                        self.loop.queue.add(record.key)
                        left -= 1
                await asyncio.sleep(0)
            if not left:
                self._changed.set()
            await self._clock.sleep(max(REST_SECONDS, 10 * (self._clock.monotonic() - began)))

    def _look_again(self, line: Line) -> None:
        there = list(self._ledger.workers())
        key = "", fleet.NAMESPACE, fleet.AUTO_WORKERS
        allowed = setting(self._setting.objects.get(key)) if self._setting.synced else Setting()
        found = grow(line.asked, why(line.asked, there), [worker for worker, _ in there], allowed)
        line.version = self._ledger.version
        if line.because != found.because:
            line.because = found.because
        if found.worker is not None:
            name = found.worker["metadata"]["name"]
            self._wanted[name] = found.worker
            self.growing.queue.add(name)

    async def reconcile(self, key: Key) -> None:
        record, line = self._ledger.records.get(key), self._room.line_of(key)
        if record is None or record.obj is None or line is None or not line.closed:
            return
        if line.because is None:
            self._look_again(line)
        assert line.because is not None
        record.told = line.because
        status = waiting(record.obj, line.because, rfc3339(self._clock.now()))
        if status is None:
            return
        try:
            await self._client.update(MANAGED_CLUSTERS, {**record.obj, "status": status}, "status")
        except (StatusError, Unreachable):
            record.told = None
            raise

    async def _create(self, name: str) -> None:
        worker = self._wanted.pop(name, None)
        if worker is None:
            return
        with suppress(AlreadyExists):
            await self._client.create(WORKERS, worker, fleet.NAMESPACE)
            log.info("nobody has room: worker %s is asked for", name)
