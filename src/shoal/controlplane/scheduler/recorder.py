"""The scheduler's events, written beside its work: nobody waits for them, and where too many wait the oldest go.

Their names follow the clock, so that a list of them, which is by name, tells the story in order.
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
from shoal.controlplane.scheduler.home import Bind, Refusal
from shoal.controlplane.scheduler.pending import Waiting
from shoal.objects.errors import StatusError

log = logging.getLogger("shoal.controlplane.scheduler")

Object = dict[str, Any]

EVENTS = Kind("", "v1", "events")
WAITING = 10_000
AT_ONCE = 32
LONGEST_MESSAGE = 1024


class Recorder:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._waiting: deque[tuple[str, Object]] = deque(maxlen=WAITING)
        self._ready = asyncio.Event()

    def scheduled(self, cluster: str, bind: Bind) -> None:
        said = f"Successfully assigned {'/'.join(bind.pod.key)} to {bind.node}"
        self._record(cluster, bind.pod, "Normal", "Scheduled", "Binding", said)

    def failed(self, cluster: str, refusal: Refusal) -> None:
        self._record(cluster, refusal.pod, "Warning", "FailedScheduling", "Scheduling", refusal.message)

    def _record(self, cluster: str, pod: Waiting, type_: str, reason: str, action: str, message: str) -> None:
        self._waiting.append((cluster, event(pod, type_, reason, action, message, self._clock.now())))
        self._ready.set()

    async def run(self) -> None:
        while True:
            await self._ready.wait()
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE))]
            if not batch:
                self._ready.clear()
            await asyncio.gather(*(self._write(cluster, each) for cluster, each in batch))

    async def _write(self, cluster: str, body: Object) -> None:
        try:
            await self._client.at(cluster).create(EVENTS, body, body["metadata"]["namespace"])
        except (StatusError, Unreachable) as error:
            log.debug("event %s: %s", body["metadata"]["name"], error)


def event(pod: Waiting, type_: str, reason: str, action: str, message: str, now: float) -> Object:
    namespace, name = pod.key
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": pod.uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name[:236]}.{int(now * 10**9):016x}", "namespace": namespace},
        "involvedObject": about,
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
