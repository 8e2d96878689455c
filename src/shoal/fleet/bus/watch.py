"""The bus over the Kubernetes API: the worker watches the ManagedClusters assigned to it and writes their status.

The hub needs no publisher: its store orders and keeps the messages, and its watch resumes where it was cut. If it
cannot resume, the worker sends a digest of what it has and fetches what differs. What it knew before a restart is
loaded by `load_messages`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from shoal.client.metered import MeteredTransport
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.bus import at_hub
from shoal.fleet.bus.decide import difference, held, is_cheaper_whole
from shoal.fleet.bus.envelope import of_watch
from shoal.fleet.bus.inbox import Inbox
from shoal.fleet.bus.interface import Message, Name, Report, Told
from shoal.fleet.bus.traffic import DIGEST, LIST, RESUME, Traffic
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds import fleet
from shoal.objects.errors import Expired, Forbidden, NotFound, StatusError

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]
Recall = Callable[[str], Awaitable[list[Message]]]
"""Returns the messages that were saved from the hub with that id."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between attempts, up to twice as long: a link that comes back after days is noticed within seconds, and a
thousand workers do not reconnect at once.
"""
AT_ONCE = 4
"""Objects fetched at a time, over as many connections."""


async def _nothing(_hub: str) -> list[Message]:
    return []


class WatchBus:
    name = "fleet-bus"

    def __init__(
        self, hub: Client, worker: str, clock: Clock, recall: Recall = _nothing, traffic: Traffic | None = None
    ) -> None:
        self._worker, self._clock, self._recall = worker, clock, recall
        self._traffic = traffic = traffic or Traffic(clock)
        self._plain = hub
        self._hub = hub.through(lambda transport: MeteredTransport(transport, traffic))
        self._inbox = Inbox()
        self._selector = f"status.assignedWorker={worker}"
        self._followed = ""
        """Id of the hub that the cached messages are from."""
        self._revision = ""
        """Everything up to here has been received; empty if that is not certain."""

    @property
    def live(self) -> bool:
        return self._traffic.live

    def listen(self, told: Told) -> None:
        self._inbox.listen(told)

    def newest(self, name: Name) -> Message | None:
        return self._inbox.messages.get(name)

    async def hub_id(self) -> str:
        return await at_hub.hub_id(self._plain)  # Called with every heartbeat, which is not bus traffic.

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if await self._watch(await self._prepare()):
                    pause = FIRST_PAUSE
                    continue
                log.info("the watch of the hub ended without an event; again in %.1f s", pause)
            except Expired:
                self._revision = ""
            except (StatusError, Unreachable) as error:
                self._traffic.down()
                log.info("the link to the hub: %s; again in %.1f s", error, pause)
            except BaseException:
                self._traffic.down()
                raise
            await self._clock.sleep(pause * (1 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _prepare(self) -> str:
        """Does what is possible before the watch. Returns how the link gets in sync again, if it is not."""
        hub = await at_hub.hub_id(self._hub)
        if hub != self._followed:
            self._inbox.clear()
            self._revision = ""
            for message in await self._recall(hub):
                self._inbox.recall(message)
            self._followed = hub
        if self._revision:
            return RESUME
        self._traffic.down()
        return await self._resync()

    async def _resync(self) -> str:
        """Returns how the link was resynced."""
        ours = held(self._inbox.messages)
        if ours.revisions:
            query = {"fieldSelector": self._selector, "digest": ours.text}
            answer = await self._hub.call("GET", self._hub.path(MANAGED_CLUSTERS), query)
            found = difference(ours, answer)
            if found is not None and not is_cheaper_whole(found, ours):
                await self._fetch(found.fetch)
                for name in found.released:
                    self._inbox.release(name)
                self._revision = answer["metadata"]["resourceVersion"]
                return DIGEST
        listed, revision = await self._hub.list_all(MANAGED_CLUSTERS, fields=self._selector)
        for managed in listed:
            self._take("MODIFIED", managed)
        there = {(each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in listed}
        for name in self._inbox.messages.keys() - there:
            self._inbox.release(name)
        self._revision = revision
        return LIST

    async def _fetch(self, names: tuple[Name, ...]) -> None:
        turn = asyncio.Semaphore(AT_ONCE)

        async def fetch(name: Name) -> None:
            async with turn:
                try:
                    self._take("MODIFIED", await self._hub.get(MANAGED_CLUSTERS, name[1], name[0]))
                except (NotFound, Forbidden):
                    self._inbox.release(name)  # Changed since then; the watch continues from before that.

        # All have ended when one has failed: none may be applied later, to the cache of another hub.
        for end in await asyncio.gather(*map(fetch, names), return_exceptions=True):
            if end is not None:
                raise end

    async def _watch(self, kind: str) -> bool:
        """Runs until the watch ends. Returns whether it delivered more than its confirmation, so that a hub that ends
        it at once is not hammered.
        """
        told = 0
        query = {"resourceVersion": self._revision, "fieldSelector": self._selector}
        query |= {"allowWatchBookmarks": "true", "confirm": "true"}
        async for event in self._hub.watch(MANAGED_CLUSTERS, query=query):
            told, obj = told + 1, event["object"]
            if event["type"] != "BOOKMARK":
                self._take(event["type"], obj)
            self._revision = obj["metadata"]["resourceVersion"]
            if event["type"] == "BOOKMARK" and not self.live:
                self._traffic.up(kind)
                # Reports may have been lost or held back meanwhile.
                self._inbox.tell_all()
        return told > 1

    def _take(self, kind: str, managed: Object) -> None:
        self._traffic.messages_in += 1
        time = rfc3339_micro(self._clock.now())
        self._inbox.take(of_watch(kind, managed, self._followed, self._worker, time))

    async def report(self, message: Message, report: Report) -> None:
        differs = report.status != fleet.status_of(message.managed)
        if report.kubeconfig and (differs or report.verify):
            await at_hub.publish_kubeconfig(self._hub, message, report.kubeconfig)
        if differs:
            self._traffic.messages_out += 1
            await self._hub.update(MANAGED_CLUSTERS, at_hub.status_body(message, report.status), "status", brief=True)

    async def acknowledge(self, message: Message) -> None:
        namespace, name = message.name
        await at_hub.withdraw_kubeconfig(self._hub, message)
        try:
            if fleet.has_finalizer(message.managed):
                self._traffic.messages_out += 1
                await self._hub.update(MANAGED_CLUSTERS, fleet.without_finalizer(message.managed))
        except NotFound:
            pass
        log.info("%s/%s: nothing is left of it; the hub was told", namespace, name)
