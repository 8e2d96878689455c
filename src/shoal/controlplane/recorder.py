"""Events about workloads, written beside the work: nobody waits for them, and where too many wait the oldest go.

As upstream's recorder does, the same event again is counted, not written anew, and an object of which there is too
much to tell is told of less often.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.objects.errors import NotFound, StatusError

log = logging.getLogger("shoal.controlplane")

Object = dict[str, Any]

EVENTS = Kind("", "v1", "events")
WAITING = 4096
REMEMBERED = 4096
AT_ONCE = 32
BURST, REFILL_SECONDS = 25, 300.0
"""Events about one object: so many at once, and then one each so many seconds."""
LONGEST_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class Source:
    """Who speaks, and of which kind are the objects it speaks about."""

    component: str
    api_version: str
    kind: str
    host: str = ""
    """The node, where a kubelet speaks."""


@dataclass(slots=True)
class _Told:
    name: str
    count: int


class Recorder:
    """Has to run like the loops that use it."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._waiting: deque[tuple[str, Object]] = deque(maxlen=WAITING)
        self._ready = asyncio.Event()
        self._told: OrderedDict[tuple[str, ...], _Told] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """Events left and when that was counted, by cluster and uid."""
        self._last = 0

    def record(
        self, source: Source, cluster: str, obj: Object, type_: str, reason: str, message: str, *, field: str = ""
    ) -> None:
        """`field`: which part of the object it is about."""
        now, metadata = self._clock.now(), obj["metadata"]
        if not self._affords((cluster, metadata["uid"]), now):
            return
        self._last = max(self._last + 1, int(now * 10**9))
        name = f"{metadata['name'][:236]}.{self._last:016x}"
        self._waiting.append((cluster, event(source, name, metadata, type_, reason, message, now, field)))
        self._ready.set()

    def _affords(self, subject: tuple[str, str], now: float) -> bool:
        left, counted = self._budgets.pop(subject, (float(BURST), now))
        left = min(left + (now - counted) / REFILL_SECONDS, BURST)
        _remember(self._budgets, subject, (left - 1 if left >= 1 else left, now))
        return left >= 1

    async def run(self) -> None:
        while True:
            await self._ready.wait()
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE))]
            if not batch:
                self._ready.clear()
            await asyncio.gather(*(self._write(cluster, body) for cluster, body in batch))

    async def _write(self, cluster: str, body: Object) -> None:
        about, client = body["involvedObject"], self._client.at(cluster)
        who = (cluster, about["uid"], about.get("fieldPath", ""), body["source"]["component"])
        same = (*who, body["type"], body["reason"], body["message"])
        namespace = body["metadata"]["namespace"]
        told = self._told.pop(same, None)
        try:
            if told is not None:
                _remember(self._told, same, _Told(told.name, told.count + 1))
                patch = {"count": told.count + 1, "lastTimestamp": body["lastTimestamp"]}
                try:
                    await client.merge(EVENTS, told.name, patch, namespace)
                    return
                except NotFound:
                    pass  # events go after a while
            _remember(self._told, same, _Told(body["metadata"]["name"], 1))
            await client.create(EVENTS, body, namespace)
        except (StatusError, Unreachable) as error:
            log.debug("event %s: %s", body["metadata"]["name"], error)


def _remember(among: OrderedDict[Any, Any], key: object, value: object) -> None:
    among[key] = value
    if len(among) > REMEMBERED:
        among.popitem(last=False)


def event(
    source: Source, name: str, about: Object, type_: str, reason: str, message: str, now: float, field: str = ""
) -> Object:
    """`about` is the metadata of the object. Events about one without a namespace are in `default`."""
    namespace, stamp = about.get("namespace") or "default", rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": source.api_version,
            "kind": source.kind,
            **({"namespace": about["namespace"]} if about.get("namespace") else {}),
            "name": about["name"],
            "uid": about["uid"],
            "resourceVersion": about.get("resourceVersion", ""),
            **({"fieldPath": field} if field else {}),
        },
        "type": type_,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "count": 1,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "source": {"component": source.component, **({"host": source.host} if source.host else {})},
        "reportingComponent": source.component,
        "reportingInstance": source.host,
    }
