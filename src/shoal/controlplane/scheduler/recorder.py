"""The scheduler's events, written beside its work: nobody waits for them, and where too many wait the oldest go.

A burst is told at once, what goes on for long at a steady pace, so that telling costs less than doing. The names follow
the clock: a list of events, which is by name, tells the story in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339_micro
from shoal.controlplane.scheduler.decide import SCHEDULER
from shoal.controlplane.scheduler.home import Bind, Evict, Refusal
from shoal.controlplane.scheduler.pending import Waiting
from shoal.controlplane.scheduler.snapshot import Resident
from shoal.objects.errors import StatusError

log = logging.getLogger("shoal.controlplane.scheduler")

Object = dict[str, Any]
Pod = Waiting | Resident

EVENTS = Kind("", "v1", "events")
WAITING = 4096
AT_ONCE = 32
BURST, PER_SECOND = 1000.0, 100.0
LONGEST_MESSAGE = 1024


class Recorder:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._waiting: deque[tuple[str, Object]] = deque(maxlen=WAITING)
        self._ready = asyncio.Event()
        self._last = 0
        self._left, self._counted = BURST, clock.monotonic()

    def scheduled(self, cluster: str, bind: Bind) -> None:
        said = f"Successfully assigned {'/'.join(bind.pod.key)} to {bind.node}"
        self._record(cluster, bind.pod, "Normal", "Scheduled", "Binding", said)

    def failed(self, cluster: str, refusal: Refusal) -> None:
        self._record(cluster, refusal.pod, "Warning", "FailedScheduling", "Scheduling", refusal.message)

    def preempted(self, cluster: str, evict: Evict, victim: Resident) -> None:
        said = f"Preempted by pod {evict.pod.uid} on node {evict.plan.node}"
        self._record(cluster, victim, "Normal", "Preempted", "Preempting", said, evict.pod)

    def _record(
        self, cluster: str, pod: Pod, type_: str, reason: str, action: str, message: str, related: Pod | None = None
    ) -> None:
        now = self._clock.now()
        self._last = max(self._last + 1, int(now * 10**9))
        name = f"{pod.key[1][:236]}.{self._last:016x}"
        body = event(name, pod, type_, reason, action, message, now)
        if related is not None:
            body["related"] = _reference(related)
        self._waiting.append((cluster, body))
        self._ready.set()

    async def run(self) -> None:
        while True:
            await self._ready.wait()
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE))]
            if not batch:
                self._ready.clear()
                continue
            await self._pace(len(batch))
            await asyncio.gather(*(self._write(cluster, each) for cluster, each in batch))

    async def _pace(self, number: int) -> None:
        now = self._clock.monotonic()
        self._left = min(self._left + (now - self._counted) * PER_SECOND, BURST) - number
        self._counted = now
        if self._left < 0:
            await self._clock.sleep(-self._left / PER_SECOND)

    async def _write(self, cluster: str, body: Object) -> None:
        try:
            await self._client.at(cluster).create(EVENTS, body, body["metadata"]["namespace"])
        except (StatusError, Unreachable) as error:
            log.debug("event %s: %s", body["metadata"]["name"], error)


def event(name: str, pod: Pod, type_: str, reason: str, action: str, message: str, now: float) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": pod.key[0]},
        "involvedObject": _reference(pod),
        "type": type_,
        "reason": reason,
        "action": action,
        "message": message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 4]} ...",
        "eventTime": rfc3339_micro(now),
        "firstTimestamp": None,
        "lastTimestamp": None,
        "source": {},
        "reportingComponent": SCHEDULER,
        "reportingInstance": f"{SCHEDULER}-shoal",
    }


def _reference(pod: Pod) -> Object:
    namespace, name = pod.key
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": pod.uid}
