"""The events of this feature, written beside its work: nobody waits for them, and where too many wait the oldest go.

An event's name follows from what it says of what, so that it is not there twice after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from typing import Any

from shoal.client.requests import Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import API_VERSION
from shoal.objects.errors import StatusError
from shoal.provision.homes import Homes

log = logging.getLogger("shoal.provision")

Object = dict[str, Any]

EVENTS = Kind("", "v1", "events")
COMPONENT = "karpenter"
WAITING, AT_ONCE, LONGEST_MESSAGE = 10_000, 32, 1024
NORMAL, WARNING = "Normal", "Warning"


class Recorder:
    name = "provision-events"

    def __init__(self, homes: Homes, clock: Clock) -> None:
        self._homes, self._clock = homes, clock
        self._waiting: deque[tuple[str, Object]] = deque(maxlen=WAITING)
        self._ready = asyncio.Event()

    def record(self, cluster: str, kind: str, obj: Object, type_: str, reason: str, message: str) -> None:
        """`kind`: Pod, Node, NodePool or NodeClaim."""
        self._waiting.append((cluster, event(kind, obj, type_, reason, message, rfc3339(self._clock.now()))))
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
            await self._homes.client(cluster).create(EVENTS, body, body["metadata"]["namespace"])
        except (StatusError, Unreachable) as error:
            log.debug("event %s: %s", body["metadata"]["name"], error)


def event(kind: str, obj: Object, type_: str, reason: str, message: str, now: str) -> Object:
    metadata = obj["metadata"]
    namespace, name, uid = metadata.get("namespace", ""), metadata["name"], metadata.get("uid", "")
    sign = hashlib.sha256("\0".join((uid, reason, message)).encode()).hexdigest()[:16]
    version = "v1" if kind in ("Pod", "Node") else API_VERSION
    about = {"apiVersion": version, "kind": kind, "name": name, "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name[:236]}.{sign}", "namespace": namespace or "default"},
        "involvedObject": {**about, "namespace": namespace} if namespace else about,
        "type": type_,
        "reason": reason,
        "message": message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 4]} ...",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": f"{COMPONENT}-shoal",
    }
