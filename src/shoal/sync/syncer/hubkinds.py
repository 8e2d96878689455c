"""Tracks which kinds the hub's process watches for its syncers: native and negotiated ones."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.kinds.apiresource import PUBLISHED, Api, api_of, has_subresource, parse_resource
from shoal.objects.conditions import condition_is
from shoal.objects.errors import StatusError
from shoal.sync.discovery import native
from shoal.sync.resources import NEGOTIATED
from shoal.sync.syncer.hub import AGAIN_SECONDS, Hub, Synced

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

BASIC = (
    Synced(Api("", "v1", "configmaps"), "ConfigMap", status=False),
    Synced(Api("", "v1", "secrets"), "Secret", status=False),
    Synced(Api("", "v1", "serviceaccounts"), "ServiceAccount", status=False),
)


class HubKinds:
    """Adds and removes watches of `hub` while it runs."""

    def __init__(self, client: Client, clock: Clock, hub: Hub, resources: list[str]) -> None:
        self._client, self._clock, self._hub = client, clock, hub
        self._wanted = [parse_resource(text) for text in resources]
        self.name = "syncer-kinds"
        self._negotiated = Reflector(client, NEGOTIATED, clock, self._learned)
        self._learned_as: dict[str, Synced] = {}
        self.basic: tuple[Synced, ...] = BASIC
        """Native kinds of the hub, which are synced to every cluster."""
        self.started = asyncio.Event()
        """`base_resources` is complete."""

    async def run(self) -> None:
        try:
            for synced in BASIC:
                self._hub.add(synced)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._negotiated.run())
                group.create_task(self._find_natives())
        finally:
            self._hub.close()

    async def _find_natives(self) -> None:
        for plural, group in self._wanted:
            if plural == "*" or not workload.may_travel(plural, group):
                continue
            while True:
                try:
                    found = await native(self._client, plural, group)
                except (StatusError, Unreachable) as error:
                    log.info("the hub: %s; again in %.0f s", error, AGAIN_SECONDS)
                    await self._clock.sleep(AGAIN_SECONDS)
                    continue
                break
            if found is not None:
                synced = Synced(
                    found.api,
                    found.resource["kind"],
                    "status" in found.subresources,
                    bool(found.resource["namespaced"]),
                )
                self.basic = (*(old for old in self.basic if old.api != synced.api), synced)
                self._hub.add(synced)
        self.started.set()

    def _learned(self, key: Key, obj: Object | None) -> None:
        before = self._learned_as.pop(key[2], None)
        now = synced_as(obj) if obj is not None and condition_is(obj, PUBLISHED) else None
        if now is not None:
            self._learned_as[key[2]] = now
            self._hub.add(now)
        if before is not None and before != now:
            self._hub.remove(before)


def synced_as(obj: Object) -> Synced | None:
    """The synced resource of an import or negotiated resource. None: objects of that kind are not syncable."""
    api, spec = api_of(obj), obj["spec"]
    if not workload.may_travel(api.plural, api.group):
        return None
    return Synced(api, spec["kind"], has_subresource(obj, "status"), spec.get("scope") != "Cluster")
