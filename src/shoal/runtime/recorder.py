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

from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339, rfc3339_micro
from shoal.objects.errors import NotFound, StatusError

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]

EVENTS = Kind("", "v1", "events")
NORMAL, WARNING = "Normal", "Warning"
WAITING = 4096
REMEMBERED = 4096
AT_ONCE = 32
BURST, PER_SECOND = 1000.0, 100.0
"""Limits for all events: burst, then events per second."""
QUIET = (100.0, 20.0)
"""Burst and QPS for low-priority events, so that building a whole fleet at once is not slowed by its events."""
OBJECT_BURST, REFILL_SECONDS = 25, 300.0
"""Limits per object: burst, then one event every so many seconds."""
LONGEST_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class Source:
    """The reporting component, and the kind of the objects it reports about."""

    component: str
    api_version: str
    kind: str
    instance: str = ""
    host: str = ""
    """Node name, if the component is a kubelet."""


class Happening(NamedTuple):
    source: Source
    cluster: str
    about: Object
    """metadata of the involved object."""
    type: str
    reason: str
    message: str
    at: float
    field: str = ""
    action: str = ""
    related: Object | None = None

    @property
    def same(self) -> tuple[str, ...]:
        """Equal for occurrences that are counted in one Event."""
        who = (self.cluster, self.about["uid"], self.field, self.source.component)
        return (*who, self.type, self.reason, self.message)


class Recorder:
    """Must run alongside the controllers that use it. `client_for` returns the client of a logical cluster."""

    def __init__(
        self, at: Callable[[str], Client], clock: Clock, pace: tuple[float, float] = (BURST, PER_SECOND)
    ) -> None:
        self._at, self._clock = at, clock
        self._burst, self._per_second = pace
        self._waiting: deque[Happening] = deque(maxlen=WAITING)
        self._ready = asyncio.Event()
        self._told: OrderedDict[tuple[str, ...], tuple[str, int]] = OrderedDict()
        """Name and count of the Event already written, by correlation key."""
        self._budgets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """Remaining tokens and when they were computed, by cluster and uid."""
        self._left, self._counted = self._burst, clock.monotonic()
        self._last = 0

    def record(
        self,
        source: Source,
        cluster: str,
        obj: Object,
        type_: str,
        reason: str,
        message: str,
        *,
        field: str = "",
        action: str = "",
        related: Object | None = None,
    ) -> None:
        """`field_path` is the part of the object concerned. With an `action` the event has the form of events.k8s.io.
        `related` is another object of the same kind.
        """
        now, about = self._clock.now(), obj["metadata"]
        if not self._affords((cluster, about["uid"]), now):
            return
        other = related["metadata"] if related is not None else None
        self._waiting.append(Happening(source, cluster, about, type_, reason, message, now, field, action, other))
        self._ready.set()

    def _affords(self, subject: tuple[str, str], now: float) -> bool:
        left, counted = self._budgets.pop(subject, (float(OBJECT_BURST), now))
        left = min(left + (now - counted) / REFILL_SECONDS, OBJECT_BURST)
        _remember(self._budgets, subject, (left - 1 if left >= 1 else left, now))
        return left >= 1

    async def run(self) -> None:
        while True:
            await self._ready.wait()
            batch: dict[tuple[str, ...], tuple[Happening, int]] = {}
            for _ in range(min(len(self._waiting), AT_ONCE)):
                one = self._waiting.popleft()
                same = one.same
                batch[same] = one, batch[same][1] + 1 if same in batch else 1
            if not batch:
                self._ready.clear()
                continue
            await self._pace(len(batch))
            await asyncio.gather(*(self._tell(same, one, times) for same, (one, times) in batch.items()))

    async def _pace(self, number: int) -> None:
        now = self._clock.monotonic()
        self._left = min(self._left + (now - self._counted) * self._per_second, self._burst) - number
        self._counted = now
        if self._left < 0:
            await self._clock.sleep(-self._left / self._per_second)

    async def _tell(self, same: tuple[str, ...], one: Happening, times: int) -> None:
        name, before = self._told.pop(same, ("", 0))
        client, namespace = self._at(one.cluster), _namespace(one)
        try:
            if name:
                _remember(self._told, same, (name, before + times))
                try:
                    await client.merge(EVENTS, name, _again(one, before + times), namespace)
                    return
                except NotFound:
                    pass  # events expire
            self._last = max(self._last + 1, int(one.at * 10**9))
            name = f"{one.about['name'][:236]}.{self._last:016x}"
            _remember(self._told, same, (name, times))
            await client.create(EVENTS, event(one, name, times), namespace, brief=True)
        except (StatusError, Unreachable) as error:
            log.debug("event %s: %s", name, error)


def _remember(among: OrderedDict[Any, Any], key: object, value: object) -> None:
    among[key] = value
    if len(among) > REMEMBERED:
        among.popitem(last=False)


def fitting(message: str) -> str:
    """Truncates to the API's limit, which is in bytes; longer messages are rejected."""
    data = message.encode()
    return message if len(data) <= LONGEST_MESSAGE else f"{data[: LONGEST_MESSAGE - 4].decode(errors='ignore')} ..."


def event(one: Happening, name: str, count: int = 1) -> Object:
    """The Event object. Events about a cluster-scoped object are in `default`."""
    source = one.source
    said: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": _namespace(one)},
        "involvedObject": _reference(source, one.about, one.field),
        "type": one.type,
        "reason": one.reason,
        "message": fitting(one.message),
        "reportingComponent": source.component,
        "reportingInstance": source.instance or source.host,
    }
    if one.action:
        said |= {"action": one.action, "eventTime": rfc3339_micro(one.at), "source": {}}
        said |= {"firstTimestamp": None, "lastTimestamp": None}
        if count > 1:
            said |= _again(one, count)
    else:
        stamp = rfc3339(one.at)
        said["source"] = {"component": source.component, **({"host": source.host} if source.host else {})}
        said |= {"count": count, "firstTimestamp": stamp, "lastTimestamp": stamp}
    if one.related is not None:
        said["related"] = _reference(source, one.related)
    return said


def _again(one: Happening, count: int) -> Object:
    """Merge patch for a repeated event."""
    if one.action:
        return {"series": {"count": count, "lastObservedTime": rfc3339_micro(one.at)}}
    return {"count": count, "lastTimestamp": rfc3339(one.at)}


def _namespace(one: Happening) -> str:
    return one.about.get("namespace") or "default"


def _reference(source: Source, metadata: Object, field: str = "") -> Object:
    said = {"apiVersion": source.api_version, "kind": source.kind, "name": metadata["name"], "uid": metadata["uid"]}
    for key, value in (
        ("namespace", metadata.get("namespace")),
        ("resourceVersion", metadata.get("resourceVersion")),
        ("fieldPath", field),
    ):
        if value:
            said[key] = value
    return said
