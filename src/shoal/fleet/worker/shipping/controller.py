"""Replicates the log of hosted clusters to the hub: of those that migrate when this worker is lost, and of those that
leave it.

A cluster that leaves is frozen first, which its copy records; the rest is shipped, and `status.backup.final` says that
nothing will follow. Before it continues here after all, that statement is withdrawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from shoal.clock import rfc3339
from shoal.fleet.bus.interface import Message, Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.contents import logical_key
from shoal.fleet.worker.data import Changed, Contents, Data
from shoal.fleet.worker.fence.decide import FROZEN, is_leaving, is_movable
from shoal.fleet.worker.fence.fence import Fence
from shoal.fleet.worker.parts import Parts
from shoal.fleet.worker.shipping import at_hub
from shoal.fleet.worker.shipping.decide import NOT_SIMULATED, RESTORED_LOG, Step, restored_log, step
from shoal.fleet.worker.shipping.log import Log
from shoal.fleet.worker.shipping.segments import Record
from shoal.fleet.worker.status import change_status
from shoal.kinds import embedded, fleet, logicalcluster, moving
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

PAUSE_SECONDS = 0.5
"""Between two shipments of a cluster."""
STATUS_SECONDS = 5.0
"""Between two progress updates, where nothing else is new."""
REFRESH_SECONDS = 120.0
"""After which the hub is told that there was nothing to ship."""
LARGE = 64
"""Records with more changes are encoded in a thread."""


class Shipping:
    def __init__(self, parts: Parts, data: Data, fence: Fence) -> None:
        self._hub, self._own, self._clock, self._bus, self._root = (
            parts.hub,
            parts.own,
            parts.clock,
            parts.bus,
            parts.root,
        )
        self._data, self._fence, self._worker = data, fence, parts.worker
        self._logs: dict[str, Log] = {}
        """By hosted cluster."""
        self._shipped: dict[str, float] = {}
        self._told: dict[str, tuple[float, int]] = {}
        """When progress was last reported, and up to which revision."""
        self.loop: Loop[Name] = Loop("fleet-shipping", parts.clock, self.reconcile)
        data.follow(self._changed)
        parts.bus.listen(self.loop.queue.add)
        parts.root.listen(self.loop.queue.add)

    def _changed(self, changes: Sequence[Changed]) -> None:
        for change in changes:
            log = self._logs.get(change.hosted)
            if log is not None:
                log.note((change,))
                self.loop.queue.add_after(embedded.hosted_owner(change.hosted), PAUSE_SECONDS)

    def again(self) -> None:
        """Ships pending changes at once: the hub is reachable again."""
        for hosted in self._logs:
            self.loop.queue.add(embedded.hosted_owner(hosted))

    async def reconcile(self, name: Name) -> float | None:
        message, copy = self._bus.newest(name), self._root.get(MANAGED_CLUSTERS, *name)
        hosted, what = embedded.hosted_name(*name), step(message, copy, self._worker, self._data.refuses)
        if what not in (Step.SHIP, Step.FREEZE):
            for known in (self._logs, self._shipped, self._told):
                known.pop(hosted, None)
        if message is None or copy is None:
            return None
        match what:
            case Step.FREEZE:
                await self._note(name, copy, {FROZEN: rfc3339(self._clock.now())})
            case Step.THAW:
                await self._thaw(name, copy)
            case Step.REFUSE:
                await self._refuse(name, message, copy)
            case Step.END:
                await self._end(name, message, copy)
            case Step.SHIP:
                return await self._ship(name, hosted, message, copy)
            case Step.NOTHING:
                pass
        return None

    async def _ship(self, name: Name, hosted: str, message: Message, copy: Object) -> float | None:
        log = self._logs.get(hosted)
        if log is None or log.epoch != message.mark.epoch:
            if not self._data.has(logical_key(hosted)):
                return PAUSE_SECONDS  # It is still being created.
            if not is_leaving(message.managed, self._worker) and not self._fence.is_confirmed(hosted):
                return PAUSE_SECONDS  # The hub first confirms the holder, then learns of the log.
            log = self._logs[hosted] = await self._begin(name, message)
        frozen = FROZEN in copy["metadata"]["annotations"]
        if log.final and (message.mark.revision < log.final or moving.backup(message.managed).get("final")):
            return None  # Unless the hub has planned it again since and needs another final report.
        now = self._clock.monotonic()
        due = self._shipped.get(hosted, now - PAUSE_SECONDS) + PAUSE_SECONDS
        if not frozen and now < due:
            return due - now
        if frozen:
            await self._data.settled()
        while log.has_more or log.wants_base:
            based = await self._send(hosted, message, log)
            self._shipped[hosted] = self._clock.monotonic()
            if not frozen and not based:
                break
        later = await self._tell(name, hosted, copy, log, frozen)
        if restored_log(copy) is not None and log.first:
            await self._forget_source(name, copy)
        return later

    async def _begin(self, name: Name, message: Message) -> Log:
        """After a restart nothing is known of earlier changes: it starts with a base, above the segments that exist."""
        said, epoch = moving.backup(message.managed), message.mark.epoch
        first, last = _numbers(said) if said.get("epoch") == epoch else (1, 0)
        number = await at_hub.free_number(self._hub, name, epoch, last + 1)
        return Log(epoch, number, oldest=first)

    async def _send(self, hosted: str, message: Message, log: Log) -> bool:
        """Sends one batch. Returns whether it was a base."""
        if log.parcel is None:
            record = self._base(hosted, log) if log.wants_base else log.increment()
            if record is None:
                return False
            large = len(record.changes) > LARGE
            log.parcel = await asyncio.to_thread(log.packed, record) if large else log.packed(record)
        parcel = log.parcel
        for number, segment in enumerate(parcel.segments, parcel.first):
            await at_hub.write(self._hub, message.managed, log.epoch, number, segment)
        log.arrived(parcel)
        return parcel.is_base

    def _base(self, hosted: str, log: Log) -> Record:
        contents = self._data.contents(hosted)
        log.token_keys = (*_brought(contents, hosted), self._data.token_key)
        return log.base(contents)

    async def _tell(self, name: Name, hosted: str, copy: Object, log: Log, frozen: bool) -> float | None:
        now = self._clock.monotonic()
        told, revision = self._told.get(hosted, (now - STATUS_SECONDS, 0))
        final = frozen and not log.has_more
        pause = REFRESH_SECONDS if revision == log.revision else STATUS_SECONDS
        if not final and log.oldest == log.first and now < told + pause:
            return told + pause - now
        backup: Object = {
            "worker": self._worker,
            "epoch": log.epoch,
            "revision": log.revision,
            "time": rfc3339(self._clock.now()),
            "bytes": log.shipped,
            "first": log.first,
            "last": log.next - 1,
            "complete": True,
        }
        if final:
            backup["final"] = True

        def change(managed: Object) -> Object:
            if final and not is_leaving(managed, self._worker):
                raise Later("it is not to be moved after all")
            return {**fleet.status_of(managed), "backup": backup}

        managed = await change_status(self._hub, self._worker, name, copy, change)
        self._told[hosted] = self._clock.monotonic(), log.revision
        log.final = int(managed["metadata"]["resourceVersion"]) if final else 0
        await at_hub.take_away(self._hub, name, log.epoch, range(log.oldest, log.first))
        log.oldest = log.first
        return None if final else REFRESH_SECONDS

    async def _thaw(self, name: Name, copy: Object) -> None:
        def change(managed: Object) -> Object:
            if is_leaving(managed, self._worker):
                raise Later("it is to be moved after all")
            said = {key: value for key, value in moving.backup(managed).items() if key != "final"}
            return {**fleet.status_of(managed), "backup": said} if said else fleet.status_of(managed)

        await change_status(self._hub, self._worker, name, copy, change)
        await self._note(name, copy, {FROZEN: None})

    async def _refuse(self, name: Name, message: Message, copy: Object) -> None:
        why = self._data.refuses if is_movable(copy) else NOT_SIMULATED
        said = {"worker": self._worker, "epoch": message.mark.epoch, "complete": False, "message": why}
        if moving.backup(message.managed) != said:
            await change_status(
                self._hub, self._worker, name, copy, lambda managed: {**fleet.status_of(managed), "backup": said}
            )

    async def _end(self, name: Name, message: Message, copy: Object) -> None:
        """Deletes logs that are no longer needed: its own, and the one it was restored from."""
        said = moving.backup(message.managed)
        if said.get("worker") == self._worker and said.get("epoch") == message.mark.epoch:
            first, last = _numbers(said)
            end = await at_hub.free_number(self._hub, name, message.mark.epoch, last + 1)

            def change(managed: Object) -> Object:
                return {key: value for key, value in fleet.status_of(managed).items() if key != "backup"}

            await change_status(self._hub, self._worker, name, copy, change)
            await at_hub.take_away(self._hub, name, message.mark.epoch, range(first, end))
        await self._forget_source(name, copy)

    async def _forget_source(self, name: Name, copy: Object) -> None:
        found = restored_log(copy)
        if found is not None:
            epoch, first, last = found
            end = await at_hub.free_number(self._hub, name, epoch, last + 1)
            await at_hub.take_away(self._hub, name, epoch, range(first, end))
            await self._note(name, copy, {RESTORED_LOG: None})

    async def _note(self, name: Name, copy: Object, annotations: dict[str, str | None]) -> None:
        metadata = {"resourceVersion": copy["metadata"]["resourceVersion"], "annotations": annotations}
        await self._own.merge(MANAGED_CLUSTERS, name[1], {"metadata": metadata}, name[0])


def _numbers(said: Object) -> tuple[int, int]:
    """Returns first and last segment of a log."""
    first = int(said.get("first") or 1)
    return first, int(said.get("last") or first - 1)


def _brought(contents: Contents, hosted: str) -> tuple[str, ...]:
    """Returns the token keys the cluster has from its previous workers."""
    found = contents.entries.get(logical_key(hosted))
    return logicalcluster.token_keys(orjson.loads(found)) if found is not None else ()
