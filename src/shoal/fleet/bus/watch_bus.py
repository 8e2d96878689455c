"""The bus over the Kubernetes API: the worker watches the ManagedClusters assigned to it and writes their status.

The hub needs no publisher: its store orders and keeps the messages, and its watch resumes where it was cut. If it
cannot resume, the worker sends a digest of what it has and fetches what differs. What it knew before a restart is
loaded by `load_messages`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from shoal.client.rest import Client
from shoal.client.transport import Transport, Unreachable
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.bus import hub_api
from shoal.fleet.bus.cloudevents import event_from_watch
from shoal.fleet.bus.decide import diff_digest, held_revisions, prefers_full_list
from shoal.fleet.bus.interface import BusMessage, MessageHandler, Name, StatusReport
from shoal.fleet.bus.link_metrics import DIGEST, LIST, RESUME, LinkMetrics
from shoal.fleet.bus.message_cache import MessageCache
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import Expired, Forbidden, NotFound, StatusError


class ByteCounters(Protocol):
    bytes_in: int
    bytes_out: int


class MeteredTransport:
    def __init__(self, inner: Transport, counters: ByteCounters) -> None:
        self._inner, self._counters = inner, counters

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._counters.bytes_out += _head_size(method, path, query, headers) + len(body)
        status, response_headers, content = await self._inner.request(method, path, query, headers, body)
        self._counters.bytes_in += _head_size("", "", "", response_headers) + len(content)
        return status, response_headers, content

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        self._counters.bytes_out += _head_size(method, path, query, headers)
        status, chunks = await self._inner.stream(method, path, query, headers)
        return status, self._count_stream(chunks)

    async def _count_stream(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async with aclosing(chunks) as stream:  # type: ignore[type-var]
            async for chunk in stream:
                self._counters.bytes_in += len(chunk)
                yield chunk

    async def close(self) -> None:
        await self._inner.close()


def _head_size(method: str, path: str, query: str, headers: Mapping[str, str]) -> int:
    """Size of request line and headers in HTTP/1.1."""
    first = len(method) + len(path) + len(query) + 13
    return first + sum(len(name) + len(value) + 4 for name, value in headers.items())


log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]
LoadMessages = Callable[[str], Awaitable[list[BusMessage]]]
"""Returns the messages that were saved from the hub with that id."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between attempts, up to twice as long: a link that comes back after days is noticed within seconds, and a
thousand workers do not reconnect at once.
"""
MAX_CONCURRENT_FETCHES = 4
"""Objects fetched at a time, over as many connections."""


async def _load_nothing(_hub: str) -> list[BusMessage]:
    return []


class WatchBus:
    name = "fleet-bus"

    def __init__(
        self,
        hub: Client,
        worker: str,
        clock: Clock,
        load_messages: LoadMessages = _load_nothing,
        metrics: LinkMetrics | None = None,
    ) -> None:
        self._worker, self._clock, self._load_messages = worker, clock, load_messages
        self._metrics = metrics = metrics or LinkMetrics(clock)
        self._unmetered_hub = hub
        self._hub = hub.with_transport(lambda transport: MeteredTransport(transport, metrics))
        self._cache = MessageCache()
        self._selector = f"status.assignedWorker={worker}"
        self._hub_id = ""
        """Id of the hub that the cached messages are from."""
        self._resume_revision = ""
        """Everything up to here has been received; empty if that is not certain."""

    @property
    def is_live(self) -> bool:
        return self._metrics.is_live

    def lag_seconds(self) -> float:
        return self._metrics.lag_seconds()

    def add_event_handler(self, handler: MessageHandler) -> None:
        self._cache.add_event_handler(handler)

    def latest(self, name: Name) -> BusMessage | None:
        return self._cache.messages.get(name)

    async def hub_id(self) -> str:
        return await hub_api.hub_id(self._unmetered_hub)  # Called with every heartbeat, which is not bus traffic.

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if await self._watch(await self._prepare()):
                    pause = FIRST_PAUSE
                    continue
                log.info("watch of the hub ended without an event; retrying in %.1f s", pause)
            except Expired:
                self._resume_revision = ""
            except (StatusError, Unreachable) as error:
                self._metrics.mark_down()
                log.info("connection to the hub failed: %s; retrying in %.1f s", error, pause)
            except BaseException:
                self._metrics.mark_down()
                raise
            await self._clock.sleep(pause * (1 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _prepare(self) -> str:
        """Does what is possible before the watch. Returns how the link gets in sync again, if it is not."""
        hub_id = await hub_api.hub_id(self._hub)
        if hub_id != self._hub_id:
            self._cache.clear()
            self._resume_revision = ""
            for message in await self._load_messages(hub_id):
                self._cache.restore(message)
            self._hub_id = hub_id
        if self._resume_revision:
            return RESUME
        self._metrics.mark_down()
        return await self._resync()

    async def _resync(self) -> str:
        """Returns how the link was resynced."""
        known_revisions = held_revisions(self._cache.messages)
        if known_revisions.revisions:
            query = {"fieldSelector": self._selector, "digest": known_revisions.encode_digest}
            digest_response = await self._hub.request("GET", self._hub.resource_path(MANAGED_CLUSTERS), query)
            diff = diff_digest(known_revisions, digest_response)
            if diff is not None and not prefers_full_list(diff, known_revisions):
                await self._fetch(diff.fetch)
                for name in diff.released:
                    self._cache.release(name)
                self._resume_revision = digest_response["metadata"]["resourceVersion"]
                return DIGEST
        listed, revision = await self._hub.list_all(MANAGED_CLUSTERS, fields=self._selector)
        for managed in listed:
            self._apply("MODIFIED", managed)
        names = {(each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in listed}
        for name in self._cache.messages.keys() - names:
            self._cache.release(name)
        self._resume_revision = revision
        return LIST

    async def _fetch(self, names: tuple[Name, ...]) -> None:
        semaphore = asyncio.Semaphore(MAX_CONCURRENT_FETCHES)

        async def fetch(name: Name) -> None:
            async with semaphore:
                try:
                    self._apply("MODIFIED", await self._hub.get(MANAGED_CLUSTERS, name[1], name[0]))
                except (NotFound, Forbidden):
                    self._cache.release(name)  # Changed since then; the watch continues from before that.

        # All have ended when one has failed: none may be applied later, to the cache of another hub.
        for result in await asyncio.gather(*map(fetch, names), return_exceptions=True):
            if result is not None:
                raise result

    async def _watch(self, resync_kind: str) -> bool:
        """Runs until the watch ends. Returns whether it delivered more than its confirmation, so that a hub that ends
        it at once is not hammered.
        """
        event_count = 0
        query = {"resourceVersion": self._resume_revision, "fieldSelector": self._selector}
        query |= {"allowWatchBookmarks": "true", "confirm": "true"}
        async for event in self._hub.watch(MANAGED_CLUSTERS, query=query):
            event_count, obj = event_count + 1, event["object"]
            if event["type"] != "BOOKMARK":
                self._apply(event["type"], obj)
            self._resume_revision = obj["metadata"]["resourceVersion"]
            if event["type"] == "BOOKMARK" and not self.is_live:
                self._metrics.mark_up(resync_kind)
                # Reports may have been lost or held back meanwhile.
                self._cache.notify_all()
        return event_count > 1

    def _apply(self, watch_type: str, managed: Object) -> None:
        self._metrics.messages_in += 1
        time = rfc3339_micro(self._clock.now())
        self._cache.apply(event_from_watch(watch_type, managed, self._hub_id, self._worker, time))

    async def report(self, message: BusMessage, report: StatusReport) -> None:
        differs = report.status != infrav1.status_of(message.managed)
        if report.kubeconfig and (differs or report.verify_kubeconfig):
            await hub_api.publish_kubeconfig(self._hub, message, report.kubeconfig)
        if differs:
            self._metrics.messages_out += 1
            await self._hub.update(
                MANAGED_CLUSTERS, hub_api.status_body(message, report.status), "status", metadata_only=True
            )

    async def acknowledge(self, message: BusMessage) -> None:
        namespace, name = message.name
        await hub_api.delete_kubeconfig(self._hub, message)
        try:
            if infrav1.has_finalizer(message.managed):
                self._metrics.messages_out += 1
                await self._hub.update(MANAGED_CLUSTERS, infrav1.without_finalizer(message.managed))
        except NotFound:
            pass
        log.info("%s/%s: deleted; deletion reported to the hub", namespace, name)
