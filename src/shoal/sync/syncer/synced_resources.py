"""Tracks which kinds the hub's process watches for its syncers: native and negotiated ones."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import GVR, PUBLISHED, gvr_of, has_subresource, parse_resource
from shoal.objects.conditions import condition_is
from shoal.objects.errors import StatusError
from shoal.runtime.informer import Informer
from shoal.sync.discovery import find_native_resource
from shoal.sync.resources import NEGOTIATED
from shoal.sync.syncer.hub_informers import RETRY_SECONDS, HubInformers, SyncedResource

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

BASE_RESOURCES = (
    SyncedResource(GVR("", "v1", "configmaps"), "ConfigMap", has_status=False),
    SyncedResource(GVR("", "v1", "secrets"), "Secret", has_status=False),
    SyncedResource(GVR("", "v1", "serviceaccounts"), "ServiceAccount", has_status=False),
)


class SyncedResourceTracker:
    """Adds and removes watches of `hub` while it runs."""

    def __init__(self, client: Client, clock: Clock, hub: HubInformers, resources: list[str]) -> None:
        self._client, self._clock, self._hub = client, clock, hub
        self._patterns = [parse_resource(text) for text in resources]
        self.name = "syncer-kinds"
        self._negotiated = Informer(client, NEGOTIATED, clock)
        self._negotiated.add_event_handler(self._on_negotiated)
        self.base_resources: tuple[SyncedResource, ...] = BASE_RESOURCES
        """Native kinds of the hub, which are synced to every cluster."""
        self.ready = asyncio.Event()
        """`base_resources` is complete."""

    async def run(self) -> None:
        try:
            for resource in BASE_RESOURCES:
                self._hub.add_resource(resource)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._negotiated.run())
                group.create_task(self._add_natives())
        finally:
            self._hub.close()

    async def _add_natives(self) -> None:
        for plural, group in self._patterns:
            if plural == "*" or not workloadcluster.is_syncable(plural, group):
                continue
            while True:
                try:
                    native_resource = await find_native_resource(self._client, plural, group)
                except (StatusError, Unreachable) as error:
                    log.info("API discovery of the hub failed: %s; retrying in %.0f s", error, RETRY_SECONDS)
                    await self._clock.sleep(RETRY_SECONDS)
                    continue
                break
            if native_resource is not None:
                resource = SyncedResource(
                    native_resource.api,
                    native_resource.resource["kind"],
                    "status" in native_resource.subresources,
                    bool(native_resource.resource["namespaced"]),
                )
                self.base_resources = (*(old for old in self.base_resources if old.api != resource.api), resource)
                self._hub.add_resource(resource)
        self.ready.set()

    def _on_negotiated(self, key: Key, old: Object | None, new: Object | None) -> None:
        previous, current = (
            synced_resource_of(obj) if obj is not None and condition_is(obj, PUBLISHED) else None for obj in (old, new)
        )
        if current is not None:
            self._hub.add_resource(current)
        if previous is not None and previous != current:
            self._hub.remove_resource(previous)


def synced_resource_of(obj: Object) -> SyncedResource | None:
    """The synced resource of an import or negotiated resource. None: objects of that kind are not syncable."""
    api, spec = gvr_of(obj), obj["spec"]
    if not workloadcluster.is_syncable(api.plural, api.group):
        return None
    return SyncedResource(api, spec["kind"], has_subresource(obj, "status"), spec.get("scope") != "Cluster")
