"""Restores a ManagedCluster that another worker had from its log at the hub: in one transaction, or not at all.

Until then there is no copy, so no controller creates, serves or reports it. The fence keeps controllers beside the
server from writing to it until all their informers have seen it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import orjson

from shoal.clock import rfc3339
from shoal.fleet.bus.interface import Message, Name, Report
from shoal.fleet.resources import MANAGED_CLUSTERS, NAMESPACES
from shoal.fleet.worker.contents import logical_key
from shoal.fleet.worker.data import Data
from shoal.fleet.worker.fence.fence import Fence
from shoal.fleet.worker.parts import Parts
from shoal.fleet.worker.restoring.decide import above, adapted, is_left_over, not_restored, restoring
from shoal.fleet.worker.shipping import at_hub
from shoal.fleet.worker.shipping.segments import Missing, State, Torn, replay
from shoal.fleet.worker.subscriber.decide import is_to_be_restored, mark_of
from shoal.kinds import embedded, fleet, moving
from shoal.kinds.logicalcluster import token_keys
from shoal.objects.conditions import get_condition
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Later, Loop

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

SETTLE_SECONDS = 0.25
"""After all informers are up to date: work started before that is denied and started again."""
RETRY_SECONDS = 30.0


class NameTaken(Exception):
    pass


class Restoring:
    def __init__(self, parts: Parts, data: Data, fence: Fence) -> None:
        self._own, self._hub, self._clock = parts.own, parts.hub, parts.clock
        self._bus, self._registration = parts.bus, parts.registration
        self._data, self._fence = data, fence
        self.loop: Loop[Name] = Loop("fleet-restoring", parts.clock, self.reconcile)
        parts.bus.listen(self.loop.queue.add)
        parts.root.listen(self.loop.queue.add)

    async def reconcile(self, name: Name) -> float | None:
        message = self._bus.newest(name)
        if message is None:
            return None
        copy = await self._copy(name)
        if copy is not None and is_left_over(message, copy):
            await self._registration.check_hub()
            await self._data.replace(embedded.hosted_name(*name), {})
            return None
        if message.deleting or not is_to_be_restored(message, copy):
            return None
        if not self._registration.joined.is_set():
            raise Later("the hub has not let this worker join")
        now = rfc3339(self._clock.now())
        try:
            await self._restore(name, message, copy, now)
        except Missing as error:
            await self._tell(message, not_restored(message.managed, fleet.LOG_MISSING, str(error), now))
        except Torn as error:
            await self._tell(message, not_restored(message.managed, fleet.LOG_TORN, str(error), now))
        except NameTaken as error:
            await self._tell(message, not_restored(message.managed, fleet.HOST_TAKEN, str(error), now))
        else:
            return None
        return RETRY_SECONDS

    async def _restore(self, name: Name, message: Message, copy: Object | None, now: str) -> None:
        hosted, source = embedded.hosted_name(*name), moving.restore_from(message.managed)
        if self._data.refuses:
            await self._tell(message, not_restored(message.managed, fleet.NOT_RESTORABLE, self._data.refuses, now))
            return
        if get_condition(message.managed, moving.RESTORED) is None:
            await self._tell(message, restoring(message.managed, now))
        await self._ensure_namespace(name[0])
        self._fence.close(hosted, self.loop.name, "it is being restored from its log")
        try:
            if copy is None and self._data.contents(hosted).entries:
                raise NameTaken(f"this worker has something of its own under the name {hosted}")
            await self._data.settled()
            first, state = await self._state(name, message, copy, int(source["epoch"]))
            floor = above(state, self._data.revision)
            entries = adapted(state, message, self._registration.hub, floor, (int(source["epoch"]), first))
            await self._data.replace(hosted, entries, floor)
            await self._data.heard()
            await self._clock.sleep(SETTLE_SECONDS)
        finally:
            self._fence.open(hosted, self.loop.name)
        log.info("%s/%s: restored %d objects, as of revision %d", *name, len(entries), state.revision)

    async def _state(self, name: Name, message: Message, copy: Object | None, epoch: int) -> tuple[int, State]:
        """Returns the first segment of the log, and the replayed state."""
        said = moving.backup(message.managed)
        known = said.get("epoch") == epoch and bool(said.get("first"))
        first = int(said["first"]) if known else 0
        if copy is not None and mark_of(copy).epoch == epoch:
            return first, self._own_state(embedded.hosted_name(*name), int(said.get("last") or 0))
        if not known:
            raise Missing(f"the hub does not know where the log of epoch {epoch} begins")
        found = [segment async for segment in at_hub.segments(self._hub, name, epoch, first)]
        if not found:
            raise Missing(f"segment {first} of epoch {epoch} of the log is not there")
        return first, replay(found, epoch, first, int(moving.restore_from(message.managed)["revision"]))

    def _own_state(self, hosted: str, last: int) -> State:
        """The log is this worker's own and nothing was written since: the local contents are complete."""
        here = self._data.contents(hosted)
        keys = (*token_keys(orjson.loads(here.entries[logical_key(hosted)])), self._data.token_key)
        return State(here.revision, dict(here.entries), keys, last)

    async def _tell(self, message: Message, status: Object) -> None:
        with suppress(NotFound):  # The hub has deleted it meanwhile; a message will follow.
            await self._bus.report(message, Report(status))

    async def _copy(self, name: Name) -> Object | None:
        try:
            return await self._own.get(MANAGED_CLUSTERS, name[1], name[0])
        except NotFound:
            return None

    async def _ensure_namespace(self, namespace: str) -> None:
        try:
            await self._own.get(NAMESPACES, namespace)
        except NotFound:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            with suppress(AlreadyExists):
                await self._own.create(NAMESPACES, body)
