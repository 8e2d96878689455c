"""Mirrors Events of a cluster about synced objects and their descendants to the hub: on request, read-only.

An Event about a downstream object is mirrored to its hub object. One about its pods or ReplicaSets, which the hub
lacks, is mirrored to the same hub object with the original object in the message. `kubectl describe` on the hub
therefore shows all of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any

from shoal.client.reflector import Key
from shoal.client.transport import Unreachable
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.runtime.event_recorder import EVENTS, truncate_message
from shoal.runtime.informer import Informer
from shoal.sync.syncer.decide import is_from_hub
from shoal.sync.syncer.deps import SyncerDeps
from shoal.sync.syncer.hub_informers import SyncKey
from shoal.sync.syncer.transform import hub_name

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

POLL_UNTIL_SERVED_SECONDS = 60.0
MAX_QUEUED = 1000
"""Limit of queued events; beyond it the oldest are dropped."""
DERIVED_KINDS = ("Pod", "ReplicaSet", "Job", "ControllerRevision")
"""Kinds whose objects are created by others and named after them."""
MIRRORED_FIELDS = (
    *("involvedObject", "reason", "message", "type", "count", "series", "firstTimestamp", "lastTimestamp"),
    *("eventTime", "action", "source", "reportingComponent"),
)


class EventMirror:
    def __init__(self, deps: SyncerDeps) -> None:
        self._cluster, self._hub_client, self._hub_id = deps.cluster, deps.hub_writer.client, deps.hub_id
        self._hub, self._namespaces, self._downstream = deps.hub, deps.namespaces, deps.downstream
        self._events = Informer(
            deps.client,
            EVENTS,
            deps.clock,
            transform=_strip_event,
            poll_until_served=POLL_UNTIL_SERVED_SECONDS,
            resumable=True,
        )
        self._events.add_event_handler(self._handle_event)
        self._queue: dict[Key, None] = {}
        self._wakeup = asyncio.Event()

    async def run(self) -> None:
        await self._namespaces.informer.wait_for_sync()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._run_mirror())

    def _handle_event(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._queue.pop(key, None)
            return
        self._queue[key] = None
        if len(self._queue) > MAX_QUEUED:
            del self._queue[next(iter(self._queue))]
        self._wakeup.set()

    async def _run_mirror(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._queue:
                key = next(iter(self._queue))
                del self._queue[key]
                event = self._events.get(key)
                mirrored = self._mirrored_event(event) if event is not None else None
                if mirrored is not None:
                    await self._write(mirrored)

    def _mirrored_event(self, event: Object) -> Object | None:
        """The mirrored Event; None: it is not about a synced object."""
        involved = event["involvedObject"]
        subject = self._hub_object_for(involved)
        if subject is None:
            return None
        sync_key, obj = subject
        involved_on_hub = {
            "apiVersion": sync_key.resource.api.group_version,
            "kind": sync_key.resource.kind,
            "uid": obj["metadata"]["uid"],
        }
        involved_on_hub |= {"name": sync_key.name, **({"namespace": sync_key.namespace} if sync_key.namespace else {})}
        message = str(event.get("message", ""))
        if (involved.get("kind"), involved.get("name")) != (sync_key.resource.kind, sync_key.name):
            message = f"{involved.get('kind')} {involved.get('name')}: {message}"
        metadata = {
            "name": f"{sync_key.name[:200]}.{_digest(self._cluster, event['metadata']['uid'])}",
            "namespace": sync_key.namespace or "default",
            "labels": {workloadcluster.MIRRORED_FROM_LABEL: self._cluster},
        }
        fields = {key: event[key] for key in MIRRORED_FIELDS if event.get(key) is not None}
        fields |= {
            "involvedObject": involved_on_hub,
            "message": truncate_message(message),
            "reportingInstance": self._cluster,
        }
        fields.setdefault("reportingComponent", str((event.get("source") or {}).get("component") or "unknown"))
        return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, **fields}

    def _hub_object_for(self, involved: Object) -> tuple[SyncKey, Object] | None:
        namespace, kind, name = involved.get("namespace", ""), involved.get("kind"), str(involved.get("name", ""))
        best, length = None, 0
        for resource, informer in self._downstream.items():
            for candidate in (
                [name] if resource.kind == kind else _owner_name_candidates(name) if kind in DERIVED_KINDS else ()
            ):
                copy = informer.get(("", namespace, candidate))
                if copy is None or not is_from_hub(copy, self._hub_id) or "spec" not in copy:
                    continue
                hub_namespace = self._namespaces.hub_name(namespace) if namespace else ""
                sync_key = SyncKey(resource, hub_namespace, hub_name(copy))
                obj = self._hub.get_full(sync_key)
                if obj is not None and len(candidate) > length:
                    best, length = (sync_key, obj), len(candidate)
        return best

    async def _write(self, mirrored: Object) -> None:
        metadata = mirrored["metadata"]
        try:
            try:
                await self._hub_client.create(EVENTS, mirrored, metadata["namespace"], metadata_only=True)
            except AlreadyExists:
                patch: Object = {
                    key: mirrored[key] for key in ("count", "lastTimestamp", "series", "message") if key in mirrored
                }
                await self._hub_client.merge_patch(EVENTS, metadata["name"], patch, metadata["namespace"])
        except NotFound:
            return  # its namespace was deleted
        except (StatusError, Unreachable) as error:
            log.info("cannot mirror an Event of workload Cluster %s: %s", self._cluster, error)


def _owner_name_candidates(name: str) -> list[str]:
    """Possible owner names: `web` and `web-5d6` for `web-5d6-x2x`."""
    parts = name.split("-")
    return ["-".join(parts[:count]) for count in range(1, len(parts))]


def _digest(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]


def _strip_event(event: Object) -> Object:
    metadata = event["metadata"]
    identity = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata}
    return {"metadata": identity, **{key: event[key] for key in MIRRORED_FIELDS if key in event}}
