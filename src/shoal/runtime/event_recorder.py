"""Records Events in the background: callers never wait, and a full queue drops its oldest entries.

Like upstream's event correlator, a repeated event raises a count instead of being created again, and events about one
object are rate limited. A burst is written at once and sustained load at a steady rate, so that recording costs less
than the work it reports. Event names follow the clock: a list, which is sorted by name, is in chronological order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339, rfc3339_micro
from shoal.objects.errors import NotFound, StatusError

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]

EVENTS = GroupVersionResource("", "v1", "events")
NORMAL, WARNING = "Normal", "Warning"
MAX_QUEUED = 4096
CACHE_SIZE = 4096
BATCH_SIZE = 32
BURST, QPS = 1000.0, 100.0
"""Limits for all events: burst, then events per second."""
LOW_RATE = (100.0, 20.0)
"""Burst and QPS for low-priority events, so that building a whole fleet at once is not slowed by its events."""
OBJECT_BURST, OBJECT_REFILL_SECONDS = 25, 300.0
"""Limits per object: burst, then one event every so many seconds."""
MAX_MESSAGE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class EventSource:
    """The reporting component, and the kind of the objects it reports about."""

    component: str
    api_version: str
    kind: str
    instance: str = ""
    host: str = ""
    """Node name, if the component is a kubelet."""


class PendingEvent(NamedTuple):
    source: EventSource
    cluster: str
    involved: Object
    """metadata of the involved object."""
    type: str
    reason: str
    message: str
    timestamp: float
    field_path: str = ""
    action: str = ""
    related: Object | None = None

    @property
    def correlation_key(self) -> tuple[str, ...]:
        """Equal for occurrences that are counted in one Event."""
        subject = (self.cluster, self.involved["uid"], self.field_path, self.source.component)
        return (*subject, self.type, self.reason, self.message)


class EventRecorder:
    """Must run alongside the controllers that use it. `client_for` returns the client of a logical cluster."""

    name = "event-recorder"

    def __init__(
        self, client_for: Callable[[str], Client], clock: Clock, rate: tuple[float, float] = (BURST, QPS)
    ) -> None:
        self._client_for, self._clock = client_for, clock
        self._burst, self._qps = rate
        self._queue: deque[PendingEvent] = deque(maxlen=MAX_QUEUED)
        self._ready = asyncio.Event()
        self._recorded: OrderedDict[tuple[str, ...], tuple[str, int]] = OrderedDict()
        """Name and count of the Event already written, by correlation key."""
        self._budgets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """Remaining tokens and when they were computed, by cluster and uid."""
        self._tokens, self._tokens_at = self._burst, clock.monotonic()
        self._last_suffix = 0

    def record(
        self,
        source: EventSource,
        cluster: str,
        obj: Object,
        type_: str,
        reason: str,
        message: str,
        *,
        field_path: str = "",
        action: str = "",
        related: Object | None = None,
    ) -> None:
        """`field_path` is the part of the object concerned. With an `action` the event has the form of events.k8s.io.
        `related` is another object of the same kind.
        """
        now, involved = self._clock.now(), obj["metadata"]
        if not self._allow((cluster, involved["uid"]), now):
            return
        other = related["metadata"] if related is not None else None
        self._queue.append(
            PendingEvent(source, cluster, involved, type_, reason, message, now, field_path, action, other)
        )
        self._ready.set()

    def _allow(self, subject: tuple[str, str], now: float) -> bool:
        tokens, tokens_at = self._budgets.pop(subject, (float(OBJECT_BURST), now))
        tokens = min(tokens + (now - tokens_at) / OBJECT_REFILL_SECONDS, OBJECT_BURST)
        _remember(self._budgets, subject, (tokens - 1 if tokens >= 1 else tokens, now))
        return tokens >= 1

    async def run(self) -> None:
        while True:
            await self._ready.wait()
            batch: dict[tuple[str, ...], tuple[PendingEvent, int]] = {}
            for _ in range(min(len(self._queue), BATCH_SIZE)):
                pending = self._queue.popleft()
                key = pending.correlation_key
                batch[key] = pending, batch[key][1] + 1 if key in batch else 1
            if not batch:
                self._ready.clear()
                continue
            await self._throttle(len(batch))
            await asyncio.gather(*(self._write(key, pending, times) for key, (pending, times) in batch.items()))

    async def _throttle(self, number: int) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._tokens_at) * self._qps, self._burst) - number
        self._tokens_at = now
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._qps)

    async def _write(self, key: tuple[str, ...], pending: PendingEvent, times: int) -> None:
        name, previous = self._recorded.pop(key, ("", 0))
        client, namespace = self._client_for(pending.cluster), _namespace_of(pending)
        try:
            if name:
                _remember(self._recorded, key, (name, previous + times))
                try:
                    await client.merge_patch(EVENTS, name, _repeat_patch(pending, previous + times), namespace)
                    return
                except NotFound:
                    pass  # events expire
            self._last_suffix = max(self._last_suffix + 1, int(pending.timestamp * 10**9))
            name = f"{pending.involved['name'][:236]}.{self._last_suffix:016x}"
            _remember(self._recorded, key, (name, times))
            await client.create(EVENTS, build_event(pending, name, times), namespace, metadata_only=True)
        except (StatusError, Unreachable) as error:
            log.debug("cannot record event %s: %s", name, error)


def _remember(cache: OrderedDict[Any, Any], key: object, value: object) -> None:
    cache[key] = value
    if len(cache) > CACHE_SIZE:
        cache.popitem(last=False)


def truncate_message(message: str) -> str:
    """Truncates to the API's limit, which is in bytes; longer messages are rejected."""
    data = message.encode()
    return message if len(data) <= MAX_MESSAGE_BYTES else f"{data[: MAX_MESSAGE_BYTES - 4].decode(errors='ignore')} ..."


