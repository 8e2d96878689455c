"""Mirrors Events of a cluster about synced objects and their descendants to the hub: on request, read-only.

An Event about a downstream object is mirrored to its hub object. One about its pods or ReplicaSets, which the hub
lacks, is mirrored to the same hub object with the original object in the message. `kubectl describe` on the hub
therefore shows all of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.runtime.recorder import EVENTS, fitting
from shoal.sync.syncer.decide import is_ours
from shoal.sync.syncer.hub import Hub, Synced, Work
from shoal.sync.syncer.namespaces import Namespaces
from shoal.sync.syncer.travelling import object_named

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

UNSERVED_SECONDS = 60.0
WAITING = 1000
"""Limit of queued events; beyond it the oldest are dropped."""
MADE = ("Pod", "ReplicaSet", "Job", "ControllerRevision")
"""Kinds whose objects are created by others and named after them."""
KEPT = (
    *("involvedObject", "reason", "message", "type", "count", "series", "firstTimestamp", "lastTimestamp"),
    *("eventTime", "action", "source", "reportingComponent"),
)


class Mirror:
    """`hub_client` writes to the hub, `client` watches the cluster."""

    def __init__(
        self,
        cluster: str,
        client: Client,
        hub_client: Client,
        clock: Clock,
        hub_id: str,
        hub: Hub,
        namespaces: Namespaces,
        copies: Mapping[Synced, Reflector],
    ) -> None:
        self._cluster, self._hub_client, self._hub_id, self._hub = cluster, hub_client, hub_id, hub
        self._namespaces, self._copies = namespaces, copies
        self._events = Reflector(client, EVENTS, clock, self._changed, keep=_what_matters, unserved=UNSERVED_SECONDS)
        self._waiting: dict[Key, None] = {}
        self._news = asyncio.Event()

    async def run(self) -> None:
        await self._namespaces.listed.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._show())

    def _changed(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._waiting.pop(key, None)
            return
        self._waiting[key] = None
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._news.set()

    async def _show(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                event = self._events.objects.get(key)
                shown = self._shown(event) if event is not None else None
                if shown is not None:
                    await self._write(shown)

    def _shown(self, event: Object) -> Object | None:
        """The mirrored Event; None: it is not about a synced object."""
        involved = event["involvedObject"]
        found = self._subject(involved)
        if found is None:
            return None
        work, obj = found
        about = {"apiVersion": work.synced.api.group_version, "kind": work.synced.kind, "uid": obj["metadata"]["uid"]}
        about |= {"name": work.name, **({"namespace": work.namespace} if work.namespace else {})}
        message = str(event.get("message", ""))
        if (involved.get("kind"), involved.get("name")) != (work.synced.kind, work.name):
            message = f"{involved.get('kind')} {involved.get('name')}: {message}"
        metadata = {
            "name": f"{work.name[:200]}.{_digest(self._cluster, event['metadata']['uid'])}",
            "namespace": work.namespace or "default",
            "labels": {workload.MIRRORED: self._cluster},
        }
        told = {key: event[key] for key in KEPT if event.get(key) is not None}
        told |= {"involvedObject": about, "message": fitting(message), "reportingInstance": self._cluster}
        told.setdefault("reportingComponent", str((event.get("source") or {}).get("component") or "unknown"))
        return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, **told}

    def _subject(self, involved: Object) -> tuple[Work, Object] | None:
        namespace, kind, name = involved.get("namespace", ""), involved.get("kind"), str(involved.get("name", ""))
        best, length = None, 0
        for synced, reflector in self._copies.items():
            for candidate in [name] if synced.kind == kind else _makers(name) if kind in MADE else ():
                copy = reflector.objects.get(("", namespace, candidate))
                if copy is None or not is_ours(copy, self._hub_id) or "spec" not in copy:
                    continue
                there = self._namespaces.hub_name(namespace) if namespace else ""
                work = Work(synced, there, object_named(copy))
                obj = self._hub.seen(work)
                if obj is not None and len(candidate) > length:
                    best, length = (work, obj), len(candidate)
        return best

    async def _write(self, shown: Object) -> None:
        metadata = shown["metadata"]
        try:
            try:
                await self._hub_client.create(EVENTS, shown, metadata["namespace"], brief=True)
            except AlreadyExists:
                patch: Object = {
                    key: shown[key] for key in ("count", "lastTimestamp", "series", "message") if key in shown
                }
                await self._hub_client.merge(EVENTS, metadata["name"], patch, metadata["namespace"])
        except NotFound:
            return  # its namespace was deleted
        except (StatusError, Unreachable) as error:
            log.info("an event of %s is not shown: %s", self._cluster, error)


def _makers(name: str) -> list[str]:
    """Possible owner names: `web` and `web-5d6` for `web-5d6-x2x`."""
    parts = name.split("-")
    return ["-".join(parts[:count]) for count in range(1, len(parts))]


def _digest(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]


def _what_matters(event: Object) -> Object:
    metadata = event["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata}
    return {"metadata": kept, **{key: event[key] for key in KEPT if key in event}}
