"""Informers of kinds that may not be served or not be readable: prices, templates.

Others wait for the first list, but only for a limited time. An unreadable kind counts as empty until it can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.informer import Informer

Object = dict[str, Any]
GroupKind = tuple[str, str]
NamespaceHandler = Callable[[str], None]
"""Called with the namespace in which something changed; empty: all namespaces."""

SYNC_TIMEOUT_SECONDS = 10.0


class OptionalInformer:
    def __init__(
        self, client: Client, gvr: GroupVersionResource, clock: Clock, on_change: NamespaceHandler, *, fields: str = ""
    ) -> None:
        self._clock, self._on_change = clock, on_change
        self.is_settled = False
        """True after the first list or the timeout: there is nothing to wait for."""
        self._informer = Informer(client, gvr, clock, fields=fields, poll_until_served=SYNC_TIMEOUT_SECONDS)
        self._informer.add_event_handler(self._on_event)
        self._informer.on_sync(self._on_sync)

    @property
    def has_synced(self) -> bool:
        """True if an object missing here does not exist."""
        return self._informer.has_synced

    def get(self, namespace: str, name: str) -> Object | None:
        return self._informer.get(("", namespace, name))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            group.create_task(self._settle_after_timeout())

    async def _settle_after_timeout(self) -> None:
        await self._clock.sleep(SYNC_TIMEOUT_SECONDS)
        self._on_sync()

    def _on_sync(self) -> None:
        if not self.is_settled:
            self.is_settled = True
            self._on_change("")

    def _on_event(self, key: Key, old: Object | None, new: Object | None) -> None:
        if self.is_settled:
            self._on_change(key[1])


class TemplateInformers:
    """Infrastructure and bootstrap templates of all kinds that MachineDeployments and node classes reference."""

    def __init__(self, management_client: Client, clock: Clock, on_change: NamespaceHandler) -> None:
        self._management_client, self._clock, self._on_change = management_client, clock, on_change
        self._requested: asyncio.Queue[GroupKind] = asyncio.Queue()
        self._informers: dict[GroupKind, OptionalInformer | None] = {}
        """None: the resource of the kind is not discovered yet."""
        self._missing: set[GroupKind] = set()

    @property
    def is_settled(self) -> bool:
        """True if every requested kind is synced, timed out or not served."""
        return all(key in self._missing or (each and each.is_settled) for key, each in self._informers.items())

    def get(self, namespace: str, reference: Object) -> Object | None:
        informer = self._informer_of(reference)
        return informer.get(namespace, str(reference.get("name"))) if informer is not None else None

    def has_synced(self, reference: Object) -> bool:
        """True if an object of the kind that `get` does not find does not exist."""
        informer = self._informer_of(reference)
        return informer is not None and informer.has_synced

    def _informer_of(self, reference: Object) -> OptionalInformer | None:
        """Starts to watch the kind on the first request."""
        key = str(reference.get("apiGroup") or ""), str(reference.get("kind") or "")
        if key not in self._informers and all(key):
            self._informers[key] = None
            self._requested.put_nowait(key)
        return self._informers.get(key)

    async def run(self) -> None:
        """Runs until it is cancelled. May be called again: every requested kind is then watched again."""
        self._requested = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            for key in self._informers:
                group.create_task(self._run_informer(key))
            while True:
                group.create_task(self._run_informer(await self._requested.get()))

    async def _run_informer(self, key: GroupKind) -> None:
        while (kind := await self._resolve(key)) is None:
            if key not in self._missing:
                self._missing.add(key)
                self._on_change("")
            await self._clock.sleep(SYNC_TIMEOUT_SECONDS)
        informer = self._informers[key] = OptionalInformer(self._management_client, kind, self._clock, self._on_change)
        self._missing.discard(key)
        await informer.run()

    async def _resolve(self, key: GroupKind) -> GroupVersionResource | None:
        try:
            return await resolve_kind(self._management_client, *key)
        except (StatusError, Unreachable):
            return None


async def resolve_kind(client: Client, group: str, kind: str, version: str = "") -> GroupVersionResource | None:
    """Discovers the resource of a kind in the preferred or given version; None if it is not served."""
    try:
        served = await client.get_path(f"/apis/{group}")
        preferred = (served.get("preferredVersion") or {}).get("version", "")
        others = [str(each["version"]) for each in served.get("versions") or ()]
        for candidate in [version] if version else dict.fromkeys([preferred, *others]):
            discovered = await client.get_path(f"/apis/{group}/{candidate}") if candidate else {}
            for each in discovered.get("resources") or ():
                if each["kind"] == kind and "/" not in each["name"]:
                    return GroupVersionResource(group, candidate, each["name"], each.get("namespaced", True))
    except NotFound:
        return None
    return None