def build_event(pending: PendingEvent, name: str, count: int = 1) -> Object:
    """The Event object. Events about a cluster-scoped object are in `default`."""
    source = pending.source
    body: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": _namespace_of(pending)},
        "involvedObject": _object_reference(source, pending.involved, pending.field_path),
        "type": pending.type,
        "reason": pending.reason,
        "message": truncate_message(pending.message),
        "reportingComponent": source.component,
        "reportingInstance": source.instance or source.host,
    }
    if pending.action:
        body |= {"action": pending.action, "eventTime": rfc3339_micro(pending.timestamp), "source": {}}
        body |= {"firstTimestamp": None, "lastTimestamp": None}
        if count > 1:
            body |= _repeat_patch(pending, count)
    else:
        timestamp = rfc3339(pending.timestamp)
        body["source"] = {"component": source.component, **({"host": source.host} if source.host else {})}
        body |= {"count": count, "firstTimestamp": timestamp, "lastTimestamp": timestamp}
    if pending.related is not None:
        body["related"] = _object_reference(source, pending.related)
    return body


def _repeat_patch(pending: PendingEvent, count: int) -> Object:
    """Merge patch for a repeated event."""
    if pending.action:
        return {"series": {"count": count, "lastObservedTime": rfc3339_micro(pending.timestamp)}}
    return {"count": count, "lastTimestamp": rfc3339(pending.timestamp)}


def _namespace_of(pending: PendingEvent) -> str:
    return pending.involved.get("namespace") or "default"


def _object_reference(source: EventSource, metadata: Object, field_path: str = "") -> Object:
    reference = {
        "apiVersion": source.api_version,
        "kind": source.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    for key, value in (
        ("namespace", metadata.get("namespace")),
        ("resourceVersion", metadata.get("resourceVersion")),
        ("fieldPath", field_path),
    ):
        if value:
            reference[key] = value
    return reference
